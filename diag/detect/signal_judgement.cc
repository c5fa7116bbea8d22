// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/signal_judgement.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "diag/detect/words.h"
#include "diag/detect/xid_table.h"

namespace flare::diag {
namespace {

// Of a GPU's memory at most 64 pages can be retired; NVIDIA takes boards back from 60 on.
constexpr double kMostRetiredPages = 60;
// Corrected PCIe errors are part of life; a device that makes this many has a bad link.
constexpr uint64_t kManyPcieErrors = 100;

bool StartsWith(std::string_view text, std::string_view prefix) { return text.starts_with(prefix); }

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "python[4242]" names a process of a training job, as far as a name can tell.
bool IsTraining(std::string_view process) {
  return StartsWith(process, "python") || StartsWith(process, "pt_") ||
         StartsWith(process, "torchrun") || StartsWith(process, "ray::");
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

constexpr char kResetGpu[] =
    "Take the node out of use and reset the GPU; if it comes back, have the GPU replaced.";
constexpr char kCheckProgram[] =
    "Run the program under compute-sanitizer to find the kernel; only when other programs fault on "
    "this GPU as well, test it (dcgmi diag -r 3).";
constexpr char kReplaceMemory[] =
    "Reset the GPU, which takes the bad memory out of use; have it replaced when the reset does "
    "not "
    "help or the errors return.";

Judgement JudgeXid(const HostSignal& signal) {
  const int64_t number = signal.code.value_or(0);
  const XidFact& fact = XidFactOf(number);
  Judgement judgement;
  judgement.cause = "gpu_xid";
  judgement.what = std::string(fact.meaning) + " (Xid " + std::to_string(number) + ")";
  judgement.conclusive = fact.proof;
  switch (fact.xid_class) {
    case XidClass::kProgram:
      judgement.team = "algorithm";
      judgement.programs_fault = true;
      judgement.action = kCheckProgram;
      break;
    case XidClass::kMemory:
      judgement.cause = "ecc_error";
      judgement.action = kReplaceMemory;
      break;
    case XidClass::kLost:
      judgement.cause = "gpu_lost";
      judgement.action =
          "Restart the node; when the GPU is lost again, look at its power, temperature and seat.";
      break;
    case XidClass::kLink:
      if (signal.value) judgement.conclusive = *signal.value > 0;
      judgement.action =
          "Reset the GPUs of the link together with their NVSwitches; have cable or board replaced "
          "when it comes back.";
      break;
    default:
      judgement.action = kResetGpu;
  }
  return judgement;
}

std::optional<Judgement> JudgeEcc(const HostSignal& signal) {
  Judgement judgement;
  judgement.cause = "ecc_error";
  judgement.conclusive = true;
  judgement.what = signal.text;
  judgement.action = kReplaceMemory;
  switch (static_cast<EccFact>(signal.code.value_or(0))) {
    case EccFact::kAggregateUncorrectable:
      return std::nullopt;  // past: what it broke was taken out of use
    case EccFact::kRetiredPages:
      if (signal.value.value_or(0) < kMostRetiredPages) return std::nullopt;
      judgement.what += ", and hardly any more can be";
      judgement.action = "Have the GPU replaced.";
      break;
    case EccFact::kRetirementFailed:
      judgement.action = "Have the GPU replaced.";
      break;
    case EccFact::kRetirementPending:
    case EccFact::kVolatileUncorrectable:
      break;
  }
  return judgement;
}

std::optional<Judgement> JudgeClock(const HostSignal& signal) {
  const auto limit = static_cast<ClockLimit>(signal.code.value_or(3));
  if (limit == ClockLimit::kPowerCap) return std::nullopt;  // normal under full load
  Judgement judgement;
  judgement.finding_class = "fail_slow";
  judgement.cause = "gpu_clock";
  judgement.conclusive = signal.value.has_value();
  judgement.what = signal.text;
  judgement.action =
      limit == ClockLimit::kThermal
          ? "Look at cooling: fans, air flow, temperature of the room, thermal paste."
          : "Look at power: supplies, cables and the power brake signal of the chassis.";
  return judgement;
}

std::optional<Judgement> JudgeNvlink(const HostSignal& signal) {
  // Boards for a PCIe slot have NVLinks only where a bridge joins two of them.
  if (Contains(signal.text, "PCIe")) return std::nullopt;
  Judgement judgement;
  judgement.cause = "stuck_link";
  // A GPU of its model has these links up, so they belong to the machine.
  judgement.conclusive = signal.code.value_or(0) > 0 && signal.value.value_or(0) > 0;
  judgement.what = signal.text;
  if (signal.code) {
    judgement.what += ", another GPU of this model has " + std::to_string(*signal.code) + " up";
  }
  judgement.action =
      "Take the node out of use; reset its GPUs, and have the board replaced when the links stay "
      "down.";
  return judgement;
}

std::optional<Judgement> JudgePort(const HostSignal& signal) {
  // A port that is down may have no cable, or be switched off by intent. Only one whose like are
  // mostly up stands out.
  if (signal.value && *signal.value <= 0.5) return std::nullopt;
  Judgement judgement;
  judgement.finding_class = "fail_slow";
  judgement.cause = "nic_degraded";
  judgement.conclusive = !signal.value;  // a log saw it go down
  judgement.what = signal.value ? "down while most ports of its kind are up (" + signal.text + ")"
                                : "went down and did not come back";
  judgement.action =
      "If this port is meant to be used: look at cable and switch port, and at who disabled it.";
  return judgement;
}

std::optional<Judgement> JudgePcie(const HostSignal& signal) {
  Judgement judgement;
  judgement.finding_class = "fail_slow";
  judgement.cause = "pcie_degraded";
  judgement.action = "Reseat the device or riser, look at its slot and firmware.";
  if (signal.kind == SignalKind::kPcieDegraded) {
    judgement.conclusive = signal.code.value_or(0) == 1;
    judgement.what = signal.text;
    return judgement;
  }
  const int64_t severity = signal.code.value_or(0);
  if (severity == 0 && signal.count < kManyPcieErrors) return std::nullopt;
  judgement.conclusive = severity == 2;
  judgement.what = std::to_string(signal.count) + " PCIe error" + (signal.count == 1 ? "" : "s") +
                   (severity == 0   ? " that were corrected"
                    : severity == 2 ? ", fatal"
                                    : " that were not corrected");
  return judgement;
}

std::optional<Judgement> JudgeOutOfMemory(const HostSignal& signal, const Job& job) {
  // Of a device's own allocator: the program says so itself.
  if (Contains(signal.text, "CUDA") || Contains(signal.text, "HIP")) return std::nullopt;
  Judgement judgement;
  judgement.cause = "out_of_memory_kill";
  judgement.conclusive = RankOfProcess(signal, job) || IsTraining(signal.device);
  judgement.what = signal.device.empty()
                       ? "the kernel ran out of memory"
                       : "the kernel ended " + signal.device + " for want of memory";
  judgement.action =
      "Look at the memory of the ranks and data workers on this node, and at its limits (cgroup); "
      "use fewer workers, or less prefetching.";
  return judgement;
}

std::optional<Judgement> JudgeCrash(const HostSignal& signal, const Job& job) {
  // Of a rank, a launcher tells it (library_signals.h); of a process known to have died, the
  // detector of hangs.
  if (signal.rank) return std::nullopt;
  const bool known = std::any_of(job.ranks.begin(), job.ranks.end(), [](const auto& entry) {
    return entry.second.state.process.life == Life::kDied;
  });
  if (known) return std::nullopt;
  Judgement judgement;
  judgement.cause = "process_crashed";
  judgement.conclusive = RankOfProcess(signal, job) || IsTraining(signal.device);
  judgement.what = signal.text;
  judgement.action =
      "Look at the library in which it crashed and the process's own output; a core dump (ulimit "
      "-c) shows the stack.";
  return judgement;
}

}  // namespace

std::optional<Rank> RankOfProcess(const HostSignal& signal, const Job& job) {
  if (signal.rank) return signal.rank;
  const size_t open = signal.device.rfind('[');
  if (open == std::string::npos || !signal.device.ends_with(']')) return std::nullopt;
  int64_t pid = 0;
  const char* end = signal.device.data() + signal.device.size() - 1;
  if (std::from_chars(signal.device.data() + open + 1, end, pid).ptr != end || pid <= 0) {
    return std::nullopt;
  }
  for (const auto& [rank, record] : job.ranks) {
    const bool here = signal.node.empty() || record.node.empty() || record.node == signal.node;
    if (record.pid == pid && here) return rank;
  }
  return std::nullopt;
}

std::optional<Judgement> Judge(const HostSignal& signal, const Job& job) {
  Judgement judgement;
  switch (signal.kind) {
    case SignalKind::kXid:
      if (XidFactOf(signal.code.value_or(0)).xid_class == XidClass::kNoFault) return std::nullopt;
      return JudgeXid(signal);
    case SignalKind::kSxid:
      if (signal.value && *signal.value == 0) return std::nullopt;  // not fatal: no effect
      judgement.cause = "gpu_xid";
      judgement.conclusive = signal.value.has_value();
      judgement.what = "an NVSwitch error (SXid " + std::to_string(signal.code.value_or(0)) + ")";
      judgement.action =
          "Reset all GPUs and NVSwitches of the node together; have the board replaced when it "
          "comes back.";
      return judgement;
    case SignalKind::kEcc:
      return JudgeEcc(signal);
    case SignalKind::kGpuLost:
      judgement.cause = "gpu_lost";
      judgement.conclusive = true;
      judgement.what = "the driver has lost it";
      judgement.action =
          "Restart the node; when the GPU is lost again, look at its power, temperature and seat.";
      return judgement;
    case SignalKind::kGpuClock:
      return JudgeClock(signal);
    case SignalKind::kNvlinkDown:
      return JudgeNvlink(signal);
    case SignalKind::kLinkDown:
      return JudgePort(signal);
    case SignalKind::kLinkFlap:
      judgement.finding_class = "fail_slow";
      judgement.cause = "network_degraded";
      judgement.conclusive = signal.value.value_or(1) >= 2;
      judgement.what = "lost its carrier " + Number(signal.value.value_or(1)) +
                       (signal.value.value_or(1) == 1 ? " time" : " times");
      judgement.action = "Look at cable, transceiver and switch port.";
      return judgement;
    case SignalKind::kPcieErrors:
    case SignalKind::kPcieDegraded:
      return JudgePcie(signal);
    case SignalKind::kOutOfMemory:
      return JudgeOutOfMemory(signal, job);
    case SignalKind::kCrash:
      return JudgeCrash(signal, job);
    case SignalKind::kFileSystemStall:
      judgement.finding_class = "hang";
      judgement.cause = "file_system_stall";
      judgement.what = signal.text;
      judgement.action = "Look at the file system or server behind it.";
      return judgement;
    case SignalKind::kNodeFault:
      judgement.cause = "cause_not_found";
      judgement.what = signal.text;
      judgement.action = "Whether this concerns the job is not known: look at the node.";
      return judgement;
    default:
      return std::nullopt;
  }
}

}  // namespace flare::diag
