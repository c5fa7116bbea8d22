// SPDX-License-Identifier: Apache-2.0
#include "daemon/tracked_rank.h"

#include <algorithm>

#include "daemon/clean_text.h"
#include "daemon/part_names.h"
#include "daemon/stacks/python_stack.h"

namespace flare::daemon {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kQuietNs = 1000 * kMs;  // without progress for so long: look closely
constexpr uint64_t kStateHealthyNs = 5000 * kMs;
constexpr uint64_t kStateStuckNs = 500 * kMs;
constexpr uint64_t kLongStuckNs = 60'000 * kMs;  // by then the engine has seen enough
constexpr uint64_t kStateLongStuckNs = 2000 * kMs;
constexpr size_t kMaxRecentCommunicators = 16;
constexpr size_t kMaxHandovers = 1024;  // beyond, steps become safe together

ClockReading AnchorOf(const SegmentIdentity& id) {
  return {id.anchor_ticks, id.anchor_monotonic_ns, id.anchor_realtime_ns};
}

bool IsStopped(char run_state) { return run_state == 'T' || run_state == 't'; }

void FillCall(const OpenCallCopy& call, v1::OpenCall* out) {
  out->set_kind(static_cast<v1::CallKind>(call.kind));
  out->set_communicator(call.comm);
  out->set_sequence(call.sequence);
  out->set_operation(static_cast<v1::Operation>(call.operation));
  out->set_data_type(static_cast<v1::DataType>(call.data_type));
  out->set_bytes((call.flags & kEventBytesUnknown) != 0 ? 0 : call.bytes);
  out->set_peer(call.peer);
  out->set_thread(call.tid);
  out->set_unequal_bytes_allowed((call.flags & kEventUnequalBytes) != 0);
}

}  // namespace

TrackedRank::TrackedRank(std::string file_name, std::unique_ptr<SegmentReader> segment,
                         const OwnerProbe* owner_probe, std::string node)
    : file_name_(std::move(file_name)),
      segment_(std::move(segment)),
      owner_probe_(owner_probe),
      node_(std::move(node)),
      rings_(segment_.get()),
      clock_(identity().tick_source, AnchorOf(identity()), ReadClocks(identity().tick_source)),
      folder_(identity().source_id),
      last_progress_ns_(MonotonicNs()) {
  Look(last_progress_ns_);
}

v1::RankHello TrackedRank::Hello() const {
  const SegmentIdentity& id = identity();
  v1::RankHello hello;
  hello.set_source(id.source_id);
  hello.set_job(id.job);
  hello.set_job_name(id.job_name);
  hello.set_attempt(id.attempt);
  hello.set_rank(id.rank);
  hello.set_world_size(id.world_size);
  hello.set_local_rank(id.local_rank);
  hello.set_node(id.node.empty() ? node_ : id.node);
  hello.set_pid(owner_.pid > 0 ? owner_.pid : id.pid);
  hello.set_started_unix_ns(id.anchor_realtime_ns);
  hello.set_framework(facts_.framework);
  hello.set_python(PythonVersionText(facts_.python_version_hex));
  hello.set_library_version(id.library_version);
  AddParts(facts_, hello.mutable_parts());
  return hello;
}

bool TrackedRank::TakeHelloChange() {
  const std::string key = facts_.framework + '\n' + std::to_string(facts_.python_version_hex);
  const bool changed = key != hello_key_ && !hello_key_.empty();
  hello_key_ = key;
  return changed;
}

bool TrackedRank::Poll(std::vector<v1::RankStep>* steps) {
  folded_ = false;
  if (final_fold_done_ || !readable_) {
    final_fold_done_ |= ended_ns_ != 0;
    return true;
  }
  // Whether the process was gone before we read: then nothing can come after what we read now.
  const bool was_ended = ended_ns_ != 0;
  events_.clear();
  const RingReader::Outcome outcome = rings_.Drain(&events_, was_ended);
  readable_ = outcome.readable;
  StepFolder::Poll poll;
  const ClockReading now = ReadClocks(identity().tick_source);
  clock_.Update(now);
  poll.now_ticks = now.ticks;
  poll.cpu_ns = was_ended ? 0 : ProcessCpuNs(owner_.pid);
  poll.complete = outcome.complete;
  poll.last = was_ended && (outcome.complete || !readable_);
  if (outcome.progress) last_progress_ns_ = now.monotonic_ns;
  const size_t before = steps->size();
  folder_.Fold(
      poll, events_, &clock_,
      [this](uint32_t id) -> const std::string& { return segment_->Name(id); }, steps);
  folded_ = steps->size() > before;
  if (folded_) AttachDrops(&(*steps)[before]);
  final_fold_done_ = poll.last;
  return outcome.complete;
}

void TrackedRank::NoteHandover(uint64_t ticket) {
  if (!folded_) return;
  if (handovers_.size() >= kMaxHandovers) handovers_.pop_back();
  handovers_.push_back({ticket, folder_.last_end_ticks()});
}

