// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/words.h"

#include <cctype>
#include <cstdio>

namespace flare::diag {
namespace {

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string DurationText(uint64_t duration_ns) {
  const double seconds = static_cast<double>(duration_ns) * 1e-9;
  if (seconds < 1e-3) return Format("%.0f us", seconds * 1e6);
  if (seconds < 1) return Format("%.0f ms", seconds * 1e3);
  if (seconds < 9.95) return Format("%.1f s", seconds);
  if (seconds < 180) return Format("%.0f s", seconds);
  if (seconds < 7200) return Format("%.0f min", seconds / 60);
  return Format("%.1f h", seconds / 3600);
}

std::string BytesText(uint64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (bytes < 1024) return Format("%.0f B", n);
  if (bytes < (uint64_t{1} << 20)) return Format("%.1f KiB", n / 1024);
  if (bytes < (uint64_t{1} << 30)) return Format("%.1f MiB", n / (1 << 20));
  return Format("%.2f GiB", n / (1 << 30));
}

std::string OperationText(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "all-reduce";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kReduce:
      return "reduce";
    case Operation::kAllGather:
      return "all-gather";
    case Operation::kReduceScatter:
      return "reduce-scatter";
    case Operation::kGather:
      return "gather";
    case Operation::kScatter:
      return "scatter";
    case Operation::kAllToAll:
      return "all-to-all";
    case Operation::kBarrier:
      return "barrier";
    case Operation::kSend:
      return "send";
    case Operation::kRecv:
      return "recv";
    case Operation::kUnknown:
      break;
  }
  return "collective";
}

std::string DataTypeText(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return "uint8";
    case DataType::kInt8:
      return "int8";
    case DataType::kInt16:
      return "int16";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kComplex64:
      return "complex64";
    case DataType::kComplex128:
      return "complex128";
    case DataType::kBool:
      return "bool";
    case DataType::kBfloat16:
      return "bfloat16";
    case DataType::kFloat8:
      return "float8";
    case DataType::kUnknown:
      break;
  }
  return "";
}

std::string RankText(const Job& job, Rank rank) {
  std::string text = "rank " + std::to_string(rank.value);
  const auto found = job.ranks.find(rank);
  if (found != job.ranks.end() && !found->second.node.empty()) {
    text += " on node " + found->second.node;
  }
  return text;
}

std::string RanksText(const std::vector<Rank>& ranks) {
  constexpr size_t kShown = 12;
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size() && parts.size() < kShown;) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end].value == ranks[end - 1].value + 1) ++end;
    std::string part = std::to_string(ranks[i].value);
    if (end - i > 2) part += "-" + std::to_string(ranks[end - 1].value);
    i = end - i > 2 ? end : i + 1;
    parts.push_back(std::move(part));
    if (parts.size() == kShown && i < ranks.size()) {
      parts.push_back(std::to_string(ranks.size() - i) + " more");
    }
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string CountText(size_t count, const char* singular) {
  return std::to_string(count) + " " + singular + (count == 1 ? "" : "s");
}

std::string FrameText(const StackFrame& frame) {
  const size_t slash = frame.file.rfind('/');
  const std::string file = slash == std::string::npos ? frame.file : frame.file.substr(slash + 1);
  return frame.function + " (" + file + ":" + std::to_string(frame.line) + ")";
}

std::string Capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string CollectiveText(Operation operation, DataType type, uint64_t bytes, uint64_t sequence) {
  std::string text = OperationText(operation) + " #" + std::to_string(sequence);
  if (operation == Operation::kBarrier || type == DataType::kUnknown) return text;
  return text + " of " + BytesText(bytes) + " " + DataTypeText(type);
}

std::string CallText(const OpenCall& call) {
  switch (call.kind) {
    case EventKind::kCollective:
      return OperationText(call.operation) + " #" + std::to_string(call.sequence);
    case EventKind::kSend:
    case EventKind::kRecv: {
      const bool send = call.kind == EventKind::kSend;
      if (call.peer < 0) return send ? "send" : "recv from any rank";
      return (send ? "send to group rank " : "recv from group rank ") + std::to_string(call.peer);
    }
    case EventKind::kCommInit:
      return "process group creation";
    case EventKind::kDataLoad:
      return "data loading";
    case EventKind::kBackward:
      return "backward pass";
    case EventKind::kOptimizer:
      return "optimizer step";
    case EventKind::kCheckpoint:
      return "checkpoint";
    case EventKind::kGc:
      return "garbage collection";
    case EventKind::kSynchronize:
      return "device synchronize";
    default:
      return call.name.empty() ? "a call" : call.name;
  }
}

}  // namespace flare::diag
