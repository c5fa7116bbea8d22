// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "diag/import/importer.h"
#include "diag/import/importers.h"
#include "diag/import/json_args.h"
#include "diag/import/json_events.h"
#include "tests/diag/import/recorded.h"

// Known truths of recorded PyTorch traces. "HTA" is HolisticTraceAnalysis on the same file. What it
// calls compute, idle, non-compute and overlap is what DeviceStep calls compute_ns / span_ns, 1 -
// busy_ns / span_ns, the rest, and overlap_ns / communication_ns. Where its numbers differ from
// ours, it is because
// - HTA leaves out what was launched in the last profiler step of a file, if there are several, and
//   we do not;
// - HTA rounds times inwards to microseconds before it adds them up: kernels of a few microseconds
//   lose up to half their length (nccl_parser_config: 77.78 % idle instead of 77.23 %);
// - its streams are those of any device activity, as ours are, but the collection's list counts
//   those of kernels only.
namespace flare::import {
namespace {

using diag::DeviceStep;
using testing::SizeIs;

Fragment Import(const std::string& path) {
  Result<Fragment> fragment = ImportFile(path, "");
  EXPECT_TRUE(fragment.ok()) << fragment.status().message();
  return fragment.ok() ? *fragment : Fragment();
}

// Percent of the span, and of the communication for the overlap.
struct Shares {
  double idle = 0, compute = 0, rest = 0, overlap = 0;
};

Shares SharesOf(const DeviceStep& step) {
  const auto percent = [](uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  };
  return {percent(step.span_ns - step.busy_ns, step.span_ns),
          percent(step.compute_ns, step.span_ns),
          percent(step.busy_ns - step.compute_ns, step.span_ns),
          percent(step.overlap_ns, step.communication_ns)};
}

// The trace as HTA keeps it: without what was launched in the last profiler step, times rounded
// inwards to microseconds.
std::string AsHtaReadsIt(const std::string& path) {
  const auto each = [&](const auto& take) {
    const Result<std::unique_ptr<Input>> input = Input::Open(path);
    JsonEvents events(input->get(), {});
    JsonEvent event;
    while (events.Next(&event)) {
      if (event.Raw("ph") == "\"X\"") take(event);
    }
  };
  const auto correlation = [](const JsonEvent& event) {
    JsonArgs args;
    return args.Parse(event.Raw("args")) ? args.Int("correlation").value_or(-1) : -1;
  };
  int64_t last_step = INT64_MIN;
  each([&](const JsonEvent& event) {
    const bool step = event.String("cat") == "user_annotation" &&
                      event.String("name").starts_with("ProfilerStep#");
    if (step) last_step = std::max(last_step, *event.Nanoseconds("ts"));
  });
  std::set<int64_t> launched;
  each([&](const JsonEvent& event) {
    if (event.String("cat").starts_with("cuda") && *event.Nanoseconds("ts") < last_step) {
      launched.insert(correlation(event));
    }
  });
  std::string text = "[";
  each([&](const JsonEvent& event) {
    const std::string cat(event.String("cat"));
    if ((cat != "kernel" && !cat.starts_with("gpu_mem")) || !launched.contains(correlation(event)))
      return;
    // HTA's times are doubles: 0.25 us apart where they count from 1970.
    const double begin = std::stod(std::string(event.Text("ts")));
    const double end = begin + std::stod(std::string(event.Text("dur")));
    const auto rounded = static_cast<int64_t>(std::ceil(begin));
    const int64_t length = std::max<int64_t>(0, static_cast<int64_t>(std::floor(end)) - rounded);
    text += R"({"ph":"X","cat":")" + cat + R"(","name":)" + std::string(event.Raw("name")) +
            R"(,"ts":)" + std::to_string(rounded) + R"(,"dur":)" + std::to_string(length) +
            R"(,"args":)" + std::string(event.Raw("args")) + "},";
  });
  return text;
}

const diag::RankRecord& OnlyRecord(const Fragment& fragment) {
  EXPECT_THAT(fragment.ranks, SizeIs(1));
  static const diag::RankRecord none;
  return fragment.ranks.empty() ? none : fragment.ranks[0].record;
}

uint32_t Collectives(const diag::RankRecord& record) {
  uint32_t count = 0;
  for (const diag::RankStep& step : record.steps) {
    for (const diag::CommunicatorStep& comm : step.communicators) count += comm.count;
  }
  return count;
}

TEST(KinetoTracesTest, MegatronOnEightRanks) {
  SKIP_WITHOUT_RECORDED_FILES();
  const double idle[] = {37.4, 1.2, 10.8, 3.2, 0.5, 1.3, 34.4, 1.8};
  const double communication_ms[] = {241, 481, 413, 472, 495, 491, 264, 482};
  for (uint32_t r = 0; r < 8; ++r) {
    const std::string path =
        Recorded("astra-sim/megatron-tp8-8xA100/kineto-rank" + std::to_string(r) + ".json.gz");
    const Fragment fragment = Import(path);
    const diag::RankRecord& record = OnlyRecord(fragment);
    EXPECT_EQ(fragment.ranks[0].rank, Rank(r));
    EXPECT_EQ(fragment.ranks[0].world_size, 8u);
    const DeviceStep& device = *record.recording;
    EXPECT_EQ(device.kernels, 690u);
    EXPECT_EQ(device.communication_kernels, 84u);
    EXPECT_EQ(device.streams, 2u);
    EXPECT_THAT(device.devices, testing::ElementsAre("NVIDIA A100-SXM4-80GB"));
    EXPECT_NEAR(SharesOf(device).idle, idle[r], 0.06) << r;
    EXPECT_EQ(device.overlap_ns, 0u);
    EXPECT_GE(device.compute_ns, 131'000'000u);
    EXPECT_LE(device.compute_ns, 133'600'000u);
    EXPECT_NEAR(static_cast<double>(device.communication_ns) * 1e-6, communication_ms[r], 0.6) << r;
    ASSERT_THAT(record.steps, SizeIs(1));
    EXPECT_EQ(record.steps[0].step, StepId(3));
    EXPECT_EQ(Collectives(record), 84u);
    const diag::CommunicatorStep& comm = record.steps[0].communicators.at(0);
    EXPECT_EQ(comm.first_sequence, 337u);
    EXPECT_THAT(comm.duration_us, SizeIs(84));
    ASSERT_THAT(comm.operations, SizeIs(2));
    EXPECT_EQ(comm.operations[0].operation, Operation::kAllReduce);
    EXPECT_EQ(comm.operations[0].count + comm.operations[1].count, 84u);
    EXPECT_EQ(std::min(comm.operations[0].count, comm.operations[1].count), 3u);  // float32
  }
}

TEST(KinetoTracesTest, DlrmOnEightRanks) {
  SKIP_WITHOUT_RECORDED_FILES();
  const double idle[] = {49.3, 34.3, 62.1, 43.2, 53.6, 55.6, 61.8, 75.8};
  const double overlap[] = {4.50, 2.47, 7.88, 3.31, 0.56, 0.64, 7.56, 9.51};
  std::vector<CommId> first;
  for (uint32_t r = 0; r < 8; ++r) {
    const std::string path =
        Recorded("param/dlrm-8xV100/kineto-rank" + std::to_string(r) + ".json.gz");
    const Fragment fragment = Import(path);
    const diag::RankRecord& record = OnlyRecord(fragment);
    const DeviceStep& device = *record.recording;
    EXPECT_GE(device.kernels, 245u);
    EXPECT_LE(device.kernels, 315u);
    EXPECT_EQ(device.communication_kernels, 8u);
    EXPECT_NEAR(SharesOf(device).idle, idle[r], 0.06) << r;
    EXPECT_NEAR(SharesOf(device).overlap, overlap[r], 0.006) << r;
    EXPECT_EQ(Collectives(record), 8u);
    uint32_t all_to_all = 0, all_reduce = 0;
    for (const diag::CommunicatorStep& comm : record.steps.at(0).communicators) {
      for (const diag::OperationTotals& totals : comm.operations) {
        if (totals.operation == Operation::kAllToAll) all_to_all += totals.count;
        if (totals.operation == Operation::kAllReduce) all_reduce += totals.count;
      }
    }
    EXPECT_EQ(all_to_all, 5u);
    EXPECT_EQ(all_reduce, 3u);
    // Without process groups in the file, equal sequences of kernels name the communicators.
    std::vector<CommId> here;
    for (const auto& comm : record.steps[0].communicators) here.push_back(comm.communicator);
    if (r == 0) first = here;
    EXPECT_EQ(here, first) << r;
  }
}

struct Counts {
  const char* file;
  uint32_t kernels, communication, streams;
  double span_ms;  // of the whole trace in the collection's list; ours is of the device
};

TEST(KinetoTracesTest, CountsOfTheCollection) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Counts all[] = {
      {"hta/df_index_resolver-rank1of2.json.gz", 19370, 2020, 2, 1738.04},
      {"hta/nccl_parser_config-rank0of2.json.gz", 2700, 21, 2, 684.37},
      {"hta/negative_queue_length-rank0of16.json.gz", 6080, 80, 6, 1232.47},
      {"hta/ns_resolution-rank0.json.gz", 4350, 0, 1, 495.0},
      {"hta/sampled-rank0of128.json.gz", 1154, 10, 5, 1230.29},
      {"hta/sampled-rank1of128.json.gz", 1104, 10, 5, 1238.59},
      {"hta/amd-mi250-minitoy.json.gz", 14, 0, 1, 9.58},
      {"hta/critical_path-alexnet.json.gz", 79, 0, 2, 43425.36},
      {"hta/critical_path-simple_add.json.gz", 79, 0, 2, 41579.9},
      {"hta/critical_path-cuda_event_sync.json.gz", 4, 0, 1, 3.15},
      {"hta/critical_path-cuda_event_sync_multi_stream.json.gz", 3, 0, 3, 19.93},
      {"hta/call_stack-backward_thread.json.gz", 1, 0, 1, 413.45},
      {"hta/execution_trace-simple_add-kineto.json.gz", 4, 0, 1, 19814.29},
      {"hta/large_integer_trace-rank70.json.gz", 1, 1, 1, 0.2},
      {"hta/trace_compare-base.json.gz", 6, 0, 2, 745.34},
      {"hta/trace_compare-test.json.gz", 5, 0, 2, 745.34},
      {"hta/triton_example.json.gz", 1, 0, 1, 13336.32},
      {"hta/with_gpu_user_annotation.json.gz", 130, 0, 1, 9.99},
      {"kineto/resnet50-num_workers_0-a.json.gz", 8772, 0, 1, 1065.66},
      {"kineto/resnet50-num_workers_4-a.json.gz", 8868, 0, 1, 846.7},
      {"kineto/gpu_metrics_input.json.gz", 30, 0, 1, 13.68},
      {"kineto/docs-before_fix_trace.json.gz", 1, 0, 1, 0.01},
      {"kineto/docs-after_fix_trace.json.gz", 1, 0, 1, 0.01},
      {"param/linear-1gpu-2080ti-kineto.json.gz", 8716, 0, 1, 2003.7},
      {"param/resnet-1gpu-2080ti-kineto.json.gz", 9628, 0, 3, 16172.05},
      // One NCCL kernel, as listed, and 73 all-reduces through multicast memory, which are no less
      // communication.
      {"tracelens/b200-eager_trace.json.gz", 768, 1 + 73, 1, 87.41},
      {"tracelens/h100-bert-small.json.gz", 60, 0, 1, 4.87},
      {"tracelens/h100-qwen1.5-0.5b.json.gz", 1465, 0, 1, 49.78},
      {"tracelens/h100-vit-nsfw.json.gz", 154, 0, 1, 8.14},
      {"tracelens/mi210-gpu_only_trace.json.gz", 562, 0, 1, 6.02},
      {"tracelens/mi300-bert-small.json.gz", 60, 0, 1, 4.42},
      {"tracelens/mi300-qwen1.5-0.5b.json.gz", 1516, 0, 1, 47.19},
      {"tracelens/mi300-vit-nsfw.json.gz", 155, 0, 1, 7.84},
      {"tracelens/torch_compile_triton.json.gz", 12, 0, 1, 12.94},
      {"tracelens/vllm_decode_graph_execution.json.gz", 425, 0, 1, 19.11},
  };
  for (const Counts& counts : all) {
    const std::string path = Recorded(counts.file);
    const Fragment fragment = Import(path);
    const diag::RankRecord& record = OnlyRecord(fragment);
    ASSERT_TRUE(record.recording.has_value()) << counts.file;
    EXPECT_EQ(record.recording->kernels, counts.kernels) << counts.file;
    EXPECT_EQ(record.recording->communication_kernels, counts.communication) << counts.file;
    EXPECT_EQ(record.recording->streams, counts.streams) << counts.file;
    EXPECT_GT(record.recording->span_ns, 0u) << counts.file;
    EXPECT_LE(static_cast<double>(record.recording->span_ns) * 1e-6, counts.span_ms) << counts.file;
  }
}

struct HtaShares {
  const char* file;
  double idle, compute, rest, overlap;  // below 0: not stated
};

TEST(KinetoTracesTest, SharesOfHta) {
  SKIP_WITHOUT_RECORDED_FILES();
  const HtaShares all[] = {
      {"hta/df_index_resolver-rank1of2.json.gz", 46.08, 35.55, 18.37, 0},
      {"hta/nccl_parser_config-rank0of2.json.gz", 77.78, -1, -1, 14.31},
      {"hta/negative_queue_length-rank0of16.json.gz", 69.44, -1, -1, 1.37},
      {"hta/ns_resolution-rank0.json.gz", 2.63, 96.75, -1, -1},
      {"hta/sampled-rank0of128.json.gz", 53.56, -1, -1, 11.81},
      {"hta/sampled-rank1of128.json.gz", 54.72, -1, -1, 20.05},
  };
  for (const HtaShares& hta : all) {
    const std::string path = Recorded(hta.file);
    const auto input = Input::FromMemory(hta.file, AsHtaReadsIt(path));
    Fragment fragment;
    ASSERT_TRUE(ReadKineto(input.get(), &fragment).ok()) << hta.file;
    const Shares ours = SharesOf(*OnlyRecord(fragment).recording);
    EXPECT_NEAR(ours.idle, hta.idle, 0.006) << hta.file;
    if (hta.compute >= 0) {
      EXPECT_NEAR(ours.compute, hta.compute, 0.006) << hta.file;
    }
    if (hta.rest >= 0) {
      EXPECT_NEAR(ours.rest, hta.rest, 0.006) << hta.file;
    }
    if (hta.overlap >= 0) {
      EXPECT_NEAR(ours.overlap, hta.overlap, 0.006) << hta.file;
    }
  }
}

TEST(KinetoTracesTest, CollectivesOfTheNcclParserTrace) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string path = Recorded("hta/nccl_parser_config-rank0of2.json.gz");
  const Fragment fragment = Import(path);
  const diag::RankRecord& record = OnlyRecord(fragment);
  EXPECT_EQ(Collectives(record), 21u);
  ASSERT_THAT(record.state.communicators, SizeIs(1));
  EXPECT_EQ(record.state.communicators[0].name, "default_pg");
  EXPECT_EQ(record.state.communicators[0].group_size, 2u);
  uint32_t all_reduce = 0, broadcast = 0;
  for (const diag::RankStep& step : record.steps) {
    for (const diag::OperationTotals& totals : step.communicators.at(0).operations) {
      if (totals.operation == Operation::kAllReduce) all_reduce += totals.count;
      if (totals.operation == Operation::kBroadcast) broadcast += totals.count;
    }
  }
  EXPECT_EQ(all_reduce, 15u);
  EXPECT_EQ(broadcast, 6u);
}

