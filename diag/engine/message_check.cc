// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/message_check.h"

#include <limits>

#include "libflare/core/kernel_class.h"
#include "libflare/core/quantile_sketch.h"

namespace flare::diag {
namespace {

constexpr uint64_t kDayNs = 86'400'000'000'000;
constexpr uint64_t kMaxDurationNs = 366 * kDayNs;
// Clocks of nodes differ, but not by a day.
constexpr uint64_t kMaxAheadNs = kDayNs;
// Pseudo-steps are numbered from 1 << 62 by the time; the store keeps numbers with a sign.
constexpr uint64_t kMaxStep = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMaxSequence = uint64_t{1} << 62;
constexpr int kMaxParts = 64;
constexpr int kMaxPhases = 1024;
constexpr int kMaxCommunicators = 1024;
constexpr int kMaxDurations = 128;
constexpr int kMaxOperations = 256;
constexpr int kMaxDrops = 64;
constexpr int kMaxGemms = 1024;
constexpr int kMaxDevices = 64;
constexpr int kMaxOpenCalls = 2048;  // 256 threads with 8 calls each
constexpr int kMaxRecent = 256;
constexpr int kMaxFrames = 256;

bool SaneTime(uint64_t unix_ns, uint64_t now_unix_ns) {
  return unix_ns <= now_unix_ns + kMaxAheadNs;
}

void CleanParts(google::protobuf::RepeatedPtrField<v1::PartStatus>* parts) {
  for (v1::PartStatus& p : *parts) {
    CleanText(p.mutable_part(), kMaxNameBytes);
    CleanText(p.mutable_state(), kMaxNameBytes);
  }
}

Status CheckCommunicatorStep(const v1::CommunicatorStep& c) {
  if (c.duration_us_size() > kMaxDurations || c.operations_size() > kMaxOperations) {
    return Status::Error("too many values for one communicator");
  }
  if (c.first_sequence() > kMaxSequence) return Status::Error("impossible sequence number");
  return Status::Ok();
}

Status CheckSketch(const v1::QuantileSketch& sketch) {
  constexpr int kMost = static_cast<int>(QuantileSketch::kMaxBuckets);
  if (sketch.index_delta_size() > kMost || sketch.index_delta_size() != sketch.count_size()) {
    return Status::Error("a broken distribution");
  }
  return Status::Ok();
}

Status CheckDevice(v1::DeviceStep* device) {
  if (device->classes_size() > kKernelClassCount || device->gemms_size() > kMaxGemms ||
      device->devices_size() > kMaxDevices) {
    return Status::Error("too many values for the device of one step");
  }
  for (uint64_t time :
       {device->span_ns(), device->busy_ns(), device->compute_ns(), device->communication_ns(),
        device->memory_ns(), device->overlap_ns(), device->inter_step_ns()}) {
    if (time > kMaxDurationNs) return Status::Error("impossible duration on a device");
  }
  if (Status s = CheckSketch(device->compute_issue_latency()); !s.ok()) return s;
  if (Status s = CheckSketch(device->communication_issue_latency()); !s.ok()) return s;
  for (const v1::KernelTotals& kernels : device->classes()) {
    if (Status s = CheckSketch(kernels.duration()); !s.ok()) return s;
  }
  for (std::string& name : *device->mutable_devices()) CleanText(&name, kMaxNameBytes);
  return Status::Ok();
}

Status CheckProcess(v1::ProcessState* p) {
  if (p->python_stack_size() > kMaxFrames) return Status::Error("too many stack frames");
  CleanText(p->mutable_run_state(), 1);
  CleanText(p->mutable_exception_type(), kMaxNameBytes);
  CleanText(p->mutable_exception_text(), kMaxTextBytes);
  CleanText(p->mutable_syscall(), kMaxNameBytes);
  CleanText(p->mutable_syscall_path(), kMaxTextBytes);
  CleanText(p->mutable_wait_channel(), kMaxNameBytes);
  for (v1::StackFrame& f : *p->mutable_python_stack()) {
    CleanText(f.mutable_function(), kMaxNameBytes);
    CleanText(f.mutable_file(), kMaxTextBytes);
  }
  return Status::Ok();
}

}  // namespace

void CleanText(std::string* text, size_t max_bytes) {
  if (text->size() > max_bytes) {
    size_t end = max_bytes;
    // 10xxxxxx continues a character: cut before the one it belongs to.
    while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xc0) == 0x80) --end;
    text->resize(end);
  }
  for (char& c : *text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
}

