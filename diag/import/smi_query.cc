// SPDX-License-Identifier: Apache-2.0
#include "diag/import/smi_query.h"

#include <algorithm>
#include <map>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

using diag::ClockLimit;
using diag::EccFact;
using diag::HostSignal;
using diag::SignalKind;

void Add(std::optional<int64_t>* sum, std::string_view value) {
  if (const auto number = LeadingNumber(value)) *sum = sum->value_or(0) + *number;
}

class GpuSignals {
 public:
  GpuSignals(const SmiGpu& gpu, uint64_t number, SignalList* signals)
      : gpu_(gpu), source_("nvidia-smi -q, line " + std::to_string(number)), signals_(signals) {}

  void AddMemory() {
    AddEcc(EccFact::kVolatileUncorrectable, gpu_.volatile_uncorrectable,
           "uncorrectable memory errors since the driver was loaded");
    AddEcc(EccFact::kAggregateUncorrectable, gpu_.aggregate_uncorrectable,
           "uncorrectable memory errors over its life");
    if (gpu_.retired_single_bit || gpu_.retired_double_bit) {
      const int64_t single = gpu_.retired_single_bit.value_or(0);
      const int64_t two = gpu_.retired_double_bit.value_or(0);
      AddEcc(EccFact::kRetiredPages, single + two,
             "retired pages (" + std::to_string(single) + " for single bit errors, " +
                 std::to_string(two) + " for double bit errors)");
    }
    if (gpu_.retirement_pending) {
      AddEcc(EccFact::kRetirementPending, gpu_.remapped_uncorrectable.value_or(1),
             gpu_.remapped_uncorrectable ? "rows remapped for uncorrectable errors, more pending"
                                         : "page retirement pending");
    }
    if (gpu_.remapping_failed) AddEcc(EccFact::kRetirementFailed, 1, "row remapping failed");
  }

  void AddClocks() {
    if (gpu_.hw_thermal || gpu_.sw_thermal || TooHot()) {
      AddClock(ClockLimit::kThermal, TooHot() ? "at its slowdown temperature" : "thermal slowdown");
    }
    if (gpu_.power_brake) AddClock(ClockLimit::kPowerBrake, "power brake slowdown");
    if (gpu_.power_cap) AddClock(ClockLimit::kPowerCap, "software power cap");
    if (gpu_.hw_slowdown && !gpu_.hw_thermal && !gpu_.power_brake) {
      AddClock(ClockLimit::kOther, "hardware slowdown");
    }
  }

  void AddPcie(int64_t widest, int64_t fastest) {
    if (!gpu_.link_width || !gpu_.max_link_width) return;
    const bool narrow = *gpu_.link_width<*gpu_.max_link_width&& * gpu_.link_width> 0;
    // An idle link runs slower to save power; its width stays.
    const bool busy = gpu_.utilization.value_or(0) > 0 && !gpu_.idle;
    const bool slow = busy && gpu_.link_generation && gpu_.max_link_generation &&
                      *gpu_.link_generation < *gpu_.max_link_generation;
    if (!narrow && !slow) return;
    HostSignal signal = Signal(SignalKind::kPcieDegraded);
    double share =
        static_cast<double>(*gpu_.link_width) / static_cast<double>(*gpu_.max_link_width);
    signal.text = "PCIe x" + std::to_string(*gpu_.link_width) + " of x" +
                  std::to_string(*gpu_.max_link_width);
    if (slow) {
      // Each generation doubles the rate of the one before.
      const int64_t behind =
          *gpu_.max_link_generation - std::max<int64_t>(*gpu_.link_generation, 1);
      for (int64_t i = 0; i < std::min<int64_t>(behind, 8); ++i) share /= 2;
      signal.text += ", generation " + std::to_string(*gpu_.link_generation) + " of " +
                     std::to_string(*gpu_.max_link_generation);
    }
    signal.value = share;
    signal.code = *gpu_.link_width < widest || (slow && *gpu_.link_generation < fastest) ? 1 : 0;
    signals_->Add(std::move(signal));
  }