TEST(KinetoTracesTest, CpuOnlyTraceOfGloo) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string path = Recorded("hta/cpu_only-rank34of300-gloo.json.gz");
  const Fragment fragment = Import(path);
  const diag::RankRecord& record = OnlyRecord(fragment);
  EXPECT_EQ(fragment.ranks[0].rank, Rank(34));
  EXPECT_EQ(fragment.ranks[0].world_size, 300u);
  EXPECT_FALSE(record.recording.has_value());
  ASSERT_THAT(record.steps, SizeIs(5));
  for (const diag::RankStep& step : record.steps) EXPECT_GT(step.communication_ns, 0u);
}

TEST(KinetoTracesTest, DataLoadingOnTheMainProcessShowsInItsSteps) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string slow_path = Recorded("kineto/resnet50-num_workers_0-a.json.gz");
  const std::string fast_path = Recorded("kineto/resnet50-num_workers_4-a.json.gz");
  const auto share = [](const diag::RankRecord& record) {
    double loading = 0, all = 0;
    for (const diag::RankStep& step : record.steps) {
      all += static_cast<double>(step.duration_ns);
      for (const diag::PhaseTime& phase : step.phases) {
        if (phase.kind == EventKind::kDataLoad) loading += static_cast<double>(phase.total_ns);
      }
    }
    return loading / all;
  };
  EXPECT_GT(share(OnlyRecord(Import(slow_path))), 0.35);
  EXPECT_LT(share(OnlyRecord(Import(fast_path))), 0.02);
}

