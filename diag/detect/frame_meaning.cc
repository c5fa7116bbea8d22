// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/frame_meaning.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

namespace flare::diag {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// `file`: part of a path, from the beginning of a folder or file name. `function`: the whole name,
// or its beginning before a '*'; empty: any.
struct Row {
  std::string_view file;
  std::string_view function;
  Meaning meaning;
};

constexpr std::string_view kC10d = "torch/distributed/distributed_c10d.py";
constexpr std::string_view kCuda = "torch/cuda/__init__.py";

// Python functions. The first row that fits counts.
constexpr std::array kPythonRows = {
    Row{"torch/distributed/elastic/agent/", "", Meaning::kNotARank},
    Row{"torch/distributed/launcher/", "", Meaning::kNotARank},
    Row{"torch/multiprocessing/spawn.py", "join", Meaning::kNotARank},
    Row{"torch/utils/data/_utils/worker.py", "", Meaning::kNotARank},
    Row{"torch/_inductor/compile_worker/", "", Meaning::kNotARank},
    Row{"multiprocessing/resource_tracker.py", "", Meaning::kNotARank},
    Row{"multiprocessing/forkserver.py", "main", Meaning::kNotARank},
    Row{"deepspeed/launcher/", "", Meaning::kNotARank},
    Row{"accelerate/commands/launch.py", "", Meaning::kNotARank},

    Row{kC10d, "send", Meaning::kPointToPoint},
    Row{kC10d, "recv", Meaning::kPointToPoint},
    Row{kC10d, "isend", Meaning::kPointToPoint},
    Row{kC10d, "irecv", Meaning::kPointToPoint},
    Row{kC10d, "batch_isend_irecv", Meaning::kPointToPoint},
    Row{kC10d, "init_process_group", Meaning::kGroupSetup},
    Row{kC10d, "new_group", Meaning::kGroupSetup},
    Row{kC10d, "_new_*", Meaning::kGroupSetup},
    Row{kC10d, "_store_based_barrier", Meaning::kGroupSetup},
    Row{kC10d, "", Meaning::kCollective},
    Row{"torch/distributed/rendezvous.py", "", Meaning::kGroupSetup},
    Row{"torch/distributed/_functional_collectives.py", "wait_tensor", Meaning::kCollective},
    Row{"torch/distributed/nn/functional.py", "", Meaning::kCollective},
    Row{"torch/nn/parallel/distributed.py", "_sync_*", Meaning::kCollective},
    Row{"torch/nn/parallel/distributed.py", "_verify_*", Meaning::kCollective},
    Row{"pipeline_parallel/p2p_communication.py", "", Meaning::kPointToPoint},
    Row{"deepspeed/runtime/pipe/p2p.py", "", Meaning::kPointToPoint},
    Row{"horovod/torch/mpi_ops.py", "synchronize", Meaning::kCollective},

    Row{kCuda, "synchronize", Meaning::kDeviceWait},
    Row{"torch/cuda/streams.py", "synchronize", Meaning::kDeviceWait},
    Row{"torch/cuda/streams.py", "wait*", Meaning::kDeviceWait},
    Row{"torch_npu/npu/", "synchronize", Meaning::kDeviceWait},

    Row{"torch/distributed/checkpoint", "", Meaning::kCheckpoint},
    Row{"torch/serialization.py", "save", Meaning::kCheckpoint},
    Row{"torch/serialization.py", "_save*", Meaning::kCheckpoint},
    Row{"torch/serialization.py", "_legacy_save", Meaning::kCheckpoint},
    Row{"torch/utils/data/", "", Meaning::kDataLoad},
    Row{"nvidia/dali/", "", Meaning::kDataLoad},
    Row{"webdataset/", "", Meaning::kDataLoad},
};

// Native functions, by the beginning of their names without "std::" parameters.
struct NativeRow {
  std::string_view function;
  Meaning meaning;
  const char* operation;
};

constexpr std::array kNativeRows = {
    NativeRow{"ncclAllReduce", Meaning::kCollective, "all_reduce"},
    NativeRow{"ncclBroadcast", Meaning::kCollective, "broadcast"},
    NativeRow{"ncclBcast", Meaning::kCollective, "broadcast"},
    NativeRow{"ncclReduceScatter", Meaning::kCollective, "reduce_scatter"},
    NativeRow{"ncclReduce", Meaning::kCollective, "reduce"},
    NativeRow{"ncclAllGather", Meaning::kCollective, "all_gather"},
    NativeRow{"ncclAllToAll", Meaning::kCollective, "all_to_all"},
    NativeRow{"ncclSend", Meaning::kPointToPoint, "send"},
    NativeRow{"ncclRecv", Meaning::kPointToPoint, "recv"},
    NativeRow{"ncclGroupEnd", Meaning::kCollective, ""},
    NativeRow{"ncclCommInit", Meaning::kGroupSetup, ""},
    NativeRow{"ncclCommSplit", Meaning::kGroupSetup, ""},
    NativeRow{"c10d::ProcessGroup", Meaning::kCollective, ""},
    NativeRow{"c10d::Work", Meaning::kCollective, ""},
    NativeRow{"c10d::TCPStore", Meaning::kGroupSetup, ""},
    NativeRow{"gloo::", Meaning::kCollective, ""},
    NativeRow{"MPI_Send", Meaning::kPointToPoint, "send"},
    NativeRow{"MPI_Recv", Meaning::kPointToPoint, "recv"},
    NativeRow{"MPI_", Meaning::kCollective, ""},
    NativeRow{"PMPI_", Meaning::kCollective, ""},
    NativeRow{"cudaStreamSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"cudaDeviceSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"cudaEventSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"cuStreamSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"cuCtxSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"cuEventSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"hipStreamSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"hipDeviceSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"hipEventSynchronize", Meaning::kDeviceWait, ""},
    NativeRow{"c10::cuda::memcpy_and_sync", Meaning::kDeviceWait, ""},
    NativeRow{"at::native::_local_scalar_dense_cuda", Meaning::kDeviceWait, ""},
    NativeRow{"torch::autograd::Engine::execute", Meaning::kBackward, ""},
    NativeRow{"torch::autograd::python::PythonEngine::execute", Meaning::kBackward, ""},
    NativeRow{"gc_collect_main", Meaning::kGc, ""},
    NativeRow{"gc_collect_generations", Meaning::kGc, ""},
    NativeRow{"gc_collect_with_callback", Meaning::kGc, ""},
    NativeRow{"gc_collect_region", Meaning::kGc, ""},
    NativeRow{"_PyGC_Collect", Meaning::kGc, ""},
    NativeRow{"PyGC_Collect", Meaning::kGc, ""},
};

// These tell something only where they are the innermost frames: everything that waits ends in
// them.
constexpr std::array kInnermostPythonRows = {
    Row{"torch/distributed/elastic/", "", Meaning::kNothing},
    Row{"torch/distributed/", "", Meaning::kCollective},
    Row{"torch/nn/parallel/distributed.py", "", Meaning::kCollective},
    Row{"torch/autograd/", "", Meaning::kBackward},
    Row{"threading.py", "", Meaning::kLock},
    Row{"queue.py", "", Meaning::kLock},
    Row{"concurrent/futures/", "", Meaning::kLock},
    Row{"multiprocessing/", "", Meaning::kLock},
};

constexpr std::array kInnermostNativeRows = {
    NativeRow{"pthread_mutex_lock", Meaning::kLock, ""},
    NativeRow{"__pthread_mutex_lock", Meaning::kLock, ""},
    NativeRow{"__lll_lock_wait", Meaning::kLock, ""},
    NativeRow{"___pthread_mutex_lock", Meaning::kLock, ""},
    NativeRow{"fsync", Meaning::kFileSystem, ""},
    NativeRow{"fdatasync", Meaning::kFileSystem, ""},
    NativeRow{"flock", Meaning::kFileSystem, ""},
    NativeRow{"open64", Meaning::kFileSystem, ""},
    NativeRow{"__open", Meaning::kFileSystem, ""},
    NativeRow{"openat", Meaning::kFileSystem, ""},
    NativeRow{"stat64", Meaning::kFileSystem, ""},
    NativeRow{"__xstat", Meaning::kFileSystem, ""},
    NativeRow{"pread64", Meaning::kFileSystem, ""},
    NativeRow{"pwrite64", Meaning::kFileSystem, ""},
};

// How many frames from the innermost one still count as such: libc's own lie above.
constexpr size_t kInnermost = 3;

// Between the interpreter and the C library: what Python waits for when it calls no library.
bool IsPythonLock(std::string_view function) {
  return function == "take_gil" || function.starts_with("PyThread_acquire_lock");
}

bool IsPython(std::string_view file) { return file.ends_with(".py") || file.starts_with('<'); }

bool FileFits(std::string_view file, std::string_view part) {
  const size_t at = file.find(part);
  if (at == std::string_view::npos) return false;
  return at == 0 || file[at - 1] == '/';
}

// "Condition.wait" to "wait": Python since 3.11 tells the class.
std::string_view Unqualified(std::string_view function) {
  const size_t point = function.rfind('.');
  return point == std::string_view::npos ? function : function.substr(point + 1);
}

bool FunctionFits(std::string_view function, std::string_view pattern) {
  if (pattern.empty()) return true;
  function = Unqualified(function);
  if (pattern.back() == '*') return function.starts_with(pattern.substr(0, pattern.size() - 1));
  return function == pattern;
}

template <size_t n>
const Row* FindPython(const std::array<Row, n>& rows, const StackFrame& frame) {
  for (const Row& row : rows) {
    if (FileFits(frame.file, row.file) && FunctionFits(frame.function, row.function)) return &row;
  }
  return nullptr;
}

template <size_t n>
const NativeRow* FindNative(const std::array<NativeRow, n>& rows, const StackFrame& frame) {
  for (const NativeRow& row : rows) {
    if (std::string_view(frame.function).starts_with(row.function)) return &row;
  }
  return nullptr;
}

// The operation that a frame names: the function of distributed_c10d.py, or the one that a method
// of a process group is called after.
std::string OperationOf(const StackFrame& frame, const NativeRow* row) {
  if (row == nullptr) return std::string(Unqualified(frame.function));
  if (*row->operation != '\0') return row->operation;
  for (const auto& [part, operation] : {std::pair{"allreduce", "all_reduce"},
                                        {"broadcast", "broadcast"},
                                        {"barrier", "barrier"},
                                        {"allgather", "all_gather"},
                                        {"reduce_scatter", "reduce_scatter"},
                                        {"alltoall", "all_to_all"},
                                        {"Allreduce", "all_reduce"},
                                        {"Bcast", "broadcast"},
                                        {"Barrier", "barrier"},
                                        {"Allgather", "all_gather"},
                                        {"Alltoall", "all_to_all"}}) {
    if (Contains(frame.function, part)) return operation;
  }
  return "";
}

// A shortened dump may show one name of a function and nothing else: these mean the same in every
// library.
constexpr std::array kBareNames = {
    Row{"", "all_reduce", Meaning::kCollective},
    Row{"", "allreduce", Meaning::kCollective},
    Row{"", "broadcast", Meaning::kCollective},
    Row{"", "barrier", Meaning::kCollective},
    Row{"", "all_gather*", Meaning::kCollective},
    Row{"", "reduce_scatter*", Meaning::kCollective},
    Row{"", "all_to_all*", Meaning::kCollective},
    Row{"", "send", Meaning::kPointToPoint},
    Row{"", "recv", Meaning::kPointToPoint},
    Row{"", "isend", Meaning::kPointToPoint},
    Row{"", "irecv", Meaning::kPointToPoint},
    Row{"", "batch_isend_irecv", Meaning::kPointToPoint},
};

std::optional<StackMeaning> TellingMeaning(const std::vector<StackFrame>& stack, size_t index) {
  const StackFrame& frame = stack[index];
  StackMeaning meaning;
  meaning.frame = index;
  const NativeRow* native = nullptr;
  if (IsPython(frame.file)) {
    const Row* row = FindPython(kPythonRows, frame);
    if (row == nullptr) return std::nullopt;
    meaning.meaning = row->meaning;
  } else if (frame.file.empty() && stack.size() == 1) {
    const auto row = std::find_if(kBareNames.begin(), kBareNames.end(), [&](const Row& candidate) {
      return FunctionFits(frame.function, candidate.function);
    });
    if (row == kBareNames.end()) return std::nullopt;
    meaning.meaning = row->meaning;
  } else {
    native = FindNative(kNativeRows, frame);
    if (native == nullptr) return std::nullopt;
    meaning.meaning = native->meaning;
  }
  if (WaitsForPeers(meaning.meaning)) meaning.operation = OperationOf(frame, native);
  return meaning;
}

// The operation that an outer frame names, when the telling one does not: Work::wait is called by
// all_reduce.
void FindOperation(const std::vector<StackFrame>& stack, StackMeaning* found) {
  for (size_t i = found->frame + 1; i < stack.size() && found->operation.empty(); ++i) {
    const auto outer = TellingMeaning(stack, i);
    if (!outer || !WaitsForPeers(outer->meaning)) continue;
    *found = *outer;
  }
}

StackMeaning InnermostMeaning(const std::vector<StackFrame>& stack) {
  StackMeaning meaning;
  bool seen_python = false;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (IsPython(stack[i].file)) {
      if (seen_python) break;
      seen_python = true;
      const Row* row = FindPython(kInnermostPythonRows, stack[i]);
      if (row == nullptr) break;
      meaning.meaning = row->meaning;
      meaning.frame = i;
      if (row->meaning == Meaning::kCollective) {
        meaning.operation = Unqualified(stack[i].function);
      }
      break;
    }
    if (IsPythonLock(stack[i].function)) {
      meaning.meaning = Meaning::kLock;
      meaning.frame = i;
      break;
    }
    if (std::string_view(stack[i].function).starts_with("_PyEval_")) break;
    if (i >= kInnermost) continue;
    if (const NativeRow* row = FindNative(kInnermostNativeRows, stack[i])) {
      meaning.meaning = row->meaning;
      meaning.frame = i;
      break;
    }
  }
  return meaning;
}

