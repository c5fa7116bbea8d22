// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/line_reader.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

// Metrics in Prometheus' text format, as dcgm-exporter, nvidia_gpu_exporter and dlrover's xpu_timer
// give them out:
//
//   DCGM_FI_DEV_XID_ERRORS{gpu="0",pci_bus_id="00000000:07:00.0",Hostname="n1"} 79
//   nvidia_smi_remapped_rows_pending{uuid="df6e7a7c-.."} 1
//   XPU_TIMER_COMMON_HANG{ip="11.36.23.0",job_name="j",local_rank="4",rank="4"} 1
//
// A metric is a moment or a sum since some beginning: only those that speak for themselves are
// used.
namespace flare::import {
namespace {

using diag::ClockLimit;
using diag::EccFact;
using diag::HostSignal;
using diag::SignalKind;

struct Sample {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string>> labels;
  double value = 0;
  uint64_t at_unix_ns = 0;

  std::string_view Label(std::string_view key) const {
    for (const auto& [name_of, text] : labels) {
      if (name_of == key) return text;
    }
    return {};
  }
};

// Takes `key="value",` off the front; false when it is none.
bool TakeLabel(std::string_view* text, Sample* sample) {
  const size_t equals = text->find("=\"");
  if (equals == std::string_view::npos || equals > 200) return false;
  const std::string_view key = Trim(text->substr(0, equals));
  text->remove_prefix(equals + 2);
  std::string value;
  while (!text->empty() && text->front() != '"') {
    if (text->front() == '\\' && text->size() > 1) text->remove_prefix(1);
    value.push_back(text->front());
    text->remove_prefix(1);
  }
  if (text->empty()) return false;
  text->remove_prefix(1);
  if (text->starts_with(',')) text->remove_prefix(1);
  if (sample->labels.size() < 64) sample->labels.emplace_back(key, std::move(value));
  return true;
}

std::optional<Sample> ParseSample(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  Sample sample;
  const size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  sample.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.front() == '{') {
    line.remove_prefix(1);
    while (!line.empty() && line.front() != '}') {
      if (!TakeLabel(&line, &sample)) return std::nullopt;
    }
    if (line.empty()) return std::nullopt;
    line.remove_prefix(1);
  }
  line = Trim(line);
  const auto value = LeadingDecimal(TakeWord(&line));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  sample.value = *value;
  if (const auto at_ms = WholeNumber<uint64_t>(line);
      at_ms && *at_ms < uint64_t{4'102'444'800'000}) {
    sample.at_unix_ns = *at_ms * 1'000'000;
  }
  return sample;
}

// A metric that is a statement when it is above zero.
struct Rule {
  std::string_view metric;
  SignalKind kind;
  int64_t code;
};

constexpr int64_t Code(EccFact fact) { return static_cast<int64_t>(fact); }
constexpr int64_t Code(ClockLimit limit) { return static_cast<int64_t>(limit); }

constexpr std::array kRules = {
    Rule{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", SignalKind::kEcc, Code(EccFact::kVolatileUncorrectable)},
    Rule{"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", SignalKind::kEcc, Code(EccFact::kAggregateUncorrectable)},
    Rule{"DCGM_FI_DEV_RETIRED_PENDING", SignalKind::kEcc, Code(EccFact::kRetirementPending)},
    Rule{"DCGM_FI_DEV_ROW_REMAP_PENDING", SignalKind::kEcc, Code(EccFact::kRetirementPending)},
    Rule{"DCGM_FI_DEV_ROW_REMAP_FAILURE", SignalKind::kEcc, Code(EccFact::kRetirementFailed)},
    Rule{"nvidia_smi_ecc_errors_uncorrected_volatile_total", SignalKind::kEcc,
         Code(EccFact::kVolatileUncorrectable)},
    Rule{"nvidia_smi_ecc_errors_uncorrected_aggregate_total", SignalKind::kEcc,
         Code(EccFact::kAggregateUncorrectable)},
    Rule{"nvidia_smi_retired_pages_pending", SignalKind::kEcc, Code(EccFact::kRetirementPending)},
    Rule{"nvidia_smi_remapped_rows_pending", SignalKind::kEcc, Code(EccFact::kRetirementPending)},
    Rule{"nvidia_smi_remapped_rows_failure", SignalKind::kEcc, Code(EccFact::kRetirementFailed)},
    Rule{"nvidia_smi_clocks_event_reasons_hw_thermal_slowdown", SignalKind::kGpuClock,
         Code(ClockLimit::kThermal)},
    Rule{"nvidia_smi_clocks_event_reasons_sw_thermal_slowdown", SignalKind::kGpuClock,
         Code(ClockLimit::kThermal)},
    Rule{"nvidia_smi_clocks_event_reasons_hw_power_brake_slowdown", SignalKind::kGpuClock,
         Code(ClockLimit::kPowerBrake)},
    Rule{"nvidia_smi_clocks_event_reasons_sw_power_cap", SignalKind::kGpuClock,
         Code(ClockLimit::kPowerCap)},
    Rule{"nvidia_smi_gpu_recovery_action", SignalKind::kNodeFault, 0},
    Rule{"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", SignalKind::kLinkErrors, 0},
    Rule{"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", SignalKind::kLinkErrors, 0},
    Rule{"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", SignalKind::kLinkErrors, 0},
    Rule{"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", SignalKind::kLinkErrors, 0},
};

// NVML's bits of throttle reasons.
constexpr std::array<std::pair<uint64_t, ClockLimit>, 5> kThrottleBits = {
    {{0x04, ClockLimit::kPowerCap},
     {0x08, ClockLimit::kOther},
     {0x20, ClockLimit::kThermal},
     {0x40, ClockLimit::kThermal},
     {0x80, ClockLimit::kPowerBrake}}};

class MetricReader {
 public:
  void Take(std::string_view line, uint64_t number) {
    const std::optional<Sample> sample = ParseSample(line);
    if (!sample) return;
    ++samples_;
    number_ = number;
    if (sample->name.starts_with("XPU_TIMER_")) TakeRank(*sample);
    if (sample->value <= 0) return;
    if (sample->name == "XPU_TIMER_COMMON_HANG") {
      Add(*sample, SignalKind::kDeviceHang, {});
    } else if (sample->name == "DCGM_FI_DEV_XID_ERRORS") {
      Add(*sample, SignalKind::kXid, static_cast<int64_t>(std::min(sample->value, 1e6)));
    } else if (sample->name == "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" ||
               sample->name == "DCGM_FI_DEV_CLOCKS_EVENT_REASONS") {
      TakeThrottle(*sample);
    } else {
      const auto rule = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& candidate) {
        return candidate.metric == sample->name;
      });
      if (rule != kRules.end()) {
        Add(*sample, rule->kind,
            rule->kind == SignalKind::kEcc || rule->kind == SignalKind::kGpuClock
                ? std::optional(rule->code)
                : std::nullopt);
      }
    }
  }

