// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "diag/model/job.h"

// A job as tables for notebooks: a dictionary of equally long columns (NumPy arrays, or lists of
// strings), rows ordered by rank and step. Times are nanoseconds; Unix times count from the epoch.
// Called with the interpreter's lock held.
namespace flare::bindings {

// rank, step, start_unix_ns, duration_ns, communication_ns, own_ns, data_load_ns, cpu_ns; and of the
// device, 0 where none was seen: kernels, span_ns, busy_ns, compute_ns, device_communication_ns,
// memory_ns, overlap_ns, inter_step_ns, issue_latency_p50_ns, communication_issue_latency_p50_ns.
pybind11::dict StepColumns(const diag::Job& job);

// rank, step, kernel_class, count, total_ns, p50_ns, p99_ns: device kernels by class.
pybind11::dict KernelColumns(const diag::Job& job);

// rank, step, batch, m, n, k, data_type, count, total_ns, tflops: matrix products by shape.
pybind11::dict GemmColumns(const diag::Job& job);

// rank, step, communicator, sequence, duration_us: each collective whose duration was observed.
pybind11::dict CollectiveColumns(const diag::Job& job);

// rank, step, caused_ns, longest_ns: what the others waited for this rank (metrics/wait_caused.h).
pybind11::dict WaitColumns(const diag::Job& job);

}  // namespace flare::bindings
