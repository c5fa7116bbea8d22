// SPDX-License-Identifier: Apache-2.0
// Steps and what devices did during them: part of convert.h.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "diag/store/convert.h"
#include "diag/store/convert_enums.h"

namespace flare::diag {
namespace {

CommunicatorStep CommunicatorStepFromProto(const v1::CommunicatorStep& message) {
  CommunicatorStep out;
  out.communicator = CommId(message.communicator());
  out.first_sequence = message.first_sequence();
  out.count = message.count();
  out.duration_us.assign(message.duration_us().begin(), message.duration_us().end());
  out.operations.reserve(message.operations_size());
  for (const v1::OperationTotals& o : message.operations()) {
    out.operations.push_back({OperationFromProto(o.operation()), DataTypeFromProto(o.data_type()),
                              o.count(), o.bytes(), o.total_ns()});
  }
  out.signature_hash = message.signature_hash();
  return out;
}

void CommunicatorStepToProto(const CommunicatorStep& comm, v1::CommunicatorStep* out) {
  out->set_communicator(comm.communicator.value);
  out->set_first_sequence(comm.first_sequence);
  out->set_count(comm.count);
  out->mutable_duration_us()->Add(comm.duration_us.begin(), comm.duration_us.end());
  for (const OperationTotals& o : comm.operations) {
    v1::OperationTotals* m = out->add_operations();
    m->set_operation(static_cast<v1::Operation>(o.operation));
    m->set_data_type(static_cast<v1::DataType>(o.data_type));
    m->set_count(o.count);
    m->set_bytes(o.bytes);
    m->set_total_ns(o.total_ns);
  }
  out->set_signature_hash(comm.signature_hash);
}

}  // namespace

QuantileSketch SketchFromProto(const v1::QuantileSketch& message) {
  std::vector<QuantileSketch::Bucket> buckets;
  int64_t index = 0;
  const int size = std::min(message.index_delta_size(), message.count_size());
  for (int i = 0; i < size; ++i) {
    index += message.index_delta(i);
    // Beyond an int32 there is no bucket: FromBuckets leaves such an index out.
    const bool fits = index >= INT32_MIN && index <= INT32_MAX;
    buckets.push_back({fits ? static_cast<int32_t>(index) : INT32_MAX, message.count(i)});
  }
  return QuantileSketch::FromBuckets(buckets, message.sum());
}

v1::QuantileSketch SketchToProto(const QuantileSketch& sketch) {
  v1::QuantileSketch out;
  int32_t before = 0;
  for (const QuantileSketch::Bucket& bucket : sketch.buckets()) {
    out.add_index_delta(bucket.index - before);
    out.add_count(bucket.count);
    before = bucket.index;
  }
  out.set_sum(sketch.sum());
  return out;
}

DeviceStep DeviceFromProto(const v1::DeviceStep& message) {
  DeviceStep out;
  out.kernels = message.kernels();
  out.communication_kernels = message.communication_kernels();
  out.memory_operations = message.memory_operations();
  out.streams = message.streams();
  out.span_ns = message.span_ns();
  out.busy_ns = message.busy_ns();
  out.compute_ns = message.compute_ns();
  out.communication_ns = message.communication_ns();
  out.memory_ns = message.memory_ns();
  out.overlap_ns = message.overlap_ns();
  out.inter_step_ns = message.inter_step_ns();
  out.compute_issue_latency = SketchFromProto(message.compute_issue_latency());
  out.communication_issue_latency = SketchFromProto(message.communication_issue_latency());
  for (const v1::KernelTotals& k : message.classes()) {
    out.classes.push_back({KernelClassFromProto(k.kernel_class()), k.count(), k.total_ns(),
                           SketchFromProto(k.duration())});
  }
  for (const v1::GemmTotals& g : message.gemms()) {
    out.gemms.push_back({g.batch(), g.m(), g.n(), g.k(), DataTypeFromProto(g.data_type()),
                         g.count(), g.total_ns(), g.overlapped_ns()});
  }
  out.devices.assign(message.devices().begin(), message.devices().end());
  return out;
}

v1::DeviceStep DeviceToProto(const DeviceStep& device) {
  v1::DeviceStep out;
  out.set_kernels(device.kernels);
  out.set_communication_kernels(device.communication_kernels);
  out.set_memory_operations(device.memory_operations);
  out.set_streams(device.streams);
  out.set_span_ns(device.span_ns);
  out.set_busy_ns(device.busy_ns);
  out.set_compute_ns(device.compute_ns);
  out.set_communication_ns(device.communication_ns);
  out.set_memory_ns(device.memory_ns);
  out.set_overlap_ns(device.overlap_ns);
  out.set_inter_step_ns(device.inter_step_ns);
  *out.mutable_compute_issue_latency() = SketchToProto(device.compute_issue_latency);
  *out.mutable_communication_issue_latency() = SketchToProto(device.communication_issue_latency);
  for (const KernelTotals& k : device.classes) {
    v1::KernelTotals* m = out.add_classes();
    m->set_kernel_class(static_cast<v1::KernelClass>(k.kernel_class));
    m->set_count(k.count);
    m->set_total_ns(k.total_ns);
    *m->mutable_duration() = SketchToProto(k.duration);
  }
  for (const GemmTotals& g : device.gemms) {
    v1::GemmTotals* m = out.add_gemms();
    m->set_batch(g.batch);
    m->set_m(g.m);
    m->set_n(g.n);
    m->set_k(g.k);
    m->set_data_type(static_cast<v1::DataType>(g.data_type));
    m->set_count(g.count);
    m->set_total_ns(g.total_ns);
    m->set_overlapped_ns(g.overlapped_ns);
  }
  for (const std::string& name : device.devices) out.add_devices(name);
  return out;
}

RankStep StepFromProto(const v1::RankStep& message) {
  RankStep out;
  out.step = StepId(message.step());
  out.start_unix_ns = message.start_unix_ns();
  out.duration_ns = message.duration_ns();
  out.communication_ns = message.communication_ns();
  out.cpu_ns = message.cpu_ns();
  out.phases.reserve(message.phases_size());
  for (const v1::PhaseTime& p : message.phases()) {
    out.phases.push_back(
        {KindFromProto(p.kind()), p.name(), p.count(), p.total_ns(), p.longest_ns()});
  }
  out.communicators.reserve(message.communicators_size());
  for (const v1::CommunicatorStep& c : message.communicators()) {
    out.communicators.push_back(CommunicatorStepFromProto(c));
  }
  out.events = message.events();
  for (const v1::DropCount& d : message.drops()) out.drops.push_back({d.reason(), d.count()});
  if (message.has_device()) out.device = DeviceFromProto(message.device());
  return out;
}

v1::RankStep StepToProto(const RankStep& step) {
  v1::RankStep out;
  out.set_step(step.step.value);
  out.set_start_unix_ns(step.start_unix_ns);
  out.set_duration_ns(step.duration_ns);
  out.set_communication_ns(step.communication_ns);
  out.set_cpu_ns(step.cpu_ns);
  for (const PhaseTime& p : step.phases) {
    v1::PhaseTime* m = out.add_phases();
    m->set_kind(static_cast<v1::CallKind>(p.kind));
    m->set_name(p.name);
    m->set_count(p.count);
    m->set_total_ns(p.total_ns);
    m->set_longest_ns(p.longest_ns);
  }
  for (const CommunicatorStep& c : step.communicators) {
    CommunicatorStepToProto(c, out.add_communicators());
  }
  out.set_events(step.events);
  for (const DropCount& d : step.drops) {
    v1::DropCount* m = out.add_drops();
    m->set_reason(d.reason);
    m->set_count(d.count);
  }
  if (step.device) *out.mutable_device() = DeviceToProto(*step.device);
  return out;
}

}  // namespace flare::diag
