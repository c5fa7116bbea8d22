// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "libflare/debug_log.h"
#include "libflare/hooks/gloo_group.h"
#include "libflare/hooks/gloo_launch.h"
#include "libflare/hooks/gloo_object.h"
#include "libflare/hooks/gloo_symbols.h"
#include "libflare/hooks/real.h"
#include "libflare/recorder.h"

// The collectives and transfers of PyTorch's gloo back end.
//
// Each hook stands under the linker name of the real function (gloo_symbols.h), so that the virtual
// tables and the calls inside PyTorch lead here; it forwards its arguments as they came, exactly
// once. PyTorch's exceptions pass through these frames, which is why none of them has anything to
// clean up: an interrupted launch is overwritten by the next, an open call closed by the next.
#define FLARE_HOOK(symbol) __asm__(symbol) __attribute__((visibility("default")))
#define FLARE_CALLER __builtin_return_address(0)
#define FLARE_FRAME __builtin_frame_address(0)

namespace flare {
namespace {

Call Collective(Operation operation) {
  Call call;
  call.kind = EventKind::kCollective;
  call.operation = operation;
  return call;
}

Call Transfer(EventKind kind, Operation operation, int peer, const VectorRef* tensors) {
  Call call;
  call.kind = kind;
  call.operation = operation;
  call.peer = peer;
  call.launch_ticks = NowTicks();
  Payload payload;
  payload.Add(tensors);
  payload.Fill(&call);
  return call;
}

// Options whose first member is the root's rank in the group (broadcast, gather, scatter).
int32_t RootOf(const void* options) {
  const int64_t root = *static_cast<const int64_t*>(options);
  return root >= 0 && root < INT32_MAX ? static_cast<int32_t>(root) : kNoPeer;
}

// What a hook reads of its arguments before it forwards them.
struct Reading {
  LaunchStyle style = LaunchStyle::kQueued;
  const TensorRef* tensor = nullptr;
  const VectorRef* tensors = nullptr;
  const VectorRef* lists = nullptr;
  const void* rooted_options = nullptr;
  bool may_differ = false;
};

bool BeginCollective(const void* group, Operation operation, const Reading& reading,
                     const Site& site) {
  Call call = Collective(operation);
  Payload payload;
  if (reading.tensor != nullptr) payload.Add(reading.tensor);
  if (reading.tensors != nullptr) payload.Add(reading.tensors);
  if (reading.lists != nullptr) payload.AddLists(reading.lists);
  payload.Fill(&call);
  if (reading.rooted_options != nullptr) call.peer = RootOf(reading.rooted_options);
  if (reading.may_differ) call.flags |= kEventUnequalBytes;
  return LaunchBegin(group, call, reading.style, site);
}

// The common shape: note what is launched, forward, forget. `group` is the first argument.
template <typename... Arguments>
__attribute__((always_inline)) inline ObjectRef Launch(RealFunction* real, const void* caller,
                                                       const void* frame, Operation operation,
                                                       const Reading& reading, const void* group,
                                                       Arguments... arguments) {
  using Function = ObjectRef (*)(const void*, Arguments...);
  const auto function = reinterpret_cast<Function>(real->Get(caller));
  const bool launched =
      IsRecording() &&
      BeginCollective(group, operation, reading,
                      Site{caller, frame, reinterpret_cast<const void*>(function)});
  ObjectRef work = function(group, arguments...);
  if (launched) LaunchEnd();
  return work;
}

template <typename... Arguments>
__attribute__((always_inline)) inline ObjectRef StartTransfer(
    RealFunction* real, const void* caller, const void* frame, EventKind kind, Operation operation,
    int peer, void* group, const VectorRef* tensors, Arguments... arguments) {
  using Function = ObjectRef (*)(void*, const VectorRef*, Arguments...);
  const auto function = reinterpret_cast<Function>(real->Get(caller));
  const bool recorded =
      IsRecording() &&
      !IsHelperCall(group, Site{caller, frame, reinterpret_cast<const void*>(function)});
  Call call;
  if (recorded) call = Transfer(kind, operation, peer, tensors);
  ObjectRef work = function(group, tensors, arguments...);
  if (recorded) TransferLaunch(group, call, work.object);
  return work;
}

bool WaitFor(RealFunction* real, const void* caller, const void* frame, void* work,
             int64_t timeout_ms) {
  const auto function = reinterpret_cast<bool (*)(void*, int64_t)>(real->Get(caller));
  Execution execution;
  ExecuteBegin(work, frame, &execution);
  const bool done = function(work, timeout_ms);
  ExecuteEnd(execution);
  return done;
}

void Create(RealFunction* real, const void* caller, const void* frame, void* group, void** store,
            int rank, int size, void** options) {
  const auto function =
      reinterpret_cast<void (*)(void*, void**, int, int, void**)>(real->Get(caller));
  if (!EnsureAwake(WakeReason::kCall)) {
    function(group, store, rank, size, options);
    return;
  }
  NotifyFramework();
  SetPartState(Part::kGloo, PartState::kActive);
  const GroupIdentity identity =
      IdentifyGroup(caller, *store, static_cast<uint32_t>(size < 0 ? 0 : size));
  DebugLog("process group ", identity.name);
  Call call;
  call.kind = EventKind::kCommInit;
  call.comm = identity.comm;
  call.name_id = InternName(identity.name);
  AddGroup(group, {identity.comm,
                   OpenCommunicator(identity.comm, identity.name, static_cast<uint32_t>(rank),
                                    static_cast<uint32_t>(size))});
  const CallToken token = BeginCall(call, frame);
  function(group, store, rank, size, options);
  EndCall(token, call);
}

}  // namespace

extern "C" {

// --- Creation
// -------------------------------------------------------------------------------------

void GlooCreate(void* group, void** store, int rank, int size, void** options)
    FLARE_HOOK(FLARE_GLOO_CREATE);
void GlooCreate(void* group, void** store, int rank, int size, void** options) {
  static constinit RealFunction real(FLARE_GLOO_CREATE);
  Create(&real, FLARE_CALLER, FLARE_FRAME, group, store, rank, size, options);
}

void GlooCreateBase(void* group, void** store, int rank, int size, void** options)
    FLARE_HOOK(FLARE_GLOO_CREATE_BASE);
void GlooCreateBase(void* group, void** store, int rank, int size, void** options) {
  static constinit RealFunction real(FLARE_GLOO_CREATE_BASE);
  Create(&real, FLARE_CALLER, FLARE_FRAME, group, store, rank, size, options);
}

// --- Collectives
// ----------------------------------------------------------------------------------

#define FLARE_COLLECTIVE(name, symbol, parameters) \
  ObjectRef name parameters FLARE_HOOK(symbol);    \
  ObjectRef name parameters

#define FLARE_LAUNCH(symbol, operation, reading, ...) \
  static constinit RealFunction real(symbol);         \
  return Launch(&real, FLARE_CALLER, FLARE_FRAME, operation, Reading reading, __VA_ARGS__)

FLARE_COLLECTIVE(GlooBroadcast, FLARE_GLOO_BROADCAST,
                 (const void* group, const VectorRef* tensors, const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_BROADCAST, Operation::kBroadcast,
               ({.tensors = tensors, .rooted_options = options}), group, tensors, options);
}

FLARE_COLLECTIVE(GlooAllReduce, FLARE_GLOO_ALLREDUCE,
                 (const void* group, const VectorRef* tensors, const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLREDUCE, Operation::kAllReduce, ({.tensors = tensors}), group, tensors,
               options);
}

FLARE_COLLECTIVE(GlooAllReduceSparse, FLARE_GLOO_ALLREDUCE_SPARSE,
                 (const void* group, const VectorRef* tensors, const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLREDUCE_SPARSE, Operation::kAllReduce,
               ({.tensors = tensors, .may_differ = true}), group, tensors, options);
}

FLARE_COLLECTIVE(GlooAllReduceCoalesced, FLARE_GLOO_ALLREDUCE_COALESCED,
                 (const void* group, const VectorRef* tensors, const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLREDUCE_COALESCED, Operation::kAllReduce, ({.tensors = tensors}), group,
               tensors, options);
}

FLARE_COLLECTIVE(GlooReduce, FLARE_GLOO_REDUCE,
                 (const void* group, const VectorRef* tensors, const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_REDUCE, Operation::kReduce, ({.tensors = tensors}), group, tensors,
               options);
}

FLARE_COLLECTIVE(GlooAllGather, FLARE_GLOO_ALLGATHER,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLGATHER, Operation::kAllGather, ({.tensors = inputs}), group, outputs,
               inputs, options);
}

FLARE_COLLECTIVE(GlooAllGatherBase, FLARE_GLOO_ALLGATHER_BASE,
                 (const void* group, const TensorRef* output, const TensorRef* input,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLGATHER_BASE, Operation::kAllGather, ({.tensor = input}), group, output,
               input, options);
}

FLARE_COLLECTIVE(GlooAllGatherCoalesced, FLARE_GLOO_ALLGATHER_COALESCED,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLGATHER_COALESCED, Operation::kAllGather, ({.tensors = inputs}), group,
               outputs, inputs, options);
}