void TrackedRank::ReleaseSettled(uint64_t settled) {
  uint64_t end_ticks = 0;
  while (!handovers_.empty() && handovers_.front().ticket <= settled) {
    end_ticks = handovers_.front().end_ticks;
    handovers_.pop_front();
  }
  if (end_ticks != 0 && readable_) readable_ = rings_.Release(end_ticks);
}

std::vector<std::pair<const char*, uint64_t>> TrackedRank::Drops() const {
  std::vector<std::pair<const char*, uint64_t>> drops = {
      {"ring_full", rings_.ring_full_drops()},
      {"malformed", rings_.malformed()},
      {"ring_resync", rings_.resyncs()},
      {"fold_full", folder_.refused()},
      {"impossible_time", folder_.impossible_times() + clock_.clamped()},
      // The step in which we came after another daemon lacks what that one had read.
      {"daemon_restart", rings_.begun_inside_a_step() ? 1u : 0u},
  };
  // kRingFull is what the rings themselves count, slot by slot.
  for (uint32_t r = 1; r < static_cast<uint32_t>(DropReason::kCount); ++r) {
    drops.emplace_back(DropReasonName(static_cast<DropReason>(r)), facts_.drops[r]);
  }
  return drops;
}

void TrackedRank::AttachDrops(v1::RankStep* step) {
  const auto drops = Drops();
  reported_drops_.resize(drops.size());
  for (size_t i = 0; i < drops.size(); ++i) {
    if (drops[i].second <= reported_drops_[i]) continue;
    v1::DropCount* count = step->add_drops();
    count->set_reason(drops[i].first);
    count->set_count(drops[i].second - reported_drops_[i]);
    reported_drops_[i] = drops[i].second;
  }
}

void TrackedRank::Look(uint64_t now_ns) {
  if (ended_ns_ != 0) return;
  const OwnerLife owner = owner_probe_->Look(*segment_, owner_.pid);
  if (auto facts = segment_->ReadFacts(); facts.ok()) {
    if (facts->steps != facts_.steps) last_progress_ns_ = now_ns;
    facts_ = std::move(facts).value();
  } else {
    readable_ = false;
  }
  const pid_t last_pid = owner_.pid;
  owner_ = owner;
  if (owner_.pid == 0) owner_.pid = last_pid;  // who it was; read only while alive
  const bool replaced = facts_.phase == static_cast<uint32_t>(ProcessPhase::kReplaced);
  if (!owner.alive || superseded_ || (replaced && !owner.lock_held)) ended_ns_ = now_ns;
}

v1::ProcessState::Life TrackedRank::life() const {
  const bool exited = facts_.phase == static_cast<uint32_t>(ProcessPhase::kExited);
  if (exited) return v1::ProcessState::LIFE_EXITED;
  if (ended_ns_ == 0) return v1::ProcessState::LIFE_RUNNING;
  // Replaced by exec: this program has ended, and not by a signal.
  const bool replaced = facts_.phase == static_cast<uint32_t>(ProcessPhase::kReplaced);
  return superseded_ || replaced ? v1::ProcessState::LIFE_EXITED : v1::ProcessState::LIFE_DIED;
}

bool TrackedRank::Stuck(uint64_t now_ns) const {
  // A rank whose hooks are switched off shows no progress because nobody looks.
  return facts_.enabled && ended_ns_ == 0 && now_ns > last_progress_ns_ + kQuietNs;
}

std::string TrackedRank::StateKey(uint64_t now_ns) const {
  std::string key = std::to_string(life());
  key += IsStopped(owner_.run_state) ? 'T' : owner_.run_state == 'Z' ? 'Z' : '-';
  key += Stuck(now_ns) ? 'q' : 'p';
  key += facts_.enabled ? '1' : '0';
  key += facts_.exception_type;
  for (const uint32_t state : facts_.part_state) key += static_cast<char>('a' + state % 26);
  return key;
}

bool TrackedRank::StateDue(uint64_t now_ns) const {
  if (final_state_built_ && !state_forced_) return false;
  if (state_forced_ || final_fold_done_ || StateKey(now_ns) != sent_key_) return true;
  uint64_t interval = kStateHealthyNs;
  if (Stuck(now_ns)) {
    interval = now_ns - last_progress_ns_ > kLongStuckNs ? kStateLongStuckNs : kStateStuckNs;
  }
  return now_ns >= sent_ns_ + interval;
}

v1::RankState TrackedRank::BuildState(uint64_t now_ns) {
  v1::RankState state;
  const bool detail = Stuck(now_ns);
  const ClockReading now = ReadClocks(identity().tick_source);
  clock_.Update(now);
  state.set_source(identity().source_id);
  state.set_at_unix_ns(now.realtime_ns);
  state.set_steps(facts_.steps);
  if (facts_.step_ticks != 0) state.set_last_step_unix_ns(clock_.ToUnixNs(facts_.step_ticks));
  FillProcess(detail, state.mutable_process());
  if (facts_.enabled) {
    if (ended_ns_ == 0) FillCalls(&state);
    // Of a rank that has ended too: peers may have crashed because it called something else.
    FillCommunicators(detail || ended_ns_ != 0, &state);
    const uint64_t last = std::max({rings_.last_event_ticks(), facts_.step_ticks, last_end_ticks_});
    if (last != 0) state.set_last_progress_unix_ns(clock_.ToUnixNs(last));
  }
  AddParts(facts_, state.mutable_parts());
  sent_key_ = StateKey(now_ns);
  sent_ns_ = now_ns;
  state_forced_ = false;
  if (ended_ns_ != 0 && final_fold_done_) final_state_built_ = true;
  return state;
}

