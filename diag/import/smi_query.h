// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/import/signal_list.h"

// `nvidia-smi -q`: for each GPU fields below headings, told by their indentation.
//
//   GPU 00000000:53:00.0
//       Clocks Event Reasons
//           HW Slowdown                       : Not Active
//               HW Thermal Slowdown           : Not Active
namespace flare::import {

// What one GPU's fields say. nullopt: not told, or "N/A".
struct SmiGpu {
  std::string address;
  std::string product;
  bool idle = false;
  bool hw_slowdown = false, hw_thermal = false, power_brake = false, sw_thermal = false,
       power_cap = false;
  std::optional<int64_t> sm_clock_mhz, max_sm_clock_mhz, utilization;
  std::optional<int64_t> volatile_uncorrectable, aggregate_uncorrectable;
  std::optional<int64_t> retired_single_bit, retired_double_bit, remapped_uncorrectable;
  bool retirement_pending = false, remapping_failed = false;
  std::optional<int64_t> link_width, max_link_width, link_generation, max_link_generation;
  std::optional<int64_t> temperature, slowdown_temperature;
  std::optional<int64_t> temperature_left, slowdown_temperature_left;  // to the limit
  std::string faults;  // "reset required", ...: fields that say so themselves
  bool lost = false;
};

class SmiQuery {
 public:
  // A line of the log after its heading. False: not one of it.
  void Take(std::string_view line);
  bool any() const { return !gpus_.empty(); }
  // What the GPUs say, compared with those of their model; then begins anew. `number` is the line
  // where the log begins.
  void Finish(uint64_t number, SignalList* signals, std::vector<std::string>* notes);

 private:
  static constexpr size_t kMostGpus = 1024;

  void TakeField(std::string_view key, std::string_view value);
  bool Under(std::string_view heading) const;

  std::vector<SmiGpu> gpus_;
  std::vector<std::pair<size_t, std::string>> path_;  // indentation and heading
  std::optional<int64_t> announced_;
};

}  // namespace flare::import
