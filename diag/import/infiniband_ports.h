// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "diag/import/signal_list.h"

// Ports of network adapters as ibstat, ibstatus or sysfs show them.
namespace flare::import {

struct AdapterPort {
  std::string device;    // "mlx5_0"
  std::string number;    // of the port: "1"
  std::string model;     // "MT4129"; empty: not told
  std::string layer;     // "InfiniBand", "Ethernet"
  std::string state;     // "Active", "Down", "Initializing"
  std::string physical;  // "LinkUp", "Disabled", "Polling"
  bool up() const;
};

inline constexpr size_t kMostPorts = 4096;

// A kLinkDown for each port that is not active, with the share of the ports like it that are. Which
// ports ought to be up, no such listing says.
void AddPortsDown(const std::vector<AdapterPort>& ports, const std::string& source,
                  SignalList* signals);

}  // namespace flare::import
