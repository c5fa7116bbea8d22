// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/stack_dump.h"
#include "diag/import/text_scan.h"

// The flame graph that dlrover's xpu_timer draws from the stacks of all ranks of a job that hangs.
// Each box is a frame and says which ranks have it and which do not:
//
//   <title>barrier@/x/distributed_c10d.py:3943@6|0-5/7 (1 samples, 7.69%)</title>
//   <rect x="10.0" y="53" width="121.5" .../>
//
// A box lies on the one that called it. A thread of a rank is the way from the root to a box that
// has the rank while none of the boxes on it has. Other flame graphs say nothing about ranks.
namespace flare::import {
namespace {

constexpr size_t kMostBytes = 64 << 20;
constexpr size_t kMostBoxes = 200'000;
constexpr size_t kMostRanks = 100'000;
constexpr size_t kMostEntries = 4'000'000;  // ranks of all boxes together
constexpr double kRounding = 0.05;  // of positions in the drawing, which are written with one digit

struct Box {
  double x = 0, width = 0;
  long y = 0;
  std::string function, file;
  uint32_t line = 0;
  std::vector<uint32_t> ranks;
  size_t others = 0;        // ranks that do not have it
  size_t below = SIZE_MAX;  // the box it lies on
};

std::string Unescaped(std::string_view text) {
  std::string plain(text);
  // Twice: native names were escaped before they were drawn.
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, character] : {std::pair{"&lt;", '<'},
                                          {"&gt;", '>'},
                                          {"&quot;", '"'},
                                          {"&#39;", '\''},
                                          {"&amp;", '&'}}) {
      for (size_t at = plain.find(name); at != std::string::npos; at = plain.find(name, at + 1)) {
        plain.replace(at, std::string_view(name).size(), 1, character);
      }
    }
  }
  return plain;
}

