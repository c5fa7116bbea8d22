// SPDX-License-Identifier: Apache-2.0
// MLPerf training logs, one JSON object a line:
//
//   :::MLLOG {"time_ms": 1696466368958, "key": "tracked_stats",
//       "value": {"train_step_timing": 11.39}, "metadata": {"step": 4194304}}
//   :::MLLOG {... "key": "tracked_stats", "value": {"throughput": 35438.9}, ...}
//   :::MLLOG {... "key": "global_batch_size", "value": 128, ...}
//
// Submissions count progress in steps, samples or tokens as they like, so steps are numbered by
// their lines. Throughput is samples per second; over the global batch size it is a step time.
#include <algorithm>
#include <optional>

#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"
#include "diag/import/value.h"

namespace flare::import {
namespace {

class MlLogDialect : public StepDialect {
 public:
  const char* framework() const override { return "MLPerf logging"; }

  void Take(const OutputLine& line) override {
    const auto json = Between(line.text, ":::MLLOG ", "");
    if (!json) return;
    const bool stats = Has(*json, "\"tracked_stats\""), batch = Has(*json, "\"global_batch_size\"");
    const bool throughput = Has(*json, "\"throughput\"");
    if (!stats && !batch && !throughput) return;
    ValueStore store;
    const Result<Value> object = ReadJson(*json, &store);
    if (!object.ok()) return;
    const std::string_view key = (*object)["key"].text();
    const Value& value = (*object)["value"];
    if (key == "global_batch_size") {
      batch_ = value.number().value_or(batch_);
    } else if (key == "tracked_stats") {
      Add(line, *object, value);
    } else if (key == "throughput") {
      ++plain_lines_;
      StepReading reading;
      reading.step = plain_lines_;
      reading.seconds = TimeOfBatch(value.number());
      reading.at_unix_ns = TimeMs(*object);
      if (reading.seconds > 0) plain_.Add(line.origin.rank, reading);
    }
  }

  uint64_t readings() const override { return std::max(collector_.readings(), plain_.readings()); }

  void MoveTo(Fragment* fragment) override {
    // The same throughput may be told under a key of its own as well.
    (collector_.readings() > 0 ? collector_ : plain_).MoveTo(fragment);
    fragment->notes.push_back("steps are numbered by the lines that tell them");
  }

 private:
  static uint64_t TimeMs(const Value& object) {
    const int64_t ms = object["time_ms"].integer().value_or(0);
    return ms > 0 && ms < int64_t{1} << 43 ? static_cast<uint64_t>(ms) * 1'000'000 : 0;
  }

  double TimeOfBatch(std::optional<double> throughput) const {
    return throughput && *throughput > 0 && batch_ > 0 ? batch_ / *throughput : 0;
  }

  void Add(const OutputLine& line, const Value& object, const Value& value) {
    StepReading reading;
    for (const std::string_view name : {"train_step_timing", "step_time", "train_step_time"}) {
      if (const auto time = value[name].number()) reading.seconds = *time;
    }
    if (reading.seconds == 0) reading.seconds = TimeOfBatch(value["throughput"].number());
    if (reading.seconds == 0) return;
    reading.step = ++lines_;
    reading.samples = batch_;
    reading.at_unix_ns = TimeMs(object);
    collector_.Add(line.origin.rank, reading);
  }

  double batch_ = 0;
  uint64_t lines_ = 0, plain_lines_ = 0;
  StepCollector plain_;
};

}  // namespace

std::unique_ptr<StepDialect> MakeMlLogDialect() { return std::make_unique<MlLogDialect>(); }

}  // namespace flare::import