FLARE_COLLECTIVE(GlooAllGatherTensors, FLARE_GLOO_ALLGATHER_TENSORS,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLGATHER_TENSORS, Operation::kAllGather,
               ({.style = LaunchStyle::kBatch, .tensors = inputs}), group, outputs, inputs,
               options);
}

FLARE_COLLECTIVE(GlooGather, FLARE_GLOO_GATHER,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_GATHER, Operation::kGather,
               ({.tensors = inputs, .rooted_options = options}), group, outputs, inputs, options);
}

// Only the root passes inputs: the output is what all ranks have alike.
FLARE_COLLECTIVE(GlooScatter, FLARE_GLOO_SCATTER,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_SCATTER, Operation::kScatter,
               ({.tensors = outputs, .rooted_options = options}), group, outputs, inputs, options);
}

FLARE_COLLECTIVE(GlooReduceScatter, FLARE_GLOO_REDUCE_SCATTER,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_REDUCE_SCATTER, Operation::kReduceScatter,
               ({.style = LaunchStyle::kBatch, .lists = inputs}), group, outputs, inputs, options);
}

FLARE_COLLECTIVE(GlooReduceScatterBase, FLARE_GLOO_REDUCE_SCATTER_BASE,
                 (const void* group, const TensorRef* output, const TensorRef* input,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_REDUCE_SCATTER_BASE, Operation::kReduceScatter, ({.tensor = input}),
               group, output, input, options);
}

