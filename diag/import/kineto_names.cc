// SPDX-License-Identifier: Apache-2.0
#include "diag/import/kineto_names.h"

#include <array>
#include <charconv>

namespace flare::import {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Lower-case letters and digits only, so that "_allgather_base" and "AllGather" begin alike.
struct Plain {
  explicit Plain(std::string_view text) {
    for (char c : text) {
      if (size == bytes.size()) break;
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) bytes[size++] = c;
    }
  }
  std::string_view view() const { return {bytes.data(), size}; }
  std::array<char, 96> bytes;
  size_t size = 0;
};

// Longer names before those they begin with.
struct NamedOperation {
  std::string_view prefix;
  Operation operation;
};
constexpr NamedOperation kOperations[] = {
    {"allreduce", Operation::kAllReduce},
    {"allgather", Operation::kAllGather},
    {"alltoall", Operation::kAllToAll},
    {"reducescatter", Operation::kReduceScatter},
    {"reduce", Operation::kReduce},
    {"broadcast", Operation::kBroadcast},
    {"barrier", Operation::kBarrier},
    {"gather", Operation::kGather},
    {"scatter", Operation::kScatter},
    {"sendrecv", Operation::kUnknown},  // all-to-all or point to point: the kernel does not tell
    {"send", Operation::kSend},
    {"recv", Operation::kRecv},
};

Operation OperationOf(std::string_view plain) {
  for (const NamedOperation& row : kOperations) {
    if (plain.starts_with(row.prefix)) return row.operation;
  }
  return Operation::kUnknown;
}

}  // namespace

RuntimeCall ClassifyRuntimeCall(std::string_view name) {
  if (Contains(name, "GraphLaunch")) return RuntimeCall::kGraphLaunch;
  // "INVALID" is what older Kineto calls entries newer than itself, launches among them.
  if (Contains(name, "Launch") || Contains(name, "emcpy") || Contains(name, "emset") ||
      name == "INVALID" || name.starts_with("INVALID")) {
    return Contains(name, "LaunchHostFunc") ? RuntimeCall::kOther : RuntimeCall::kLaunch;
  }
  if (Contains(name, "Synchronize")) return RuntimeCall::kSynchronize;
  // Not the stream-ordered ones, which do not stop the device: cudaMallocAsync, cudaFreeAsync.
  for (const std::string_view call :
       {"cudaMalloc", "cudaFree", "hipMalloc", "hipFree", "cuMemAlloc_v2", "cuMemFree_v2"}) {
    if (name == call) return RuntimeCall::kMemory;
  }
  return RuntimeCall::kOther;
}

HostPhase PhaseOfAnnotation(std::string_view name) {
  constexpr std::string_view kLoader = "enumerate(DataLoader)#";
  constexpr std::string_view kOptimizer = "Optimizer.step#";
  if (name.starts_with(kLoader)) return {EventKind::kDataLoad, name.substr(kLoader.size())};
  if (name.starts_with(kOptimizer)) return {EventKind::kOptimizer, name.substr(kOptimizer.size())};
  // Spans of the collectives and steps have their own place.
  if (name.starts_with("nccl:") || name.starts_with("gloo:") || name.starts_with("ProfilerStep#")) {
    return {};
  }
  if (name == "Python GC" || name == "gc") return {EventKind::kGc, ""};
  const Plain plain(name);
  const std::string_view words = plain.view();
  if (words == "backward") return {EventKind::kBackward, ""};
  if (Contains(words, "savecheckpoint") || Contains(words, "checkpointsave")) {
    return {EventKind::kCheckpoint, name};
  }
  return {EventKind::kUserCall, name};
}

// Frames read "torch/utils/data/dataloader.py(628): __next__".
HostPhase PhaseOfPythonFrame(std::string_view name) {
  if (name == "Python GC" || name == "<built-in function collect>") return {EventKind::kGc, ""};
  if (name.ends_with(": backward") && Contains(name, "torch/_tensor.py(")) {
    return {EventKind::kBackward, ""};
  }
  if (name.ends_with(": save") && (Contains(name, "torch/serialization.py(") ||
                                   Contains(name, "torch/distributed/checkpoint/"))) {
    return {EventKind::kCheckpoint, "torch.save"};
  }
  return {};
}

bool ParseProfilerStep(std::string_view name, uint64_t* number) {
  constexpr std::string_view kMark = "ProfilerStep#";
  if (!name.starts_with(kMark)) return false;
  name.remove_prefix(kMark.size());
  const auto end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, *number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

Operation OperationNamed(std::string_view name) {
  for (const std::string_view backend : {"nccl:", "gloo:", "c10d::"}) {
    if (name.starts_with(backend)) name.remove_prefix(backend.size());
  }
  const Plain plain(name);
  return OperationOf(plain.view());
}

Operation OperationOfKernel(std::string_view kernel) {
  size_t at = kernel.find("nccl");
  if (at == std::string_view::npos) return Operation::kUnknown;
  kernel.remove_prefix(at);
  for (const std::string_view prefix :
       {"ncclSymDevKernel_", "ncclDevKernel_", "ncclKernel_", "nccl"}) {
    if (!kernel.starts_with(prefix)) continue;
    kernel.remove_prefix(prefix.size());
    break;
  }
  const Plain plain(kernel.substr(0, kernel.find('(')));
  return OperationOf(plain.view());
}

DataType DataTypeNamed(std::string_view name) {
  if (name.starts_with("c10::")) name.remove_prefix(5);
  const Plain plain(name);
  const std::string_view type = plain.view();
  struct Row {
    std::string_view name;
    DataType type;
  };
  static constexpr Row kTypes[] = {
      {"float", DataType::kFloat32},
      {"float32", DataType::kFloat32},
      {"f32", DataType::kFloat32},
      {"half", DataType::kFloat16},
      {"float16", DataType::kFloat16},
      {"f16", DataType::kFloat16},
      {"bfloat16", DataType::kBfloat16},
      {"bf16", DataType::kBfloat16},
      {"double", DataType::kFloat64},
      {"float64", DataType::kFloat64},
      {"f64", DataType::kFloat64},
      {"byte", DataType::kUint8},
      {"uint8", DataType::kUint8},
      {"unsignedchar", DataType::kUint8},
      {"char", DataType::kInt8},
      {"int8", DataType::kInt8},
      {"signedchar", DataType::kInt8},
      {"short", DataType::kInt16},
      {"int16", DataType::kInt16},
      {"int", DataType::kInt32},
      {"int32", DataType::kInt32},
      {"long", DataType::kInt64},
      {"int64", DataType::kInt64},
      {"longint", DataType::kInt64},
      {"bool", DataType::kBool},
      {"complexfloat", DataType::kComplex64},
      {"complexdouble", DataType::kComplex128},
  };
  for (const Row& row : kTypes) {
    if (type == row.name) return row.type;
  }
  return type.starts_with("float8") ? DataType::kFloat8 : DataType::kUnknown;
}

uint32_t BytesOf(DataType type) {
  switch (type) {
    case DataType::kUint8:
    case DataType::kInt8:
    case DataType::kBool:
    case DataType::kFloat8:
      return 1;
    case DataType::kInt16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kFloat64:
    case DataType::kComplex64:
      return 8;
    case DataType::kComplex128:
      return 16;
    case DataType::kUnknown:
      break;
  }
  return 0;
}

}  // namespace flare::import
