// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/infiniband_ports.h"
#include "diag/import/line_reader.h"
#include "diag/import/text_scan.h"

// Output of ibstat and ibstatus:
//
//   CA 'mlx5_0'                                  Infiniband device 'mlx5_0' port 1 status:
//       CA type: MT4129                              state:       4: ACTIVE
//       Port 1:                                      phys state:  5: LinkUp
//           State: Active                            link_layer:  InfiniBand
//           Physical state: LinkUp
//           Link layer: InfiniBand
namespace flare::import {
namespace {

class PortReader {
 public:
  void Take(std::string_view text) {
    if (text.starts_with("CA '")) {
      device_ = Between(text, "'", "'").value_or("");
      model_.clear();
    } else if (text.starts_with("Infiniband device '")) {
      device_ = Between(text, "'", "'").value_or("");
      Begin(Between(text, " port ", " ").value_or("?"));
    } else if (text.starts_with("Port ") && text.ends_with(':')) {
      Begin(text.substr(5, text.size() - 6));
    } else if (text.starts_with("ibpanic: ")) {
      if (complaints.size() < 4) complaints.emplace_back(text.substr(0, 300));
    } else if (const size_t colon = text.find(": "); colon != std::string_view::npos) {
      TakeField(text.substr(0, colon), Trim(text.substr(colon + 2)));
    }
  }

  std::vector<AdapterPort> ports;
  std::vector<std::string> complaints;  // of the tool itself

 private:
  void Begin(std::string_view number) {
    if (ports.size() >= kMostPorts) return;
    AdapterPort& port = ports.emplace_back();
    port.device = device_.substr(0, 80);
    port.number = number.substr(0, 20);
    port.model = model_;
  }

  void TakeField(std::string_view key, std::string_view value) {
    value = value.substr(0, 80);
    if (key == "CA type") model_ = value;
    if (ports.empty()) return;
    AdapterPort& port = ports.back();
    // ibstatus puts the number of the state before its name: "4: ACTIVE".
    if (const size_t colon = value.find(": "); colon != std::string_view::npos) {
      value = Trim(value.substr(colon + 2));
    }
    if (key == "State" || key == "state") port.state = value;
    if (key == "Physical state" || key == "phys state") port.physical = value;
    if (key == "Link layer" || key == "link_layer") port.layer = value;
  }

  std::string device_, model_;
};

}  // namespace

int RecogniseInfiniband(std::string_view head) {
  bool device = false, state = false;
  ForEachLine(head, 400, [&](std::string_view line) {
    const std::string_view text = Trim(line);
    device = device || text.starts_with("CA '") || text.starts_with("Infiniband device '");
    state = state || text.starts_with("Physical state: ") || text.starts_with("phys state: ");
    return !(device && state);
  });
  return device && state ? 90 : 0;
}

Status ReadInfiniband(Input* input, Fragment* fragment) {
  PortReader reader;
  LineReader lines(input);
  while (const auto line = lines.Next()) reader.Take(Trim(*line));
  SignalList signals;
  AddPortsDown(reader.ports, "ibstat", &signals);
  signals.MoveTo(fragment);
  for (const std::string& complaint : reader.complaints) {
    fragment->notes.push_back("ibstat did not finish: " + complaint);
  }
  lines.AddNotes(fragment);
  return reader.ports.empty() ? Status::Error("no port of any adapter was found") : Status::Ok();
}

}  // namespace flare::import