bool IsAnyOf(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return text.starts_with(name); });
}

bool IsTorchFile(std::string_view file) { return FileFits(file, "torch/") || !IsPython(file); }

}  // namespace

StackMeaning MeaningOf(const std::vector<StackFrame>& stack) {
  for (size_t i = 0; i < stack.size(); ++i) {
    const Row* row = IsPython(stack[i].file) ? FindPython(kPythonRows, stack[i]) : nullptr;
    if (row != nullptr && row->meaning == Meaning::kNotARank) return {Meaning::kNotARank, i, ""};
  }
  std::optional<StackMeaning> device;
  for (size_t i = 0; i < stack.size(); ++i) {
    std::optional<StackMeaning> found = TellingMeaning(stack, i);
    if (!found) continue;
    if (found->meaning == Meaning::kDeviceWait) {
      if (!device) device = found;
      continue;
    }
    if (device && !WaitsForPeers(found->meaning)) return *device;
    if (WaitsForPeers(found->meaning)) FindOperation(stack, &*found);
    return *found;
  }
  return device ? *device : InnermostMeaning(stack);
}

bool WaitsForPeers(Meaning meaning) {
  return meaning == Meaning::kCollective || meaning == Meaning::kPointToPoint ||
         meaning == Meaning::kGroupSetup;
}

