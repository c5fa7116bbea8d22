// SPDX-License-Identifier: Apache-2.0
#include "diag/import/link_history.h"

#include <algorithm>
#include <array>

namespace flare::import {
namespace {

constexpr std::array<std::string_view, 14> kVirtual = {"veth", "cali",  "docker", "br-", "virbr",
                                                       "lo",   "tap",   "tun",    "cni", "flannel",
                                                       "lxc",  "vxlan", "dummy",  "kube"};

// The interface: the last word of "mlx5_core 0000:9d:00.0 enp157s0f0np0".
bool IsVirtual(std::string_view device) {
  const size_t space = device.rfind(' ');
  if (space != std::string_view::npos) device.remove_prefix(space + 1);
  return device.empty() ||
         std::any_of(kVirtual.begin(), kVirtual.end(),
                     [&](std::string_view name) { return device.starts_with(name); });
}

}  // namespace

void LinkHistory::Up(std::string_view node, std::string_view device) {
  if (IsVirtual(device)) return;
  const auto key = std::pair(std::string(node), std::string(device));
  const auto found = links_.find(key);
  if (found != links_.end()) {
    found->second.up = true;
  } else if (links_.size() < kMostLinks) {
    links_[key].up = true;
  }
}

void LinkHistory::Down(std::string_view node, std::string_view device, bool had_carrier,
                       uint64_t at_unix_ns, std::string_view text) {
  if (IsVirtual(device)) return;
  const auto key = std::pair(std::string(node), std::string(device));
  if (!links_.contains(key) && links_.size() >= kMostLinks) return;
  Link& link = links_[key];
  if (link.up || had_carrier) {
    if (link.downs == 0) {
      link.first_unix_ns = at_unix_ns;
      link.text = text;
    }
    ++link.downs;
  }
  link.up = false;
}

void LinkHistory::AddTo(SignalList* signals, const std::string& source) const {
  for (const auto& [key, link] : links_) {
    if (link.downs == 0) continue;
    diag::HostSignal signal;
    signal.kind = diag::SignalKind::kLinkFlap;
    signal.at_unix_ns = link.first_unix_ns;
    signal.node = key.first;
    signal.device = key.second;
    signal.value = static_cast<double>(link.downs);
    signal.text = link.text;
    signal.source = source;
    signals->Add(signal);
    if (link.up) continue;
    signal.kind = diag::SignalKind::kLinkDown;
    signal.value.reset();
    signals->Add(std::move(signal));
  }
}

}  // namespace flare::import
