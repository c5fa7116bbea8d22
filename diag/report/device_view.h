// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "flare/v1/query.pb.h"

// Device work of a rank in the numbers that people compare. Pure, any thread.
//
// "Observed" is the time from the first to the last device activity of the steps: the spans of the
// steps and the pauses between them. Shares are of that time, 0 to 1. Intervals that run side by
// side count once within their kind, so compute, communication and memory may add up to more than
// busy.
namespace flare::diag {

struct DeviceShares {
  uint64_t observed_ns = 0;
  double busy = 0;  // anything runs
  double idle = 0;  // 1 - busy
  double compute = 0;
  double communication = 0;
  double memory = 0;
  double exposed = 0;        // communication with no compute kernel beside it
  double between_steps = 0;  // pauses from one step to the next
  // Part of the communication time that is hidden behind compute; absent without communication.
  std::optional<double> overlap;
};

// Absent when the device was not observed for any time.
std::optional<DeviceShares> SharesOf(const v1::DeviceStep& device);

// Of a distribution, in seconds; absent when it is empty.
std::optional<double> QuantileSeconds(const v1::QuantileSketch& sketch, double fraction);

}  // namespace flare::diag