  void AddFaults() {
    if (gpu_.lost) {
      HostSignal signal = Signal(SignalKind::kGpuLost);
      signal.text = "GPU is lost";
      signals_->Add(std::move(signal));
    }
    if (gpu_.faults.empty()) return;
    HostSignal signal = Signal(SignalKind::kNodeFault);
    signal.text = gpu_.faults;
    signals_->Add(std::move(signal));
  }

 private:
  bool TooHot() const {
    if (gpu_.temperature && gpu_.slowdown_temperature) {
      return *gpu_.temperature >= *gpu_.slowdown_temperature;
    }
    return gpu_.temperature_left && gpu_.slowdown_temperature_left &&
           *gpu_.temperature_left <= *gpu_.slowdown_temperature_left;
  }

  HostSignal Signal(SignalKind kind) const {
    HostSignal signal;
    signal.kind = kind;
    signal.device = gpu_.address;
    signal.source = source_;
    return signal;
  }

  void AddEcc(EccFact fact, std::optional<int64_t> count, const std::string& words) {
    if (!count || *count <= 0) return;
    HostSignal signal = Signal(SignalKind::kEcc);
    signal.code = static_cast<int64_t>(fact);
    signal.value = static_cast<double>(*count);
    signal.text = std::to_string(*count) + " " + words;
    signals_->Add(std::move(signal));
  }

  void AddClock(ClockLimit limit, const std::string& words) {
    HostSignal signal = Signal(SignalKind::kGpuClock);
    signal.code = static_cast<int64_t>(limit);
    const bool held =
        gpu_.sm_clock_mhz && gpu_.max_sm_clock_mhz.value_or(INT64_MAX) > *gpu_.sm_clock_mhz;
    if (held) signal.value = static_cast<double>(*gpu_.sm_clock_mhz);
    signal.text = words;
    if (gpu_.sm_clock_mhz && gpu_.max_sm_clock_mhz) {
      signal.text += ", SM clock " + std::to_string(*gpu_.sm_clock_mhz) + " of " +
                     std::to_string(*gpu_.max_sm_clock_mhz) + " MHz";
    }
    if (gpu_.utilization) {
      signal.text += ", utilization " + std::to_string(*gpu_.utilization) + " %";
    }
    signals_->Add(std::move(signal));
  }

  const SmiGpu& gpu_;
  const std::string source_;
  SignalList* signals_;
};

}  // namespace

bool SmiQuery::Under(std::string_view heading) const {
  return std::any_of(path_.begin(), path_.end(),
                     [&](const auto& entry) { return entry.second == heading; });
}

void SmiQuery::Take(std::string_view line) {
  const size_t indent = line.find_first_not_of(' ');
  if (indent == std::string_view::npos) return;
  const std::string_view text = Trim(line);
  while (!path_.empty() && path_.back().first >= indent) path_.pop_back();
  if (indent == 0 && text.starts_with("GPU ") && Has(text, ":") && !Has(text, " : ")) {
    if (gpus_.size() < kMostGpus) gpus_.emplace_back().address = text.substr(4, 40);
    path_.clear();
    return;
  }
  const size_t colon = text.find(" : ");
  const std::string_view key = Trim(text.substr(0, colon));
  if (colon == std::string_view::npos) {
    if (path_.size() < 16) path_.emplace_back(indent, std::string(key.substr(0, 80)));
    return;
  }
  const std::string_view value = Trim(text.substr(colon + 3));
  if (gpus_.empty()) {
    if (key == "Attached GPUs") announced_ = LeadingNumber(value);
    return;
  }
  TakeField(key, value);
  // "HW Slowdown : Not Active" is a field and the heading of those below it.
  if (path_.size() < 16) path_.emplace_back(indent, std::string(key.substr(0, 80)));
}

