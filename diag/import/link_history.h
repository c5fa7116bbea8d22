// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "diag/import/signal_list.h"

// Which network links went down, as a log tells it line by line.
//
// A port that says "down" before it ever said "up" has no cable: nothing is concluded from it. The
// virtual interfaces of containers come and go with them and are left out.
namespace flare::import {

class LinkHistory {
 public:
  static constexpr size_t kMostLinks = 10'000;

  void Up(std::string_view node, std::string_view device);
  // `had_carrier`: the words say that it was up before ("lost carrier").
  void Down(std::string_view node, std::string_view device, bool had_carrier, uint64_t at_unix_ns,
            std::string_view text);
  // One statement for each link that went down: kLinkFlap with the number of times, and kLinkDown
  // for those that never came up again.
  void AddTo(SignalList* signals, const std::string& source) const;

 private:
  struct Link {
    bool up = false;
    uint64_t downs = 0;  // from up
    uint64_t first_unix_ns = 0;
    std::string text;
  };
  std::map<std::pair<std::string, std::string>, Link> links_;  // by node and device
};

}  // namespace flare::import
