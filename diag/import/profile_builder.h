// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "diag/import/fragment.h"
#include "diag/import/kernel_table.h"
#include "diag/model/job.h"

// Makes RankSteps of what a profiler recorded about one process.
//
// Facts come in any order. Times are nanoseconds of one clock with any origin; Build() moves them
// to the Unix epoch. A step owns what was launched from the host between its mark and the next one,
// wherever in time the device got to it; what has no known launch belongs to the step in which it
// began. Without marks the whole recording is one pseudo step.
//
// Memory: 32 bytes for each kernel and memory operation, 16 for each launch not matched yet, 24 for
// each host span, 56 for each collective. At most kMaxKernels, kMaxSpans and so on are kept (1 GB
// in all); what comes after is counted and said in the notes. One thread.
namespace flare::import {

inline constexpr int64_t kUnknownTime = INT64_MIN;

// A kernel, copy or fill on a device.
struct DeviceActivity {
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  uint32_t device = 0;
  uint64_t stream = 0;
  uint64_t correlation = 0;  // of its launch; 0 = not told
  // Of a matrix product its GemmShape(), 0 when that is not known. Of a communication kernel a
  // number of the caller's, from 1, by which CommunicationLaunches() tells its launch.
  uint32_t tag = 0;
};

struct Collective {
  CommId communicator;
  uint64_t sequence = 0;
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint64_t bytes = 0;    // of the input buffer
  int64_t begin_ns = 0;  // on the device; on the host when there is none
  int64_t duration_ns = 0;
  int64_t launched_ns = kUnknownTime;
  bool observed = true;  // false: it was called, but when it ran is not known
};

struct Profile {
  std::vector<diag::RankStep> steps;  // ascending; the last kKeptSteps
  diag::DeviceStep device;            // the whole recording, also outside of steps
  bool has_device = false;
  bool pseudo_steps = false;          // no step was marked
  int64_t first_ns = 0, last_ns = 0;  // begin and end of everything, since the epoch
  std::vector<diag::CommunicatorState> communicators;
  std::vector<CollectiveEnd> collective_ends;  // the last kMostCollectiveEnds
  std::vector<std::string> notes;
};

class ProfileBuilder {
 public:
  static constexpr size_t kMaxKernels = size_t{1} << 24;
  static constexpr size_t kMaxLaunches = size_t{1} << 24;
  static constexpr size_t kMaxSpans = size_t{1} << 22;
  static constexpr size_t kMaxCollectives = size_t{1} << 20;
  static constexpr size_t kMaxSteps = size_t{1} << 17;
  static constexpr size_t kMaxNames = 4096;

  // As AddKernel() will take it; remembers the names it has seen.
  KernelClass ClassOf(std::string_view name);
  void AddKernel(std::string_view name, const DeviceActivity& activity);
  void AddMemoryOperation(const DeviceActivity& activity);
  // The host call that launched the device work with this correlation. `many`: a graph launch.
  void AddLaunch(uint64_t correlation, int64_t begin_ns, bool many);
  void AddCollective(const Collective& collective);
  // Names the communicator in reports. `group_size` 0: not told.
  void AddCommunicator(CommId id, std::string_view name, uint32_t group_rank, uint32_t group_size);
  // Something the host did; spans of one kind and name on one thread must not be nested.
  void AddSpan(EventKind kind, std::string_view name, int64_t begin_ns, int64_t duration_ns);
  void AddStep(uint64_t number, int64_t begin_ns, int64_t end_ns);
  void AddDeviceName(std::string_view name);
  uint32_t GemmShape(uint32_t batch, uint32_t m, uint32_t n, uint32_t k, DataType data_type);
  // An event that could not be used, by reason ("without duration"); counted for the notes.
  void LeaveOut(const char* reason) { ++left_out_[reason]; }

  // When the communication kernels with tags 1 to `count` were launched; kUnknownTime where that
  // was not seen.
  std::vector<int64_t> CommunicationLaunches(size_t count);

  // How many activities of each device have their launch in `host`: tells whose device it is when a
  // file shows several processes.
  std::map<uint32_t, size_t> LaunchedBy(const ProfileBuilder& host) const {
    return table_.MatchesIn(host.table_);
  }
  bool has_launches() const { return table_.has_launches(); }

  bool empty() const;
  // Adds `origin_ns` to all times. The builder is empty afterwards.
  Profile Build(int64_t origin_ns);

 private:
  struct Span {
    int64_t begin_ns;
    int64_t duration_ns;
    uint32_t name;
    EventKind kind;
  };
  struct Step {
    uint64_t number;
    int64_t begin_ns, end_ns;
  };

  bool Plausible(int64_t begin_ns, int64_t duration_ns);
  uint32_t NameId(std::string_view name);
  void ArrangeSteps(Profile* profile);
  void FillSteps(Profile* profile);
  void FillSpans(Profile* profile);
  void FillCollectives(Profile* profile);
  void FillEnds(int64_t origin_ns, Profile* profile);
  uint32_t StepAt(int64_t time_ns) const;

  KernelTable table_;
  std::vector<Collective> collectives_;
  std::vector<Span> spans_;
  std::vector<Step> steps_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> name_ids_;
  std::unordered_map<uint64_t, KernelClass> classes_;  // by hash of the name
  std::vector<diag::GemmTotals> gemms_;                // shapes; index + 1
  std::map<std::array<uint32_t, 5>, uint32_t> gemm_ids_;
  std::vector<std::string> devices_;
  std::map<CommId, diag::CommunicatorState> communicators_;
  std::map<std::string, uint64_t> left_out_;
  int64_t first_ns_ = INT64_MAX, last_ns_ = INT64_MIN;
};

}  // namespace flare::import