bool IsLibraryFile(std::string_view file) {
  if (file.empty() || file.starts_with("<frozen") || Contains(file, "/site-packages/") ||
      Contains(file, "/dist-packages/") || Contains(file, "/lib/python3")) {
    return true;
  }
  if (file.starts_with('/')) return false;
  // As py-spy shortens them: without the folder that Python found them in.
  if (!Contains(file, "/")) {
    return IsAnyOf(file, {"threading.py", "queue.py", "selectors.py", "socket.py", "ssl.py",
                          "subprocess.py", "contextlib.py", "runpy.py", "functools.py",
                          "socketserver.py", "tempfile.py", "shutil.py", "pickle.py"});
  }
  return StartsWithAny(
      file, {"torch/",      "deepspeed/",    "numpy/",     "lightning/",  "pytorch_lightning/",
             "accelerate/", "transformers/", "apex/",      "flash_attn/", "transformer_engine/",
             "nvidia/",     "horovod/",      "datasets/",  "triton/",     "multiprocessing/",
             "concurrent/", "asyncio/",      "importlib/", "json/",       "logging/",
             "http/",       "urllib/",       "urllib3/",   "requests/"});
}

const StackFrame* PlaceOf(const std::vector<StackFrame>& stack) {
  for (const StackFrame& frame : stack) {
    if (!IsLibraryFile(frame.file)) return &frame;
  }
  return stack.empty() ? nullptr : &stack.front();
}

const StackFrame* CallerOf(const std::vector<StackFrame>& stack, size_t frame) {
  for (size_t i = frame + 1; i < stack.size(); ++i) {
    if (!IsTorchFile(stack[i].file)) return &stack[i];
  }
  return nullptr;
}

}  // namespace flare::diag
