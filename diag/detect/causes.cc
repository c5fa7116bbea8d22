// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/causes.h"

#include <array>

namespace flare::diag {
namespace {

struct Cause {
  std::string_view id;
  const char* team;
  int strength;
};

constexpr std::array kCauses = {
    Cause{"collective_skipped", "algorithm", 3},
    Cause{"collective_mismatch", "algorithm", 3},
    Cause{"collective_order_cycle", "algorithm", 3},
    Cause{"process_stopped", "operations", 2},
    Cause{"process_crashed", "operations", 2},
    Cause{"process_exited", "operations", 2},
    Cause{"out_of_memory_kill", "operations", 2},
    Cause{"gpu_lost", "operations", 2},
    Cause{"gpu_xid", "operations", 2},
    Cause{"ecc_error", "operations", 2},
    Cause{"stuck_link", "operations", 2},
    Cause{"data_loader_stall", "algorithm", 1},
    Cause{"checkpoint_io", "operations", 1},
    Cause{"python_gc", "algorithm", 1},
    Cause{"file_system_stall", "operations", 1},
    Cause{"user_code_stuck", "algorithm", 1},
    Cause{"lock_deadlock", "algorithm", 1},
    Cause{"stuck_kernel", "operations", 1},
    Cause{"compute_slow", "operations", 1},
    Cause{"data_worker_slow", "algorithm", 1},
    Cause{"cpu_contention", "operations", 1},
    Cause{"file_system_slow", "operations", 1},
    Cause{"data_loader", "algorithm", 1},
    Cause{"load_imbalance", "algorithm", 1},
    Cause{"memory_management", "algorithm", 1},
    Cause{"needless_synchronize", "algorithm", 1},
    Cause{"gpu_clock", "operations", 1},
    Cause{"nic_degraded", "operations", 1},
    Cause{"network_degraded", "operations", 1},
    Cause{"pcie_degraded", "operations", 1},
    Cause{"cuda_error", "operations", 2},
    Cause{"nccl_error", "infrastructure", 1},
    Cause{"uncaught_exception", "algorithm", 2},
    Cause{"gpu_direct_off", "operations", 1},
    Cause{"collective_algorithm", "infrastructure", 1},
    Cause{"cause_not_found", "operations", 0},
};

const Cause& Find(std::string_view id) {
  for (const Cause& cause : kCauses) {
    if (cause.id == id) return cause;
  }
  return kCauses.back();
}

}  // namespace

Verdict MakeVerdict(std::string_view finding_class, std::string_view cause) {
  Verdict verdict;
  verdict.finding_class = finding_class;
  verdict.cause = cause;
  verdict.team = Find(cause).team;
  verdict.severity = finding_class == "hang" || finding_class == "error" ? "high" : "medium";
  return verdict;
}

int ExplanationStrength(std::string_view cause) { return Find(cause).strength; }

}  // namespace flare::diag
