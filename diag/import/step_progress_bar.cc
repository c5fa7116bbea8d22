// SPDX-License-Identifier: Apache-2.0
// Progress bars of tqdm, as the Trainers of Hugging Face and PyTorch Lightning draw them:
//
//    45%|####      | 450/1000 [01:23<01:41,  5.41it/s]
//   Epoch 1:  45%|####  | 450/1000 [01:23<01:41,  5.41it/s, v_num=0, train_loss=2.1]
//
// The rate is smoothed over a time that is not told, so it shows no change; the time since the
// start is exact to a second. A reading is the time between two bars at least kSpanS apart over the
// steps between: 1 / kSpanS is its error. Of several bars the one that ran longest is taken; those
// of other work (validation, downloads) end sooner.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr uint64_t kSpanS = 50;
constexpr size_t kMostBars = 16;

struct Bar {
  uint64_t done = 0, total = 0, elapsed_s = 0;
  std::string what;  // before the bar, without its numbers: "Epoch : %"
};

// "01:23", "1:02:03", "1 day, 1:02:03".
std::optional<uint64_t> Elapsed(std::string_view text) {
  uint64_t seconds = 0;
  if (const size_t day = text.find(" day"); day != std::string_view::npos) {
    const auto days = WholeNumber<uint64_t>(Trim(text.substr(0, day)));
    const size_t comma = text.find(", ");
    if (!days || *days > 10'000 || comma == std::string_view::npos) return std::nullopt;
    seconds = *days * 86'400;
    text.remove_prefix(comma + 2);
  }
  uint64_t clock = 0;
  int parts = 0;
  for (; parts < 3 && !text.empty(); ++parts) {
    const size_t end = text.find(':');
    const auto part = WholeNumber<uint64_t>(text.substr(0, end));
    if (!part || *part > 100'000) return std::nullopt;
    clock = clock * 60 + *part;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts >= 2 && text.empty() ? std::optional(seconds + clock) : std::nullopt;
}

// "450/1000 [01:23<01:41,  5.41it/s".
std::optional<Bar> ParseBar(std::string_view line) {
  if (!Has(line, "it/s") && !Has(line, "s/it")) return std::nullopt;
  const size_t bracket = line.rfind(" [");
  const size_t bar_end = line.substr(0, bracket).rfind('|');
  if (bracket == std::string_view::npos || bar_end == std::string_view::npos) return std::nullopt;
  const std::string_view counts = Trim(line.substr(bar_end + 1, bracket - bar_end - 1));
  const size_t slash = counts.find('/');
  const size_t arrow = line.find('<', bracket);
  if (slash == std::string_view::npos || arrow == std::string_view::npos) return std::nullopt;
  const auto done = WholeNumber<uint64_t>(counts.substr(0, slash));
  const auto total = WholeNumber<uint64_t>(counts.substr(slash + 1));
  const auto elapsed = Elapsed(line.substr(bracket + 2, arrow - bracket - 2));
  if (!done || !total || !elapsed || *done > *total) return std::nullopt;
  Bar bar{*done, *total, *elapsed, ""};
  for (const char c : line.substr(0, std::min<size_t>(line.find('|'), 64))) {
    if (!IsDigit(c)) bar.what.push_back(c);
  }
  return bar;
}

class ProgressBarDialect : public StepDialect {
 public:
  const char* framework() const override { return "a progress bar"; }

  uint64_t readings() const override {
    const auto longest = Longest();
    return longest == bars_.end() ? 0 : longest->second.collector.readings();
  }

  void Take(const OutputLine& line) override {
    const std::optional<Bar> bar = ParseBar(line.text);
    if (!bar) return;
    const std::pair key(bar->what, bar->total);
    const auto known = bars_.find(key);
    if (known == bars_.end() && bars_.size() >= kMostBars) return;
    Track& track = known == bars_.end() ? bars_[key] : known->second;
    const bool begins = !track.begun || bar->done < track.done || bar->elapsed_s < track.elapsed_s;
    if (begins) {
      track.base += track.done;  // of the epochs before
      track.ran_s += track.elapsed_s;
      track.mark_done = bar->done;
      track.mark_s = bar->elapsed_s;
      track.begun = true;
    }
    track.done = bar->done;
    track.elapsed_s = bar->elapsed_s;
    if (bar->elapsed_s < track.mark_s + kSpanS || bar->done <= track.mark_done) return;
    StepReading reading;
    reading.step = track.base + bar->done;
    reading.seconds = static_cast<double>(bar->elapsed_s - track.mark_s) /
                      static_cast<double>(bar->done - track.mark_done);
    track.collector.Add(line.origin.rank, reading);
    track.mark_done = bar->done;
    track.mark_s = bar->elapsed_s;
  }

  void MoveTo(Fragment* fragment) override {
    const auto longest = Longest();
    if (longest == bars_.end()) return;
    bars_.at(longest->first).collector.MoveTo(fragment);
    fragment->notes.push_back("step times are from a progress bar: means over " +
                              std::to_string(kSpanS) + " s or more, exact to a second");
  }

 private:
  struct Track {
    StepCollector collector;
    bool begun = false;
    uint64_t base = 0, ran_s = 0;  // of the epochs before
    uint64_t done = 0, elapsed_s = 0;
    uint64_t mark_done = 0, mark_s = 0;  // at the last reading
  };
  using Bars = std::map<std::pair<std::string, uint64_t>, Track>;

  Bars::const_iterator Longest() const {
    auto longest = bars_.end();
    for (auto it = bars_.begin(); it != bars_.end(); ++it) {
      const Track& track = it->second;
      if (track.collector.readings() == 0) continue;
      if (longest == bars_.end() ||
          track.ran_s + track.elapsed_s > longest->second.ran_s + longest->second.elapsed_s) {
        longest = it;
      }
    }
    return longest;
  }

  Bars bars_;
};

}  // namespace

std::unique_ptr<StepDialect> MakeProgressBarDialect() {
  return std::make_unique<ProgressBarDialect>();
}

}  // namespace flare::import