void TrackedRank::FillProcess(bool detail, v1::ProcessState* out) {
  out->set_life(life());
  out->set_exit_code(facts_.exit_code);
  out->set_exception_type(facts_.exception_type);
  out->set_exception_text(facts_.exception_text);
  if (owner_.pid == 0 || ended_ns_ != 0) return;
  const SegmentIdentity& id = identity();
  // In another PID namespace the process's own thread ids mean nothing to us; its first thread has
  // the pid we know.
  const pid_t main_tid = owner_.pid == id.pid ? id.main_tid : owner_.pid;
  const auto snapshot = owner_probe_->process().Snapshot(owner_.pid, main_tid);
  if (!snapshot) return;
  out->set_run_state(CleanText(&snapshot->stat.run_state, 1));
  out->set_cpu_ns(std::max(snapshot->stat.cpu_ns, ProcessCpuNs(owner_.pid)));
  out->set_main_thread_cpu_ns(snapshot->main_thread_cpu_ns);
  out->set_run_delay_ns(snapshot->main_thread_run_delay_ns);
  out->set_major_faults(snapshot->stat.major_faults);
  if (!detail) return;
  out->set_syscall(snapshot->syscall);
  out->set_syscall_path(snapshot->syscall_path);
  out->set_wait_channel(snapshot->wait_channel);
  if (facts_.python_version_hex == 0) return;
  const auto stack =
      ReadPythonStack({owner_.pid, id.main_tid, facts_.python_version_hex,
                       facts_.python_runtime_address, facts_.python_main_thread_state});
  for (const PythonFrame& frame : stack) {
    v1::StackFrame* message = out->add_python_stack();
    message->set_function(frame.function);
    message->set_file(frame.file);
    message->set_line(frame.line);
  }
}

void TrackedRank::FillCalls(v1::RankState* out) {
  const auto calls = segment_->ReadOpenCalls();
  if (!calls.ok()) return;
  for (const OpenCallCopy& call : *calls) {
    v1::OpenCall* message = out->add_open_calls();
    FillCall(call, message);
    message->set_name(segment_->Name(call.name_id));
    message->set_since_unix_ns(clock_.ToUnixNs(call.start_ticks));
    message->set_main_thread(static_cast<int32_t>(call.tid) == identity().main_tid);
  }
}

void TrackedRank::FillCommunicators(bool with_recent, v1::RankState* out) {
  auto read = segment_->ReadCommunicators(with_recent);
  if (!read.ok()) return;
  std::vector<CommunicatorCopy>& communicators = read.value();
  std::stable_sort(communicators.begin(), communicators.end(),
                   [](const CommunicatorCopy& a, const CommunicatorCopy& b) {
                     return a.last_end_ticks > b.last_end_ticks;
                   });
  for (size_t i = 0; i < communicators.size(); ++i) {
    const CommunicatorCopy& c = communicators[i];
    last_end_ticks_ = std::max(last_end_ticks_, c.last_end_ticks);
    v1::CommunicatorState* message = out->add_communicators();
    message->set_communicator(c.comm);
    message->set_name(segment_->Name(c.name_id));
    message->set_group_rank(c.group_rank);
    message->set_group_size(c.group_size);
    message->set_launched(c.launched);
    message->set_completed(c.completed);
    if (i >= kMaxRecentCommunicators) continue;
    for (const CollectiveSignature& s : c.recent) {
      v1::Signature* signature = message->add_recent();
      signature->set_sequence(s.sequence);
      signature->set_operation(static_cast<v1::Operation>(s.operation));
      signature->set_data_type(static_cast<v1::DataType>(s.data_type));
      signature->set_bytes((s.flags & kEventBytesUnknown) != 0 ? 0 : s.bytes);
      signature->set_peer(s.peer);
      signature->set_unequal_bytes_allowed((s.flags & kEventUnequalBytes) != 0);
      signature->set_launched_unix_ns(clock_.ToUnixNs(s.launch_ticks));
    }
  }
  // Rings may be full; completions count as progress all the same.
  const uint64_t now_ticks = ReadTicks(identity().tick_source);
  if (last_end_ticks_ == 0 || last_end_ticks_ > now_ticks) return;
  const uint64_t ago_ns = clock_.DurationNs(now_ticks - last_end_ticks_);
  const uint64_t now_ns = MonotonicNs();
  if (ago_ns < now_ns) last_progress_ns_ = std::max(last_progress_ns_, now_ns - ago_ns);
}

}  // namespace flare::daemon
