// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diag/model/job.h"

// What the frames of a stack mean, Python and native alike: the one table of functions by which we
// know that a thread waits for others, loads data, saves a checkpoint and so on.
//
// Files may be whole paths ("/usr/lib/python3/dist-packages/torch/x.py") or shortened as py-spy
// does ("torch/x.py"). Pure.
namespace flare::diag {

enum class Meaning : uint8_t {
  kNothing,       // only code that tells nothing
  kCollective,    // waits for all members of a group
  kPointToPoint,  // send or recv
  kGroupSetup,    // creates a communicator, or meets the others for the first time
  kDeviceWait,    // waits for its own device, and so for whatever that waits for
  kBackward,      // waits for the threads of the autograd engine
  kDataLoad,
  kCheckpoint,
  kGc,
  kFileSystem,
  kLock,      // waits for another thread or process of the program
  kNotARank,  // a launcher, a data worker, a compile worker: its waiting is its business
};

struct StackMeaning {
  Meaning meaning = Meaning::kNothing;
  size_t frame = 0;       // index of the frame that tells it
  std::string operation;  // of communication, as its function is called: "all_reduce"; may be empty
};

// `stack` is innermost first. A frame that tells something decides; of several the innermost, but a
// wait for the device inside a communication call is that call.
StackMeaning MeaningOf(const std::vector<StackFrame>& stack);

bool WaitsForPeers(Meaning meaning);  // collective, point-to-point, group setup

// Of Python, or of a package that people install rather than write.
bool IsLibraryFile(std::string_view file);

// Innermost frame of the user's own program, else the innermost of all; null without a stack.
const StackFrame* PlaceOf(const std::vector<StackFrame>& stack);

// The frame that called into the library at `frame`: the next one outside of torch. Null when there
// is none.
const StackFrame* CallerOf(const std::vector<StackFrame>& stack, size_t frame);

}  // namespace flare::diag
