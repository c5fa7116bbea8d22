// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/recorder.h"

// What the current thread is launching on a gloo process group, from the call of a collective to
// the hand-over of its work to gloo's own threads.
//
//   allreduce(...)              LaunchBegin: operation, bytes
//     nextTag()                 LaunchTag: the sequence number
//     enqueue(work)             LaunchEnqueue: remembered under the work's address
//   return                      LaunchEnd
//   gloo's thread: execute(work)   ExecuteBegin .. ExecuteEnd: an open call, then an event
//
// One collective may be carried out by another one of the same group, and one launch may hand over
// several works: each has its own sequence number and is a collective of its own. A launch that an
// exception cut short is overwritten by the next. All functions do nothing when nothing is
// recorded.
namespace flare {

enum class LaunchStyle : uint8_t {
  kQueued,    // hands work over
  kBatch,     // hands several works over, by calling the single collective for each
  kBlocking,  // does its work in the call itself
};

// Where a hook was called and what it forwards to. A call that comes out of the function which the
// launch under way forwards to only helps to carry that out.
struct Site {
  const void* caller;  // return address of the hook
  const void* frame;   // stack address of the hook
  const void* real;    // the function that the hook stands in for
};

// False when the call only helps another one.
bool LaunchBegin(const void* group, const Call& call, LaunchStyle style, const Site& site);
void LaunchTag(const void* group, uint32_t tag);
void LaunchEnqueue(const void* group, const void* work);
void LaunchEnd();

struct Execution {
  CallToken token;
  Call call;
  CommSlot* slot = nullptr;
  bool known = false;
};
void ExecuteBegin(const void* work, const void* frame, Execution* execution);
void ExecuteEnd(const Execution& execution);
// The work that this thread executes has ended in an error.
void ExecuteFailed();

// Point to point: `call` has all but the communicator and the sequence number. The wait for `work`
// is then an execution like that of a collective.
void TransferLaunch(const void* group, const Call& call, const void* work);

// True when a call only helps to carry out the one under way: no event of its own.
bool IsHelperCall(const void* group, const Site& site);

}  // namespace flare