// "0-2/6": ranks 0, 1, 2 and 6. False when it is not such a list.
bool ParseRanks(std::string_view text, std::vector<uint32_t>* ranks) {
  while (!text.empty()) {
    const size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    text.remove_prefix(slash == std::string_view::npos ? text.size() : slash + 1);
    const size_t dash = part.find('-');
    const auto first = WholeNumber<uint32_t>(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : WholeNumber<uint32_t>(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first >= kMostRanks ||
        ranks->size() + (*last - *first) >= kMostRanks) {
      return false;
    }
    for (uint32_t rank = *first; rank <= *last; ++rank) ranks->push_back(rank);
  }
  return true;
}

// "function@file:line@in|out (1 samples, 7.69%)"; both function and file may hold an '@'.
bool ParseTitle(std::string_view title, Box* box) {
  const size_t samples = title.rfind(" (");
  const size_t bar = title.substr(0, samples).rfind('|');
  const size_t at = title.substr(0, bar).rfind('@');
  if (samples == std::string_view::npos || bar == std::string_view::npos ||
      at == std::string_view::npos || at > bar) {
    return false;
  }
  std::vector<uint32_t> others;
  if (!ParseRanks(title.substr(at + 1, bar - at - 1), &box->ranks) ||
      !ParseRanks(title.substr(bar + 1, samples - bar - 1), &others)) {
    return false;
  }
  box->others = others.size();
  std::string_view frame = title.substr(0, at);
  const size_t file =
      frame.rfind("@/") != std::string_view::npos ? frame.rfind("@/") : frame.rfind('@');
  if (file == std::string_view::npos) return false;
  box->function = frame.substr(0, file);
  std::string_view path = frame.substr(file + 1);
  if (const size_t colon = path.rfind(':'); colon != std::string_view::npos) {
    if (const auto line = WholeNumber<uint32_t>(path.substr(colon + 1))) {
      box->line = *line;
      path = path.substr(0, colon);
    }
  }
  box->file = path;
  return true;
}

std::optional<double> Attribute(std::string_view tag, std::string_view name) {
  const auto value = Between(tag, " " + std::string(name) + "=\"", "\"");
  return value ? LeadingDecimal(*value) : std::nullopt;
}

struct Drawing {
  std::vector<Box> boxes;
  std::optional<long> root_y;
  size_t entries = 0;  // ranks of all boxes together
  uint64_t left_out = 0;
};

Drawing ReadBoxes(std::string_view text) {
  Drawing drawing;
  for (;;) {
    const size_t begin = text.find("<title>");
    if (begin == std::string_view::npos) return drawing;
    text.remove_prefix(begin + 7);
    const size_t end = text.find("</title>");
    if (end == std::string_view::npos) return drawing;
    const std::string title = Unescaped(text.substr(0, std::min<size_t>(end, 4096)));
    text.remove_prefix(end);
    const std::string_view tag = text.substr(0, text.find("/>")).substr(0, 1000);
    const auto x = Attribute(tag, "x"), y = Attribute(tag, "y"), width = Attribute(tag, "width");
    const auto sane = [](double value) { return value > -1e9 && value < 1e9; };
    if (!x || !y || !width || !sane(*x) || !sane(*y) || !sane(*width)) continue;
    if (title.starts_with("all (")) {
      drawing.root_y = static_cast<long>(*y);
      continue;
    }
    Box box;
    box.x = *x;
    box.width = *width;
    box.y = static_cast<long>(*y);
    if (!ParseTitle(title, &box)) continue;
    if (drawing.boxes.size() >= kMostBoxes || drawing.entries + box.ranks.size() > kMostEntries) {
      ++drawing.left_out;
      continue;
    }
    drawing.entries += box.ranks.size();
    drawing.boxes.push_back(std::move(box));
  }
}

// Finds for each box the one it lies on: the widest enough box of the row nearer to the root.
void Stack(std::vector<Box>* boxes, long root_y) {
  const auto height = [&](const Box& box) { return std::abs(box.y - root_y); };
  std::sort(boxes->begin(), boxes->end(), [&](const Box& a, const Box& b) {
    return std::pair(height(a), a.x) < std::pair(height(b), b.x);
  });
  size_t row = 0, row_below = 0;  // where the row and the one below it begin
  for (size_t i = 0; i < boxes->size(); ++i) {
    Box& box = (*boxes)[i];
    if (i > 0 && height(box) != height((*boxes)[i - 1])) {
      row_below = row;
      row = i;
    }
    if (row == 0) continue;  // the first row lies on the root
    const auto after = std::upper_bound(boxes->begin() + static_cast<long>(row_below),
                                        boxes->begin() + static_cast<long>(row), box.x + kRounding,
                                        [](double x, const Box& other) { return x < other.x; });
    if (after == boxes->begin() + static_cast<long>(row_below)) continue;
    const Box& candidate = *(after - 1);
    if (box.x + box.width <= candidate.x + candidate.width + kRounding) {
      box.below = static_cast<size_t>(after - 1 - boxes->begin());
    }
  }
}

class ThreadMaker {
 public:
  explicit ThreadMaker(StackDump* dump) : dump_(dump) {}

  void Make(const std::vector<Box>& boxes) {
    std::vector<std::set<uint32_t>> above(boxes.size());
    for (const Box& box : boxes) {
      if (box.below != SIZE_MAX) above[box.below].insert(box.ranks.begin(), box.ranks.end());
    }
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (uint32_t rank : boxes[i].ranks) {
        if (above[i].contains(rank)) continue;
        if (boxes[i].function == "State") {
          TakeState(boxes[i].file, rank);
        } else {
          AddThread(boxes, i, rank);
        }
      }
    }
  }

 private:
  size_t ProcessOf(uint32_t rank) {
    const auto found = processes_.find(rank);
    if (found != processes_.end()) return found->second;
    const size_t process = dump_->BeginProcess(Origin{"", Rank(rank)}, 0);
    processes_[rank] = process;
    return process;
  }

  // "R (running)", "S (sleeping)": of the process.
  void TakeState(std::string_view state, uint32_t rank) {
    DumpedProcess* process = dump_->process(ProcessOf(rank));
    if (process != nullptr && !state.empty()) process->run_state = state.front();
  }

  void AddThread(const std::vector<Box>& boxes, size_t leaf, uint32_t rank) {
    const size_t process = ProcessOf(rank);
    const StackDump::ThreadId thread = dump_->BeginThread(process, 0, "", "");
    size_t outermost = leaf;
    for (size_t i = leaf; i != SIZE_MAX; i = boxes[i].below) {
      dump_->AddFrame(thread, boxes[i].function, boxes[i].file, boxes[i].line);
      outermost = i;
    }
    const std::string& begin = boxes[outermost].function;
    DumpedProcess* owner = dump_->process(process);
    const bool main = begin == "<module>" || begin == "_start" || begin == "main" ||
                      begin.starts_with("__libc_start_");
    if (main && owner != nullptr && !owner->main) owner->main = thread.thread;
  }

  StackDump* dump_;
  std::map<uint32_t, size_t> processes_;
};

}  // namespace

int RecogniseStackSvg(std::string_view head) {
  // The boxes come after a long script, so all that is sure here is that it is a flame graph.
  if (!Has(head.substr(0, 512), "<svg") && !Has(head.substr(0, 512), "<?xml")) return 0;
  return Has(head, "lame graph") || Has(head, "lame Graph") || Has(head, "id=\"frames\"") ? 60 : 0;
}

Status ReadStackSvg(Input* input, Fragment* fragment) {
  const Result<std::string> text = input->ReadAll(kMostBytes);
  if (!text.ok()) return text.status();
  Drawing drawing = ReadBoxes(*text);
  if (drawing.boxes.empty() || !drawing.root_y) {
    return Status::Error(
        "a flame graph whose boxes do not say which ranks they belong to: how often a function was "
        "seen tells nothing about a job");
  }
  Stack(&drawing.boxes, *drawing.root_y);
  StackDump dump;
  ThreadMaker(&dump).Make(drawing.boxes);
  size_t world_size = 0;
  for (const Box& box : drawing.boxes) {
    world_size = std::max(world_size, box.ranks.size() + box.others);
  }
  dump.MoveTo(fragment);
  for (RankFragment& rank : fragment->ranks) rank.world_size = static_cast<uint32_t>(world_size);
  if (drawing.left_out > 0) {
    fragment->notes.push_back(Counted(drawing.left_out, "box") +
                              " of the graph left out: too many");
  }
  return Status::Ok();
}

}  // namespace flare::import
