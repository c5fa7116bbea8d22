// SPDX-License-Identifier: Apache-2.0
#include "diag/bindings/columns.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "diag/detect/words.h"
#include "diag/metrics/own_time.h"
#include "diag/metrics/wait_caused.h"
#include "libflare/core/kernel_class.h"

namespace py = pybind11;

namespace flare::bindings {
namespace {

// A column that grows row by row and becomes an array without a copy.
template <typename T>
class Column {
 public:
  void Add(T value) { values_.push_back(value); }
  py::array Take() {
    auto* kept = new std::vector<T>(std::move(values_));
    const py::capsule owner(kept, [](void* p) { delete static_cast<std::vector<T>*>(p); });
    return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
  }

 private:
  std::vector<T> values_;
};

using Unsigned = Column<uint64_t>;
using Real = Column<double>;

// Text of a job may be anything; Python wants UTF-8.
class Text {
 public:
  void Add(const std::string& value) {
    list_.append(py::reinterpret_steal<py::str>(
        PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace")));
  }
  py::list Take() { return std::move(list_); }

 private:
  py::list list_;
};

template <typename Visit>
void EachStep(const diag::Job& job, Visit visit) {
  for (const auto& [rank, record] : job.ranks) {
    for (const diag::RankStep& step : record.steps) visit(rank, step);
  }
}

double Teraflops(const diag::GemmTotals& gemm) {
  if (gemm.total_ns == 0) return 0;
  const double operations = 2.0 * gemm.batch * gemm.m * gemm.n * gemm.k * gemm.count;
  return operations / static_cast<double>(gemm.total_ns) * 1e-3;
}

}  // namespace

py::dict StepColumns(const diag::Job& job) {
  Unsigned rank, step, start, duration, communication, own, data_load, cpu, kernels, span, busy,
      compute, device_communication, memory, overlap, inter_step;
  Real latency, communication_latency;
  EachStep(job, [&](Rank r, const diag::RankStep& s) {
    const diag::OwnTime time = diag::OwnTimeOf(s);
    rank.Add(r.value);
    step.Add(s.step.value);
    start.Add(s.start_unix_ns);
    duration.Add(s.duration_ns);
    communication.Add(s.communication_ns);
    own.Add(time.own_ns);
    data_load.Add(time.data_load_ns);
    cpu.Add(s.cpu_ns);
    const diag::DeviceStep device = s.device.value_or(diag::DeviceStep());
    kernels.Add(device.kernels);
    span.Add(device.span_ns);
    busy.Add(device.busy_ns);
    compute.Add(device.compute_ns);
    device_communication.Add(device.communication_ns);
    memory.Add(device.memory_ns);
    overlap.Add(device.overlap_ns);
    inter_step.Add(device.inter_step_ns);
    latency.Add(device.compute_issue_latency.Quantile(0.5));
    communication_latency.Add(device.communication_issue_latency.Quantile(0.5));
  });
  py::dict table;
  table["rank"] = rank.Take();
  table["step"] = step.Take();
  table["start_unix_ns"] = start.Take();
  table["duration_ns"] = duration.Take();
  table["communication_ns"] = communication.Take();
  table["own_ns"] = own.Take();
  table["data_load_ns"] = data_load.Take();
  table["cpu_ns"] = cpu.Take();
  table["kernels"] = kernels.Take();
  table["span_ns"] = span.Take();
  table["busy_ns"] = busy.Take();
  table["compute_ns"] = compute.Take();
  table["device_communication_ns"] = device_communication.Take();
  table["memory_ns"] = memory.Take();
  table["overlap_ns"] = overlap.Take();
  table["inter_step_ns"] = inter_step.Take();
  table["issue_latency_p50_ns"] = latency.Take();
  table["communication_issue_latency_p50_ns"] = communication_latency.Take();
  return table;
}

py::dict KernelColumns(const diag::Job& job) {
  Unsigned rank, step, count, total;
  Text kernel_class;
  Real p50, p99;
  EachStep(job, [&](Rank r, const diag::RankStep& s) {
    if (!s.device) return;
    for (const diag::KernelTotals& totals : s.device->classes) {
      rank.Add(r.value);
      step.Add(s.step.value);
      kernel_class.Add(KernelClassName(totals.kernel_class));
      count.Add(totals.count);
      total.Add(totals.total_ns);
      p50.Add(totals.duration.Quantile(0.5));
      p99.Add(totals.duration.Quantile(0.99));
    }
  });
  py::dict table;
  table["rank"] = rank.Take();
  table["step"] = step.Take();
  table["kernel_class"] = kernel_class.Take();
  table["count"] = count.Take();
  table["total_ns"] = total.Take();
  table["p50_ns"] = p50.Take();
  table["p99_ns"] = p99.Take();
  return table;
}

py::dict GemmColumns(const diag::Job& job) {
  Unsigned rank, step, batch, m, n, k, count, total;
  Text data_type;
  Real tflops;
  EachStep(job, [&](Rank r, const diag::RankStep& s) {
    if (!s.device) return;
    for (const diag::GemmTotals& gemm : s.device->gemms) {
      rank.Add(r.value);
      step.Add(s.step.value);
      batch.Add(gemm.batch);
      m.Add(gemm.m);
      n.Add(gemm.n);
      k.Add(gemm.k);
      data_type.Add(diag::DataTypeText(gemm.data_type));
      count.Add(gemm.count);
      total.Add(gemm.total_ns);
      tflops.Add(Teraflops(gemm));
    }
  });
  py::dict table;
  table["rank"] = rank.Take();
  table["step"] = step.Take();
  table["batch"] = batch.Take();
  table["m"] = m.Take();
  table["n"] = n.Take();
  table["k"] = k.Take();
  table["data_type"] = data_type.Take();
  table["count"] = count.Take();
  table["total_ns"] = total.Take();
  table["tflops"] = tflops.Take();
  return table;
}

py::dict CollectiveColumns(const diag::Job& job) {
  Unsigned rank, step, communicator, sequence, duration;
  EachStep(job, [&](Rank r, const diag::RankStep& s) {
    for (const diag::CommunicatorStep& c : s.communicators) {
      for (size_t i = 0; i < c.duration_us.size(); ++i) {
        if (c.duration_us[i] == 0) continue;
        rank.Add(r.value);
        step.Add(s.step.value);
        communicator.Add(c.communicator.value);
        sequence.Add(c.first_sequence + i);
        duration.Add(c.duration_us[i]);
      }
    }
  });
  py::dict table;
  table["rank"] = rank.Take();
  table["step"] = step.Take();
  table["communicator"] = communicator.Take();
  table["sequence"] = sequence.Take();
  table["duration_us"] = duration.Take();
  return table;
}

py::dict WaitColumns(const diag::Job& job) {
  Unsigned rank, step, caused, longest;
  for (const diag::StepWait& wait : diag::WaitCaused(job, StepId(0), StepId(UINT64_MAX))) {
    for (const auto& [r, caused_ns] : wait.caused) {
      rank.Add(r.value);
      step.Add(wait.step.value);
      caused.Add(caused_ns);
      const auto it = wait.longest.find(r);
      longest.Add(it == wait.longest.end() ? 0 : it->second);
    }
  }
  py::dict table;
  table["rank"] = rank.Take();
  table["step"] = step.Take();
  table["caused_ns"] = caused.Take();
  table["longest_ns"] = longest.Take();
  return table;
}

}  // namespace flare::bindings