void SmiQuery::TakeField(std::string_view key, std::string_view value) {
  SmiGpu& gpu = gpus_.back();
  const auto number = LeadingNumber(value);
  if (value == "GPU is lost" || Has(value, "fallen off the bus")) gpu.lost = true;
  if (key == "Product Name") {
    gpu.product = value.substr(0, 80);
  } else if (Under("Clocks Event Reasons") || Under("Clocks Throttle Reasons")) {
    const bool active = value == "Active";
    if (key == "Idle") gpu.idle = active;
    if (key == "SW Power Cap") gpu.power_cap = active;
    if (key == "HW Slowdown") gpu.hw_slowdown = active;
    if (key == "HW Thermal Slowdown") gpu.hw_thermal = active;
    if (key == "HW Power Brake Slowdown") gpu.power_brake = active;
    if (key == "SW Thermal Slowdown") gpu.sw_thermal = active;
  } else if (Under("ECC Errors")) {
    // Newer drivers: "DRAM Uncorrectable"; older ones: "Total" below "Double Bit".
    const bool uncorrectable = Has(key, "Uncorrectable") || (Under("Double Bit") && key == "Total");
    if (uncorrectable && Under("Volatile")) Add(&gpu.volatile_uncorrectable, value);
    if (uncorrectable && Under("Aggregate")) Add(&gpu.aggregate_uncorrectable, value);
    if (key == "SRAM Threshold Exceeded" && value == "Yes")
      gpu.faults += "SRAM threshold exceeded; ";
  } else if (Under("Retired Pages")) {
    if (key == "Single Bit ECC") gpu.retired_single_bit = number;
    if (key == "Double Bit ECC") gpu.retired_double_bit = number;
    if (key.starts_with("Pending") && value == "Yes") gpu.retirement_pending = true;
  } else if (Under("Remapped Rows")) {
    if (key == "Uncorrectable Error") gpu.remapped_uncorrectable = number;
    if (key == "Pending" && value == "Yes") gpu.retirement_pending = true;
    if (key == "Remapping Failure Occurred" && value == "Yes") gpu.remapping_failed = true;
  } else if (Under("Temperature")) {
    if (key == "GPU Current Temp") gpu.temperature = number;
    if (key == "GPU Slowdown Temp") gpu.slowdown_temperature = number;
    if (key == "GPU T.Limit Temp") gpu.temperature_left = number;
    if (key == "GPU Slowdown T.Limit Temp") gpu.slowdown_temperature_left = number;
  } else if (Under("PCIe Generation")) {
    if (key == "Max") gpu.max_link_generation = number;
    if (key == "Current") gpu.link_generation = number;
  } else if (Under("Link Width")) {
    if (key == "Max") gpu.max_link_width = number;
    if (key == "Current") gpu.link_width = number;
  } else if (Under("Utilization")) {
    if (key == "Gpu" || key == "GPU") gpu.utilization = number;
  } else if (key == "SM" && Under("Clocks")) {
    gpu.sm_clock_mhz = number;
  } else if (key == "SM" && Under("Max Clocks")) {
    gpu.max_sm_clock_mhz = number;
  } else if ((key == "Reset Required" || key == "Drain and Reset Recommended") && value == "Yes") {
    gpu.faults += std::string(key) + "; ";
  } else if (key == "GPU Recovery Action" && value != "None" && value != "N/A") {
    gpu.faults += "recovery action: " + std::string(value.substr(0, 80)) + "; ";
  }
}

void SmiQuery::Finish(uint64_t number, SignalList* signals, std::vector<std::string>* notes) {
  std::map<std::string, std::pair<int64_t, int64_t>> best;  // by product: width and generation
  for (const SmiGpu& gpu : gpus_) {
    auto& [width, generation] = best[gpu.product];
    width = std::max(width, gpu.link_width.value_or(0));
    generation = std::max(generation, gpu.link_generation.value_or(0));
  }
  for (const SmiGpu& gpu : gpus_) {
    GpuSignals writer(gpu, number, signals);
    writer.AddMemory();
    writer.AddClocks();
    const auto& [width, generation] = best[gpu.product];
    writer.AddPcie(width, generation);
    writer.AddFaults();
  }
  if (announced_ && *announced_ != static_cast<int64_t>(gpus_.size())) {
    notes->push_back("nvidia-smi -q at line " + std::to_string(number) + " announces " +
                     Counted(static_cast<uint64_t>(std::max<int64_t>(*announced_, 0)), "GPU") +
                     " and tells of " + std::to_string(gpus_.size()) +
                     ": it is cut off, or was asked for some only");
  }
  gpus_.clear();
  path_.clear();
  announced_.reset();
}

}  // namespace flare::import