Status CheckDaemonHello(v1::DaemonHello* message) {
  if (message->protocol() != kProtocol) {
    return Status::Error("protocol " + std::to_string(message->protocol()) +
                         " is not spoken here, only " + std::to_string(kProtocol) +
                         "; use flared and flare-engine of the same version");
  }
  if (message->daemon_id().empty() || message->daemon_id().size() > kMaxNameBytes) {
    return Status::Error("a daemon needs an id of 1 to " + std::to_string(kMaxNameBytes) +
                         " bytes");
  }
  CleanText(message->mutable_daemon_id(), kMaxNameBytes);
  CleanText(message->mutable_node(), kMaxNameBytes);
  CleanText(message->mutable_version(), kMaxNameBytes);
  return Status::Ok();
}

Status CheckRankHello(v1::RankHello* message, uint64_t now_unix_ns) {
  if (message->source() == 0) return Status::Error("source 0");
  if (message->job().empty() || message->job().size() > kMaxJobBytes) {
    return Status::Error("job identity of " + std::to_string(message->job().size()) + " bytes");
  }
  if (message->world_size() == 0 || message->world_size() > kMaxWorldSize) {
    return Status::Error("world size " + std::to_string(message->world_size()));
  }
  if (message->rank() >= message->world_size()) {
    return Status::Error("rank " + std::to_string(message->rank()) + " of " +
                         std::to_string(message->world_size()));
  }
  if (message->attempt() > kMaxAttempt) return Status::Error("impossible attempt");
  if (message->pid() < 0 || message->pid() > std::numeric_limits<int32_t>::max()) {
    return Status::Error("impossible pid");
  }
  if (!SaneTime(message->started_unix_ns(), now_unix_ns)) return Status::Error("impossible time");
  if (message->parts_size() > kMaxParts) return Status::Error("too many parts");
  CleanText(message->mutable_job(), kMaxJobBytes);
  for (std::string* text :
       {message->mutable_job_name(), message->mutable_node(), message->mutable_framework(),
        message->mutable_python(), message->mutable_library_version()}) {
    CleanText(text, kMaxNameBytes);
  }
  CleanParts(message->mutable_parts());
  return Status::Ok();
}

Status CheckStep(v1::RankStep* message, uint64_t now_unix_ns) {
  if (message->step() > kMaxStep) return Status::Error("impossible step number");
  if (!SaneTime(message->start_unix_ns(), now_unix_ns)) return Status::Error("impossible time");
  if (message->duration_ns() > kMaxDurationNs || message->communication_ns() > kMaxDurationNs) {
    return Status::Error("impossible duration");
  }
  if (message->phases_size() > kMaxPhases || message->communicators_size() > kMaxCommunicators ||
      message->drops_size() > kMaxDrops) {
    return Status::Error("too many values for one step");
  }
  for (v1::PhaseTime& p : *message->mutable_phases()) CleanText(p.mutable_name(), kMaxNameBytes);
  for (v1::DropCount& d : *message->mutable_drops()) CleanText(d.mutable_reason(), kMaxNameBytes);
  for (const v1::CommunicatorStep& c : message->communicators()) {
    if (Status s = CheckCommunicatorStep(c); !s.ok()) return s;
  }
  return message->has_device() ? CheckDevice(message->mutable_device()) : Status::Ok();
}

Status CheckState(v1::RankState* message, uint64_t now_unix_ns) {
  if (message->at_unix_ns() == 0) return Status::Error("a state without a time");
  for (uint64_t t :
       {message->at_unix_ns(), message->last_step_unix_ns(), message->last_progress_unix_ns()}) {
    if (!SaneTime(t, now_unix_ns)) return Status::Error("impossible time");
  }
  if (message->steps() > kMaxStep) return Status::Error("impossible number of steps");
  if (message->open_calls_size() > kMaxOpenCalls ||
      message->communicators_size() > kMaxCommunicators || message->parts_size() > kMaxParts) {
    return Status::Error("too many values for one state");
  }
  for (v1::OpenCall& c : *message->mutable_open_calls()) {
    if (c.sequence() > kMaxSequence || !SaneTime(c.since_unix_ns(), now_unix_ns)) {
      return Status::Error("impossible open call");
    }
    CleanText(c.mutable_name(), kMaxNameBytes);
  }
  for (v1::CommunicatorState& c : *message->mutable_communicators()) {
    if (c.recent_size() > kMaxRecent) return Status::Error("too many recent collectives");
    if (c.launched() > kMaxSequence || c.completed() > kMaxSequence ||
        c.group_size() > kMaxWorldSize) {
      return Status::Error("impossible communicator");
    }
    CleanText(c.mutable_name(), kMaxNameBytes);
  }
  CleanParts(message->mutable_parts());
  return CheckProcess(message->mutable_process());
}

}  // namespace flare::diag
