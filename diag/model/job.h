// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diag/model/device.h"
#include "diag/model/signal.h"
#include "libflare/core/event.h"
#include "libflare/core/ids.h"

// Plain values: a training job as the engine knows it. What the detectors read.
//
// Times are nanoseconds since the Unix epoch, durations nanoseconds. An empty string, an empty list
// or a zero means "not known" unless a comment says otherwise; detectors never take that as proof.
namespace flare::diag {

struct PhaseTime {
  EventKind kind = EventKind::kNone;
  std::string name;
  uint32_t count = 0;
  uint64_t total_ns = 0;
  uint64_t longest_ns = 0;
};

struct OperationTotals {
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint32_t count = 0;
  uint64_t bytes = 0;
  uint64_t total_ns = 0;
};

// What one rank did on one communicator during one step.
struct CommunicatorStep {
  CommId communicator;
  uint64_t first_sequence = 0;
  uint32_t count = 0;
  std::vector<uint32_t> duration_us;  // by sequence; 0 = not observed; empty above 128 collectives
  std::vector<OperationTotals> operations;
  uint64_t signature_hash = 0;  // equal on all members that made the same calls
};

struct DropCount {
  std::string reason;
  uint64_t count = 0;
};

struct RankStep {
  StepId step;
  uint64_t start_unix_ns = 0;
  uint64_t duration_ns = 0;
  uint64_t communication_ns = 0;
  uint64_t cpu_ns = 0;
  std::vector<PhaseTime> phases;
  std::vector<CommunicatorStep> communicators;
  // How much there was to do, as the program tells it, in RankRecord::work_unit. Equal work in longer
  // time is slower; more work is not.
  double work = 0;
  uint32_t events = 0;
  std::vector<DropCount> drops;
  std::optional<DeviceStep> device;  // absent: no device was seen, or not timed
};

struct StackFrame {
  std::string function;
  std::string file;
  uint32_t line = 0;
};

struct OpenCall {
  EventKind kind = EventKind::kNone;
  std::string name;
  CommId communicator;
  uint64_t sequence = 0;
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint64_t bytes = 0;
  int32_t peer = kNoPeer;  // rank in the group
  uint64_t since_unix_ns = 0;
  uint32_t thread = 0;
  bool main_thread = false;
  bool unequal_bytes_allowed = false;
  // From dumps only: whether its work on the device has begun, and where the program made the call,
  // innermost first.
  std::optional<bool> begun;
  std::vector<StackFrame> stack;
};

struct Signature {
  uint64_t sequence = 0;
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint64_t bytes = 0;
  int32_t peer = kNoPeer;
  bool unequal_bytes_allowed = false;
  uint64_t launched_unix_ns = 0;
};

struct CommunicatorState {
  CommId communicator;
  std::string name;
  uint32_t group_rank = 0;
  uint32_t group_size = 0;
  uint64_t launched = 0;
  uint64_t completed = 0;
  std::vector<Signature> recent;  // oldest first; only when the rank made no progress lately
};

// One thread of a process as a dump of stacks shows it.
struct ThreadStack {
  uint64_t id = 0;
  std::string name;   // "MainThread" for the main one, where it is known
  std::string state;                // "active", "idle", as the dump says; empty when it does not
  std::vector<StackFrame> frames;   // innermost first; Python and native as the dump has them
};

enum class Life : uint8_t { kUnknown = 0, kRunning = 1, kExited = 2, kDied = 3 };

struct ProcessState {
  Life life = Life::kUnknown;
  char run_state = 0;  // as in /proc/PID/stat, 0 unknown
  int32_t exit_code = 0;
  std::string exception_type;
  std::string exception_text;
  uint64_t cpu_ns = 0;
  uint64_t main_thread_cpu_ns = 0;
  uint64_t run_delay_ns = 0;  // of the main thread so far: runnable, but without a CPU
  std::string syscall;
  std::string syscall_path;
  std::string wait_channel;
  std::vector<StackFrame> python_stack;  // of the main thread, innermost first
  std::vector<ThreadStack> threads;      // from dumps only
  uint64_t major_faults = 0;
};

struct PartStatus {
  std::string part;
  std::string state;
};

struct RankState {
  uint64_t at_unix_ns = 0;  // when the daemon looked; 0 = never
  uint64_t steps = 0;
  uint64_t last_step_unix_ns = 0;
  uint64_t last_progress_unix_ns = 0;
  ProcessState process;
  std::vector<OpenCall> open_calls;
  std::vector<CommunicatorState> communicators;
  // From a dump of the calls of a job that stands still: what waits has waited at least until
  // `at_unix_ns`; for how long before the dump was made is not told.
  bool stands_still = false;
  std::optional<OpenCall> last_call;  // the newest one known, finished; from dumps only
};

// One rank of one attempt of a job.
struct RankRecord {
  Rank rank;
  SourceId source;
  std::string node;
  int64_t pid = 0;
  uint64_t started_unix_ns = 0;
  std::string framework;
  std::string python;
  std::string library_version;
  std::string work_unit;  // of RankStep::work: "FLOP" (of one device), "tokens" or "samples"
  std::vector<PartStatus> parts;
  RankState state;
  // The main thread's CPU time and run-queue delay at the look before: tells a busy loop from a
  // wait, and a wait for the CPU from work.
  uint64_t previous_at_unix_ns = 0;
  uint64_t previous_main_thread_cpu_ns = 0;
  uint64_t previous_run_delay_ns = 0;
  // `at_unix_ns` of the first state that said the process had exited or died; 0 while it lives.
  uint64_t ended_unix_ns = 0;
  // `at_unix_ns` of the first of an unbroken row of states with run_state T or t; 0 when not stopped.
  uint64_t stopped_since_unix_ns = 0;
  // The last steps, oldest first, at most kKeptSteps. Steps may be missing (dropped or late).
  std::deque<RankStep> steps;
  // A whole recording of a profiler, also what lies outside of its steps. Imported files only.
  std::optional<DeviceStep> recording;
  // Communicators keep their identity here after the latest state no longer lists `recent`.
};

inline constexpr size_t kKeptSteps = 256;

// Steps numbered from here on are stretches of time of a program without step boundaries, made up by
// the daemon of each rank: equal numbers on two ranks mean nothing.
inline constexpr uint64_t kFirstPseudoStep = uint64_t{1} << 62;

struct Job {
  std::string id;
  std::string name;
  uint32_t attempt = 0;
  uint32_t world_size = 0;
  uint64_t first_seen_unix_ns = 0;
  uint64_t last_heard_unix_ns = 0;  // any message about any of its ranks
  bool ended = false;               // the command ended, or every rank exited
  int32_t exit_status = -1;         // of the command, -1 unknown
  bool recorded = false;            // read from files: all that was, and nothing comes after
  std::map<Rank, RankRecord> ranks; // of the current attempt
  std::vector<HostSignal> signals;  // in order of time where it is told
};

}  // namespace flare::diag