FLARE_COLLECTIVE(GlooReduceScatterTensors, FLARE_GLOO_REDUCE_SCATTER_TENSORS,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_REDUCE_SCATTER_TENSORS, Operation::kReduceScatter,
               ({.style = LaunchStyle::kBatch, .tensors = inputs}), group, outputs, inputs,
               options);
}

FLARE_COLLECTIVE(GlooAllToAll, FLARE_GLOO_ALLTOALL,
                 (const void* group, const VectorRef* outputs, const VectorRef* inputs,
                  const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_ALLTOALL, Operation::kAllToAll, ({.tensors = inputs, .may_differ = true}),
               group, outputs, inputs, options);
}

FLARE_COLLECTIVE(GlooAllToAllBase, FLARE_GLOO_ALLTOALL_BASE,
                 (const void* group, const TensorRef* output, const TensorRef* input,
                  const VectorRef* output_splits, const VectorRef* input_splits,
                  const void* options)) {
  const bool split =
      output_splits->begin != output_splits->end || input_splits->begin != input_splits->end;
  FLARE_LAUNCH(FLARE_GLOO_ALLTOALL_BASE, Operation::kAllToAll,
               ({.tensor = input, .may_differ = split}), group, output, input, output_splits,
               input_splits, options);
}

FLARE_COLLECTIVE(GlooBarrier, FLARE_GLOO_BARRIER, (const void* group, const void* options)) {
  FLARE_LAUNCH(FLARE_GLOO_BARRIER, Operation::kBarrier, ({}), group, options);
}

void GlooMonitoredBarrier(const void* group, const void* options, bool wait_all_ranks)
    FLARE_HOOK(FLARE_GLOO_MONITORED_BARRIER);
void GlooMonitoredBarrier(const void* group, const void* options, bool wait_all_ranks) {
  static constinit RealFunction real(FLARE_GLOO_MONITORED_BARRIER);
  const auto function =
      reinterpret_cast<void (*)(const void*, const void*, bool)>(real.Get(FLARE_CALLER));
  const bool launched =
      IsRecording() &&
      BeginCollective(group, Operation::kBarrier, {.style = LaunchStyle::kBlocking},
                      Site{FLARE_CALLER, FLARE_FRAME, reinterpret_cast<const void*>(function)});
  function(group, options, wait_all_ranks);
  if (launched) LaunchEnd();
}

// --- Point to point
// -------------------------------------------------------------------------------

ObjectRef GlooSend(void* group, const VectorRef* tensors, int rank, int tag)
    FLARE_HOOK(FLARE_GLOO_SEND);
ObjectRef GlooSend(void* group, const VectorRef* tensors, int rank, int tag) {
  static constinit RealFunction real(FLARE_GLOO_SEND);
  return StartTransfer(&real, FLARE_CALLER, FLARE_FRAME, EventKind::kSend, Operation::kSend, rank,
                       group, tensors, rank, tag);
}