// Every file of the collections that PyTorch's profiler wrote, or that was derived from one, is
// read or refused for a reason.
TEST(KinetoTracesTest, EveryFileIsReadOrRefusedForAReason) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::vector<std::string> refused = {"hta/execution_trace-simple_add-et.json.gz",
                                            "hta/memory_timeline.raw.gz",
                                            "param/resnet-2gpu-et.json.gz"};
  size_t read = 0;
  for (const char* folder : {"astra-sim", "param", "hta", "kineto", "tracelens"}) {
    const std::string root = Recorded(folder);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const std::string path = entry.path().string();
      if (!entry.is_regular_file() || path.find(".csv") != std::string::npos) continue;
      const Result<Fragment> fragment = ImportFile(path, "");
      const bool no_profile =
          path.find("/et-rank") != std::string::npos ||
          std::any_of(refused.begin(), refused.end(),
                      [&](const std::string& name) { return path.ends_with(name); });
      EXPECT_EQ(fragment.ok(), !no_profile) << path << ": " << fragment.status().message();
      if (no_profile) {
        EXPECT_THAT(fragment.status().message(),
                    testing::AnyOf(testing::HasSubstr("JSON of another kind"),
                                   testing::HasSubstr("text in which no training step")));
        continue;
      }
      ++read;
      EXPECT_EQ(fragment->kind, "kineto");
      EXPECT_THAT(fragment->ranks, testing::Not(testing::IsEmpty())) << path;
      for (const RankFragment& rank : fragment->ranks) {
        EXPECT_THAT(rank.record.steps, testing::Not(testing::IsEmpty())) << path;
      }
    }
  }
  EXPECT_EQ(read, 55u);
}

TEST(KinetoTracesTest, CutOffFilesKeepWhatTheyHave) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string path = Recorded("hta/nccl_parser_config-rank0of2.json.gz");
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto input = Input::FromMemory("cut", bytes.substr(0, bytes.size() * 9 / 10));
  Fragment fragment;
  const Result<const Importer*> importer = ChooseImporter(*input, "");
  ASSERT_TRUE(importer.ok());
  ASSERT_TRUE((*importer)->read(input.get(), &fragment).ok());
  EXPECT_GT(fragment.ranks.at(0).record.recording->kernels, 2000u);
  EXPECT_THAT(fragment.notes, testing::Contains(testing::HasSubstr("not read to the end")));
}

}  // namespace
}  // namespace flare::import
