// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

// One line of a kernel log or system log taken apart, whatever wrote it:
//
//   [131453.740743] text                             dmesg
//   [Sun Feb 23 16:24:18 2025] text                  dmesg -T
//   kern  :warn  : 2025-01-21T04:41:44,283302+00:00 text    dmesg --decode --time-format=iso
//   2025-01-17T17:10:43+0000 host kernel: text       journalctl -o short-iso
//   Aug 17 06:18:01 host kernel: [ 966.5] text       syslog, journalctl
//   6,3964,206764307,-;text                          /dev/kmsg
//   <4>[ 3098.275560] text                           console, pstore
//   NVRM: Xid (PCI:0000:05:00): 79, text             a bare message that is known by its words
namespace flare::import {

struct KernelLine {
  bool recognised = false;  // it has one of the forms above
  bool local_time = false;  // a time without a zone, taken as UTC
  bool timeless = false;    // seconds since boot, or a date without a year: no point in time
  uint64_t at_unix_ns = 0;  // 0: not told
  std::string_view node;
  std::string_view message;
};

KernelLine ParseKernelLine(std::string_view line);

}  // namespace flare::import
