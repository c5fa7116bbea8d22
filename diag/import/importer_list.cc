// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <vector>

#include "diag/import/check.h"
#include "diag/import/importer.h"
#include "diag/import/importers.h"

namespace flare::import {
namespace {

// In the order in which --help lists them. Of equally sure importers the first wins.
const std::vector<Importer>& Table() {
  static const std::vector<Importer> table = {
      {"py-spy", "py-spy dump", RecognisePySpy, ReadPySpy},
      {"py-spy-json", "py-spy dump --json", RecognisePySpyJson, ReadPySpyJson},
      {"faulthandler", "Python faulthandler dump", RecogniseFaulthandler, ReadFaulthandler},
      {"gdb", "gdb backtrace", RecogniseGdbBacktrace, ReadGdbBacktrace},
      {"stack-svg", "xpu_timer stack flame graph", RecogniseStackSvg, ReadStackSvg},
      {"kernel-log", "kernel or system log", RecogniseKernelLog, ReadKernelLog},
      {"fabric-manager", "NVIDIA fabric manager log", RecogniseFabricManager, ReadFabricManager},
      {"nvidia-smi", "nvidia-smi output", RecogniseNvidiaSmi, ReadNvidiaSmi},
      {"ibstat", "ibstat or ibstatus output", RecogniseInfiniband, ReadInfiniband},
      {"ib-sysfs", "tar of /sys/class/infiniband", RecogniseInfinibandSysfs, ReadInfinibandSysfs},
      {"dcgmi", "dcgmi diag or health", RecogniseDcgm, ReadDcgm},
      {"dcgmi-json", "dcgmi diag or health as JSON", RecogniseDcgmJson, ReadDcgmJson},
      {"prometheus", "metrics of dcgm-exporter, nvidia_gpu_exporter or xpu_timer",
       RecognisePrometheus, ReadPrometheus},
      {"nsight", "Nsight Systems export (SQLite)", RecogniseNsight, ReadNsight},
      {"flight-recorder", "PyTorch Flight Recorder dump", RecogniseFlightRecorder,
       ReadFlightRecorder},
      {"kineto", "PyTorch profiler trace (Kineto)", RecogniseKineto, ReadKineto},
      {"operation-timeline", "timeline of pipeline operations (Chrome JSON)",
       RecogniseOperationTimeline, ReadOperationTimeline},
      {"flare-trace", "Chrome trace written by flare trace", RecogniseFlareTrace, ReadFlareTrace},
      {"perfetto", "Perfetto trace written by flare trace", RecognisePerfettoTrace,
       ReadPerfettoTrace},
      {"nccl-ras", "answer of NCCL's RAS subsystem, text or JSON", RecogniseNcclRas, ReadNcclRas},
      {"nccl-inspector", "NCCL Inspector", RecogniseNcclInspector, ReadNcclInspector},
      {"step-table", "table of step times (CSV or JSON lines)", RecogniseStepTable, ReadStepTable},
      {"job-output", "output of a job: training steps, messages of NCCL, PyTorch or torchrun",
       RecogniseJobOutput, ReadJobOutput},
  };
  return table;
}

std::string KindList(std::span<const Importer> table) {
  std::string list;
  for (const Importer& importer : table) {
    list += (list.empty() ? "" : ", ") + std::string(importer.kind);
  }
  return list;
}

// What the first bytes look like to a person.
std::string Impression(std::string_view head) {
  if (head.empty()) return "it is empty";
  const auto odd = std::count_if(head.begin(), head.end(), [](unsigned char c) {
    return c < 0x20 && c != '\n' && c != '\r' && c != '\t';
  });
  if (static_cast<size_t>(odd) * 20 > head.size()) return "it holds binary data of another kind";
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (head[first] == '{' || head[first] == '[')) {
    return "it holds JSON of another kind";
  }
  return "it holds text of another kind";
}

}  // namespace

std::span<const Importer> Importers() { return Table(); }

Result<const Importer*> ChooseImporter(const Input& input, const std::string& as,
                                       std::span<const Importer> table) {
  if (!as.empty()) {
    for (const Importer& importer : table) {
      if (as == importer.kind) return &importer;
    }
    return Status::Error("no kind \"" + as + "\"; there are: " + KindList(table));
  }
  const Importer* surest = nullptr;
  int sure = 0;
  for (const Importer& importer : table) {
    const int here = importer.recognise(input.head());
    if (here > sure) {
      sure = here;
      surest = &importer;
    }
  }
  if (surest) return surest;
  return Status::Error(input.name() +
                       ": not a kind of file that can be imported: " + Impression(input.head()) +
                       " (kinds: " + KindList(table) + "; --as names one)");
}

Result<Fragment> ReadWith(const Importer& importer, Input* input) {
  Fragment fragment;
  Status status;
  try {
    status = importer.read(input, &fragment);
  } catch (const std::exception& error) {  // of a library, or no memory: the file asks too much
    status = Status::Error(std::string("cannot be read: ") + error.what());
  }
  if (!status.ok()) {
    return status.message().starts_with(input->name()) ? status : status.Prefixed(input->name());
  }
  fragment.kind = importer.kind;
  fragment.path = input->name();
  CheckFragment(&fragment);
  return fragment;
}

Result<Fragment> ImportFile(const std::string& path, const std::string& as) {
  const Result<std::unique_ptr<Input>> input = Input::Open(path);
  if (!input.ok()) return input.status();
  const Result<const Importer*> importer = ChooseImporter(**input, as);
  if (!importer.ok()) return importer.status();
  return ReadWith(**importer, input->get());
}

}  // namespace flare::import
