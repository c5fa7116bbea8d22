// SPDX-License-Identifier: Apache-2.0
#include "diag/import/infiniband_ports.h"

#include <map>

namespace flare::import {

bool AdapterPort::up() const { return state == "Active" || state == "ACTIVE"; }

void AddPortsDown(const std::vector<AdapterPort>& ports, const std::string& source,
                  SignalList* signals) {
  struct Count {
    size_t all = 0, up = 0;
  };
  // The model where it is told, else the kind of network.
  const auto like = [](const AdapterPort& port) {
    return port.model.empty() ? port.layer : port.model;
  };
  std::map<std::string, Count> counts;
  for (const AdapterPort& port : ports) {
    Count& count = counts[like(port)];
    ++count.all;
    count.up += port.up() ? 1 : 0;
  }
  for (const AdapterPort& port : ports) {
    if (port.up() || port.state.empty()) continue;
    const Count& count = counts[like(port)];
    diag::HostSignal signal;
    signal.kind = diag::SignalKind::kLinkDown;
    signal.device = port.device + " port " + port.number;
    signal.value = static_cast<double>(count.up) / static_cast<double>(count.all);
    signal.text = port.state + ", " + (port.physical.empty() ? "?" : port.physical) + "; " +
                  std::to_string(count.up) + " of " + std::to_string(count.all) + " ports " +
                  (like(port).empty() ? "" : "of " + like(port) + " ") + "are up";
    signal.source = source;
    signals->Add(std::move(signal));
  }
}

}  // namespace flare::import