  Status MoveTo(Fragment* fragment) {
    signals_.MoveTo(fragment);
    for (auto& [rank, node] : ranks_) {
      RankFragment& entry = fragment->ranks.emplace_back();
      entry.rank = Rank(rank);
      entry.record.node = node;
    }
    fragment->identity = identity_;
    return samples_ == 0 ? Status::Error("no metric in it can be read") : Status::Ok();
  }

 private:
  void TakeRank(const Sample& sample) {
    constexpr size_t kMostRanks = 100'000;
    const auto rank = WholeNumber<uint32_t>(sample.Label("rank"));
    if (rank && (ranks_.size() < kMostRanks)) ranks_[*rank] = NodeOf(sample);
    if (identity_.empty()) identity_ = sample.Label("job_name");
  }

  static std::string NodeOf(const Sample& sample) {
    for (std::string_view key : {"Hostname", "hostname", "pod_name", "ip", "instance"}) {
      if (!sample.Label(key).empty()) return std::string(sample.Label(key));
    }
    return "";
  }

  static std::string DeviceOf(const Sample& sample) {
    if (!sample.Label("pci_bus_id").empty()) return std::string(sample.Label("pci_bus_id"));
    if (!sample.Label("gpu").empty()) return "GPU " + std::string(sample.Label("gpu"));
    return std::string(sample.Label("uuid"));
  }

  void TakeThrottle(const Sample& sample) {
    const auto bits = static_cast<uint64_t>(std::min(sample.value, 1e15));
    std::vector<ClockLimit> told;
    for (const auto& [bit, limit] : kThrottleBits) {
      const bool said = std::find(told.begin(), told.end(), limit) != told.end();
      // The bit of a hardware slowdown accompanies that of its reason.
      if (!(bits & bit) || said || (limit == ClockLimit::kOther && (bits & 0xc0))) continue;
      told.push_back(limit);
      Add(sample, SignalKind::kGpuClock, Code(limit));
    }
  }

  void Add(const Sample& sample, SignalKind kind, std::optional<int64_t> code) {
    HostSignal signal;
    signal.kind = kind;
    signal.at_unix_ns = sample.at_unix_ns;
    if (const auto rank = WholeNumber<uint32_t>(sample.Label("rank"))) signal.rank = Rank(*rank);
    signal.node = NodeOf(sample);
    signal.device = DeviceOf(sample);
    signal.code = code;
    if (kind == SignalKind::kEcc || kind == SignalKind::kLinkErrors) signal.value = sample.value;
    char text[32];
    std::snprintf(text, sizeof text, " %.10g", sample.value);
    signal.text = std::string(sample.name) + text;
    signal.source = "metrics, line " + std::to_string(number_);
    signals_.Add(std::move(signal));
  }

  SignalList signals_;
  std::map<uint32_t, std::string> ranks_;  // and their nodes
  std::string identity_;
  uint64_t samples_ = 0, number_ = 0;
};

}  // namespace

int RecognisePrometheus(std::string_view head) {
  int sure = 0;
  ForEachLine(head, 5000, [&](std::string_view line) {
    const std::string_view name = line.starts_with("# TYPE ") ? line.substr(7) : line;
    for (std::string_view prefix : {"DCGM_FI_", "nvidia_smi_", "XPU_TIMER_"}) {
      if (name.starts_with(prefix) && Has(line, " ")) sure = 90;
    }
    return sure == 0;
  });
  return sure;
}

Status ReadPrometheus(Input* input, Fragment* fragment) {
  MetricReader reader;
  LineReader lines(input);
  while (const auto line = lines.Next()) reader.Take(*line, lines.number());
  const Status status = reader.MoveTo(fragment);
  lines.AddNotes(fragment);
  return status;
}

}  // namespace flare::import
