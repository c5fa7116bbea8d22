// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flare/v1/query.pb.h"

// A report with every field set: a job of four ranks whose rank 2 is stopped.
namespace flare::diag {

inline v1::Finding SampleFinding() {
  v1::Finding f;
  f.set_id("f1");
  f.set_job("demo-1");
  f.set_class_("hang");
  f.set_cause("process_stopped");
  f.set_team("operations");
  f.add_ranks(2);
  f.add_nodes("node-a");
  f.add_links("node-a/eth0");
  f.set_confidence(0.99);
  f.set_severity("high");
  f.set_state("open");
  f.set_first_seen_unix_ns(1'773'496'802'123'000'000);  // 2026-03-14T14:00:02.123Z
  f.set_last_seen_unix_ns(1'773'496'814'123'000'000);
  f.set_gpu_hours_lost(0.0133);
  f.set_summary("Rank 2 is stopped by a signal; ranks 0, 1 and 3 wait for it in all_reduce 512.");
  f.set_action("Continue it with kill -CONT 4711, or find out who stopped it.");
  v1::Evidence* e = f.add_evidence();
  e->set_text("state of the process");
  e->set_metric("stopped");
  e->set_value(12);
  e->set_has_value(true);
  e->set_unit("s");
  e->set_expected(0);
  e->set_has_expected(true);
  for (const uint32_t victim : {0u, 1u, 3u}) f.add_victims(victim);
  return f;
}

// Five steps of 20 ms; 75 ms of 100 ms busy, half of the communication hidden.
inline void AddSampleProfile(uint32_t rank, v1::Report* report) {
  v1::RankProfile* profile = report->add_profiles();
  profile->set_rank(rank);
  profile->set_steps(5);
  profile->set_steps_ns(100'000'000);
  v1::DeviceStep* device = profile->mutable_device();
  device->set_kernels(1000);
  device->set_communication_kernels(40);
  device->set_span_ns(90'000'000);
  device->set_inter_step_ns(10'000'000);
  device->set_busy_ns(75'000'000);
  device->set_compute_ns(60'000'000);
  device->set_communication_ns(30'000'000);
  device->set_overlap_ns(15'000'000);
  device->mutable_compute_issue_latency()->add_index_delta(500);  // 22 us
  device->mutable_compute_issue_latency()->add_count(3);
  v1::KernelTotals* gemm = device->add_classes();
  gemm->set_kernel_class(v1::KERNEL_CLASS_GEMM);
  gemm->set_count(960);
  gemm->set_total_ns(60'000'000);
  device->add_devices("NVIDIA A100-SXM4-80GB");
}

inline v1::Report SampleReport() {
  v1::Report report;
  v1::JobSummary* job = report.mutable_job();
  job->set_job("demo-1");
  job->set_name("demo");
  job->set_world_size(4);
  job->set_ranks_seen(4);
  job->set_ranks_alive(4);
  job->set_state("stalled");
  job->set_first_seen_unix_ns(1'773'496'800'000'000'000);
  job->set_last_seen_unix_ns(1'773'496'814'123'000'000);
  job->set_steps(512);
  job->set_step_seconds_median(0.42);
  job->set_open_findings(1);
  job->add_nodes("node-a");
  job->set_framework("torch 2.13.0+cpu");
  job->set_exit_status(-1);
  *report.add_findings() = SampleFinding();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    v1::RankSummary* r = report.add_ranks();
    r->set_rank(rank);
    r->set_node("node-a");
    r->set_pid(4709 + rank);
    r->set_state(rank == 2 ? "stopped" : "running");
    r->set_steps(512);
    r->set_step_seconds_median(0.42);
    r->set_doing("all_reduce 512");
    v1::PartStatus* part = r->add_parts();
    part->set_part("gloo");
    part->set_state("active");
    AddSampleProfile(rank, &report);
  }
  report.add_notes("a file of no known kind left out: README");
  return report;
}

}  // namespace flare::diag
