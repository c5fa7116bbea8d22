// SPDX-License-Identifier: Apache-2.0
#include "diag/import/kineto_reader.h"

#include <algorithm>
#include <charconv>

#include "diag/import/kineto_names.h"

namespace flare::import {
namespace {

constexpr size_t kMaxGemmOperators = 1 << 21;
constexpr size_t kMaxDevices = 1024;

uint32_t Number(std::string_view text) {
  uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

uint64_t Id(const JsonArgs& args, std::string_view key) {
  return static_cast<uint64_t>(args.Int(key).value_or(0));
}

// Which inputs of a matrix product are its factors; -1 when it is none.
int FirstFactor(std::string_view name) {
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::_scaled_mm") return 0;
  if (name == "aten::addmm" || name == "aten::baddbmm" || name == "aten::_addmm_activation")
    return 1;
  return -1;
}

bool Fits(int64_t size) { return size > 0 && size <= UINT32_MAX; }

}  // namespace

KinetoReader::KinetoReader(std::map<uint32_t, std::string> owners) : owners_(std::move(owners)) {
  NewProcess();
}

KinetoProcess* KinetoReader::NewProcess() {
  processes_.push_back(std::make_unique<KinetoProcess>());
  processes_.back()->collectives.SetGroups(&groups_);
  return processes_.back().get();
}

// Versions before 1.12 wrote capitals.
KinetoReader::Category KinetoReader::CategoryOf(std::string_view cat) {
  if (cat == "kernel" || cat == "Kernel") return Category::kKernel;
  if (cat == "gpu_memcpy" || cat == "Memcpy" || cat == "gpu_memset" || cat == "Memset") {
    return Category::kMemoryOperation;
  }
  if (cat == "cuda_runtime" || cat == "cuda_driver" || cat == "Runtime" || cat == "hip_runtime" ||
      cat == "hip_driver") {
    return Category::kRuntime;
  }
  if (cat == "cpu_op" || cat == "Operator") return Category::kOperator;
  if (cat == "user_annotation") return Category::kAnnotation;
  if (cat == "python_function" || cat == "python_gc") return Category::kPython;
  return Category::kIgnored;
}

void KinetoReader::Read(JsonEvents* events) {
  JsonEvent event;
  for (bool first = true; events->Next(&event); first = false) {
    if (first) {
      const auto info = events->members().find("distributedInfo");
      if (info != events->members().end() && args_.Parse(info->second)) {
        groups_ = ReadKinetoGroups(args_);
      }
    }
    Take(event);
  }
}

// The process of a host event. The first one seen also gets what was already there.
KinetoProcess& KinetoReader::Host(const JsonEvent& event) {
  const std::string_view pid = event.Text("pid");
  if (last_ != nullptr && pid == last_pid_) return *last_;
  last_pid_ = pid;
  const auto known = by_pid_.find(pid);
  if (known != by_pid_.end()) return *(last_ = processes_[known->second].get());
  if (!by_pid_.empty() && processes_.size() < kMaxProcesses) {
    NewProcess();
  }
  by_pid_.emplace(last_pid_, processes_.size() - 1);
  last_ = processes_.back().get();
  if (last_->pid.empty()) last_->pid = last_pid_;
  return *last_;
}

KinetoProcess& KinetoReader::OfDevice(uint32_t device) {
  const auto owner = owners_.find(device);
  if (owner == owners_.end()) return *processes_.front();
  const auto process = by_pid_.find(owner->second);
  return process == by_pid_.end() ? *processes_.front() : *processes_[process->second];
}

void KinetoReader::Take(const JsonEvent& event) {
  if (event.Raw("ph") != "\"X\"") return;
  const Category category = CategoryOf(event.String("cat"));
  if (category == Category::kIgnored) return;
  const std::optional<int64_t> begin = event.Nanoseconds("ts");
  const std::optional<int64_t> duration = event.Nanoseconds("dur");
  if (!begin || !duration) {
    processes_.front()->builder.LeaveOut("without a time or duration");
    return;
  }
  switch (category) {
    case Category::kKernel:
    case Category::kMemoryOperation:
      TakeDevice(event, category, *begin, *duration);
      break;
    case Category::kRuntime:
      TakeRuntime(event, *begin, *duration);
      break;
    case Category::kOperator:
      TakeOperator(event, *begin, *duration);
      break;
    case Category::kAnnotation:
      TakeAnnotation(event, event.String("name"), true, *begin, *duration);
      break;
    case Category::kPython: {
      const HostPhase phase = PhaseOfPythonFrame(event.String("name"));
      if (phase.kind != EventKind::kNone) {
        Host(event).builder.AddSpan(phase.kind, phase.name, *begin, *duration);
      }
      break;
    }
    case Category::kIgnored:
      break;
  }
}

void KinetoReader::TakeDevice(const JsonEvent& event, Category category, int64_t begin,
                              int64_t duration) {
  args_.Parse(event.Raw("args"));
  DeviceActivity activity;
  activity.begin_ns = begin;
  activity.duration_ns = duration;
  activity.correlation = Id(args_, "correlation");
  // Traces that were cut down have no arguments: the lanes they are drawn in say the same.
  const auto device = args_.Int("device");
  activity.device = device ? static_cast<uint32_t>(*device) : Number(event.Text("pid"));
  const auto stream = args_.Int("stream");
  activity.stream = stream ? static_cast<uint64_t>(*stream) : Number(event.Text("tid"));
  if (devices_.size() < kMaxDevices) devices_.insert(activity.device);
  latest_ns_ = std::max(latest_ns_, begin);
  KinetoProcess& process = OfDevice(activity.device);
  process.works = true;
  if (category == Category::kMemoryOperation) return process.builder.AddMemoryOperation(activity);
  const std::string_view name = event.String("name");
  const KernelClass kernel_class = process.builder.ClassOf(name);
  const uint64_t external_id = Id(args_, "External id");
  if (kernel_class == KernelClass::kCommunication) {
    activity.tag = process.collectives.AddKernel(name, activity, external_id, args_);
  } else if (kernel_class == KernelClass::kGemm && external_id != activity.correlation) {
    // Equal ids: an older version, in which the id is not the operator's.
    const auto gemm = gemms_.find(external_id);
    if (gemm != gemms_.end() && owners_.empty()) activity.tag = gemm->second;
  }
  process.builder.AddKernel(name, activity);
}

void KinetoReader::TakeRuntime(const JsonEvent& event, int64_t begin, int64_t duration) {
  const std::string_view name = event.String("name");
  const RuntimeCall call = ClassifyRuntimeCall(name);
  switch (call) {
    case RuntimeCall::kOther:
      return;
    case RuntimeCall::kLaunch:
    case RuntimeCall::kGraphLaunch:
      args_.Parse(event.Raw("args"));
      Host(event).builder.AddLaunch(Id(args_, "correlation"), begin,
                                    call == RuntimeCall::kGraphLaunch);
      return;
    case RuntimeCall::kSynchronize:
      return Host(event).builder.AddSpan(EventKind::kSynchronize, name, begin, duration);
    case RuntimeCall::kMemory:
      return Host(event).builder.AddSpan(EventKind::kUserCall, name, begin, duration);
  }
}

uint32_t KinetoReader::GemmOf(KinetoProcess* process, std::string_view name) {
  const auto first = static_cast<size_t>(FirstFactor(name));
  const std::vector<std::vector<int64_t>> shapes = args_.Dims("Input Dims");
  const std::vector<std::string_view> types = args_.Strings("Input type");
  if (shapes.size() < first + 2) return 0;
  const std::vector<int64_t>& a = shapes[first];
  const std::vector<int64_t>& b = shapes[first + 1];
  const size_t rank = a.size();
  if ((rank != 2 && rank != 3) || b.size() != rank) return 0;
  const int64_t batch = rank == 3 ? a[0] : 1, m = a[rank - 2], k = a[rank - 1], n = b[rank - 1];
  if (b[rank - 2] != k || !Fits(batch) || !Fits(m) || !Fits(n) || !Fits(k)) return 0;
  const DataType type = types.size() > first ? DataTypeNamed(types[first]) : DataType::kUnknown;
  return process->builder.GemmShape(static_cast<uint32_t>(batch), static_cast<uint32_t>(m),
                                    static_cast<uint32_t>(n), static_cast<uint32_t>(k), type);
}

void KinetoReader::TakeOperator(const JsonEvent& event, int64_t begin, int64_t duration) {
  const std::string_view name = event.String("name");
  if (name.starts_with("aten::")) {
    if (FirstFactor(name) < 0 || gemms_.size() >= kMaxGemmOperators) return;
    if (!args_.Parse(event.Raw("args"))) return;
    const uint64_t external_id = Id(args_, "External id");
    const uint32_t shape = GemmOf(&Host(event), name);
    if (external_id != 0 && shape != 0) gemms_[external_id] = shape;
    return;
  }
  if (name == "record_param_comms") {
    KinetoProcess& process = Host(event);
    const bool parsed = args_.Parse(event.Raw("args"));
    process.collectives.AddCall(begin, duration, parsed ? Id(args_, "External id") : 0,
                                parsed ? &args_ : nullptr);
    process.works = true;
    return;
  }
  // Until 1.11 marks were written as operators.
  TakeAnnotation(event, name, false, begin, duration);
}

void KinetoReader::TakeAnnotation(const JsonEvent& event, std::string_view name, bool user,
                                  int64_t begin, int64_t duration) {
  KinetoProcess& process = Host(event);
  uint64_t step = 0;
  if (ParseProfilerStep(name, &step)) {
    process.works = true;
    return process.builder.AddStep(step, begin, begin + duration);
  }
  if (name.starts_with("nccl:") || name.starts_with("gloo:")) {
    const bool parsed = args_.Parse(event.Raw("args"));
    process.collectives.AddMark(name, begin, duration, parsed ? &args_ : nullptr);
    return;
  }
  const HostPhase phase = PhaseOfAnnotation(name);
  if (phase.kind == EventKind::kNone || (phase.kind == EventKind::kUserCall && !user)) return;
  process.builder.AddSpan(phase.kind, phase.name, begin, duration);
}

bool KinetoReader::several() const {
  return std::count_if(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process->builder.has_launches(); }) > 1;
}

// Each device goes to the process that launched most of what it did.
std::map<uint32_t, std::string> KinetoReader::DeviceOwners() const {
  std::map<uint32_t, std::string> owners;
  std::map<uint32_t, size_t> most;
  const ProfileBuilder& devices = processes_.front()->builder;
  for (const auto& process : processes_) {
    if (!process->builder.has_launches()) continue;
    for (const auto& [device, count] : devices.LaunchedBy(process->builder)) {
      if (count <= most[device]) continue;
      most[device] = count;
      owners[device] = process->pid;
    }
  }
  return owners;
}

}  // namespace flare::import