ObjectRef GlooRecv(void* group, const VectorRef* tensors, int rank, int tag)
    FLARE_HOOK(FLARE_GLOO_RECV);
ObjectRef GlooRecv(void* group, const VectorRef* tensors, int rank, int tag) {
  static constinit RealFunction real(FLARE_GLOO_RECV);
  return StartTransfer(&real, FLARE_CALLER, FLARE_FRAME, EventKind::kRecv, Operation::kRecv, rank,
                       group, tensors, rank, tag);
}

ObjectRef GlooRecvAny(void* group, const VectorRef* tensors, int tag)
    FLARE_HOOK(FLARE_GLOO_RECV_ANY);
ObjectRef GlooRecvAny(void* group, const VectorRef* tensors, int tag) {
  static constinit RealFunction real(FLARE_GLOO_RECV_ANY);
  return StartTransfer(&real, FLARE_CALLER, FLARE_FRAME, EventKind::kRecv, Operation::kRecv,
                       kNoPeer, group, tensors, tag);
}

bool GlooSendWait(void* work, int64_t timeout_ms) FLARE_HOOK(FLARE_GLOO_SEND_WAIT);
bool GlooSendWait(void* work, int64_t timeout_ms) {
  static constinit RealFunction real(FLARE_GLOO_SEND_WAIT);
  return WaitFor(&real, FLARE_CALLER, FLARE_FRAME, work, timeout_ms);
}

bool GlooRecvWait(void* work, int64_t timeout_ms) FLARE_HOOK(FLARE_GLOO_RECV_WAIT);
bool GlooRecvWait(void* work, int64_t timeout_ms) {
  static constinit RealFunction real(FLARE_GLOO_RECV_WAIT);
  return WaitFor(&real, FLARE_CALLER, FLARE_FRAME, work, timeout_ms);
}

// --- From launch to completion
// --------------------------------------------------------------------

uint32_t GlooNextTag(void* group) FLARE_HOOK(FLARE_GLOO_NEXT_TAG);
uint32_t GlooNextTag(void* group) {
  static constinit RealFunction real(FLARE_GLOO_NEXT_TAG);
  const uint32_t tag = reinterpret_cast<uint32_t (*)(void*)>(real.Get(FLARE_CALLER))(group);
  LaunchTag(group, tag);
  return tag;
}

// `work` points to a smart pointer that the real function takes over.
void GlooEnqueue(void* group, void** work) FLARE_HOOK(FLARE_GLOO_ENQUEUE);
void GlooEnqueue(void* group, void** work) {
  static constinit RealFunction real(FLARE_GLOO_ENQUEUE);
  LaunchEnqueue(group, *work);
  reinterpret_cast<void (*)(void*, void**)>(real.Get(FLARE_CALLER))(group, work);
}

#define FLARE_EXECUTE(symbol)                                                       \
  static constinit RealFunction real(symbol);                                       \
  const auto function = reinterpret_cast<void (*)(void**)>(real.Get(FLARE_CALLER)); \
  Execution execution;                                                              \
  ExecuteBegin(*work, FLARE_FRAME, &execution);                                     \
  function(work);                                                                   \
  ExecuteEnd(execution)

void GlooExecute(void** work) FLARE_HOOK(FLARE_GLOO_EXECUTE);
void GlooExecute(void** work) { FLARE_EXECUTE(FLARE_GLOO_EXECUTE); }

void GlooExecuteByValue(void** work) FLARE_HOOK(FLARE_GLOO_EXECUTE_BY_VALUE);
void GlooExecuteByValue(void** work) { FLARE_EXECUTE(FLARE_GLOO_EXECUTE_BY_VALUE); }

void GlooFinishError(void* work, void* error) FLARE_HOOK(FLARE_GLOO_FINISH_ERROR);
void GlooFinishError(void* work, void* error) {
  static constinit RealFunction real(FLARE_GLOO_FINISH_ERROR);
  ExecuteFailed();
  reinterpret_cast<void (*)(void*, void*)>(real.Get(FLARE_CALLER))(work, error);
}

void GlooFinishErrorByValue(void* work, void* error) FLARE_HOOK(FLARE_GLOO_FINISH_ERROR_BY_VALUE);
void GlooFinishErrorByValue(void* work, void* error) {
  static constinit RealFunction real(FLARE_GLOO_FINISH_ERROR_BY_VALUE);
  ExecuteFailed();
  reinterpret_cast<void (*)(void*, void*)>(real.Get(FLARE_CALLER))(work, error);
}

}  // extern "C"

}  // namespace flare
