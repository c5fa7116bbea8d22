// SPDX-License-Identifier: Apache-2.0
#include "diag/import/check.h"

#include <algorithm>
#include <string>
#include <vector>

namespace flare::import {
namespace {

constexpr size_t kNameBytes = 256;
constexpr size_t kTextBytes = 4096;
constexpr size_t kSignalBytes = 500;
constexpr size_t kMostNotes = 1000;
constexpr size_t kMostSignals = 100'000;
constexpr size_t kMostPhases = 1024;
constexpr size_t kMostCommunicators = 1024;
constexpr size_t kMostDurations = 1 << 20;  // a profile has them all
constexpr size_t kMostOperations = 256;
constexpr size_t kMostOpenCalls = 2048;
constexpr size_t kMostRecent = 256;
constexpr size_t kMostFrames = 256;
constexpr size_t kMostThreads = 4096;
constexpr size_t kMostGemms = 4096;
constexpr uint64_t kMostSequence = uint64_t{1} << 62;
constexpr uint64_t kMostStep = uint64_t{1} << 63;

// As message_check.h of the engine does to texts of daemons.
void Clean(std::string* text, size_t most) {
  if (text->size() > most) {
    size_t end = most;
    // 10xxxxxx continues a character: cut before the one it belongs to.
    while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xc0) == 0x80) --end;
    text->resize(end);
  }
  for (char& c : *text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
}

template <typename List>
void Cut(List* list, size_t most, uint64_t* cut) {
  if (list->size() <= most) return;
  *cut += list->size() - most;
  list->resize(most);
}

class Check {
 public:
  explicit Check(Fragment* fragment) : fragment_(*fragment) {}

  void Run() {
    Clean(&fragment_.identity, kNameBytes);
    Clean(&fragment_.framework, kNameBytes);
    // The newest notes of a file that has too many say no more than the first.
    Cut(&fragment_.notes, kMostNotes, &cut_);
    for (std::string& note : fragment_.notes) Clean(&note, kTextBytes);
    std::erase_if(fragment_.ranks, [&](RankFragment& rank) {
      const bool bad = rank.rank && rank.rank->value >= kMostRanks;
      ranks_ += bad;
      if (!bad) CheckRank(&rank);
      return bad;
    });
    Cut(&fragment_.signals, kMostSignals, &cut_);
    for (diag::HostSignal& signal : fragment_.signals) CheckSignal(&signal);
    Say();
  }

 private:
  bool SaneTime(uint64_t unix_ns) const { return unix_ns < kLastUnixNs; }

  // A time that cannot be is not told.
  void CleanTime(uint64_t* unix_ns) {
    if (SaneTime(*unix_ns)) return;
    *unix_ns = 0;
    ++times_;
  }

  void CheckRank(RankFragment* rank) {
    if (rank->world_size > kMostRanks) rank->world_size = 0;
    diag::RankRecord& record = rank->record;
    for (std::string* text :
         {&record.node, &record.framework, &record.python, &record.library_version}) {
      Clean(text, kNameBytes);
    }
    if (record.pid < 0 || record.pid > INT32_MAX) record.pid = 0;
    CleanTime(&record.started_unix_ns);
    CleanTime(&record.ended_unix_ns);
    CleanTime(&record.stopped_since_unix_ns);
    Cut(&rank->collective_ends, kMostCollectiveEnds, &cut_);
    std::erase_if(rank->collective_ends,
                  [&](const CollectiveEnd& end) { return !SaneTime(end.at_unix_ns); });
    CheckSteps(&record.steps);
    if (record.recording) CheckDevice(&*record.recording);
    CheckState(&record.state);
  }

  void CheckSteps(std::deque<diag::RankStep>* steps) {
    const size_t before = steps->size();
    std::erase_if(*steps, [&](diag::RankStep& step) { return !CheckStep(&step); });
    steps_ += before - steps->size();
    const auto earlier = [](const diag::RankStep& a, const diag::RankStep& b) {
      return a.step < b.step;
    };
    if (!std::is_sorted(steps->begin(), steps->end(), earlier)) {
      std::stable_sort(steps->begin(), steps->end(), earlier);
    }
    const auto same = [](const diag::RankStep& a, const diag::RankStep& b) {
      return a.step == b.step;
    };
    const auto end = std::unique(steps->begin(), steps->end(), same);
    repeated_ += static_cast<uint64_t>(steps->end() - end);
    steps->erase(end, steps->end());
  }

  bool CheckStep(diag::RankStep* step) {
    if (step->step.value >= kMostStep || !SaneTime(step->start_unix_ns) ||
        step->duration_ns > kLongestNs || step->communication_ns > kLongestNs) {
      return false;
    }
    Cut(&step->phases, kMostPhases, &cut_);
    for (diag::PhaseTime& phase : step->phases) Clean(&phase.name, kNameBytes);
    Cut(&step->communicators, kMostCommunicators, &cut_);
    for (diag::CommunicatorStep& comm : step->communicators) {
      if (comm.first_sequence > kMostSequence) return false;
      // Durations of some of the collectives only would be taken for those of the first ones.
      if (comm.duration_us.size() > kMostDurations) comm.duration_us.clear();
      Cut(&comm.operations, kMostOperations, &cut_);
    }
    if (step->device) CheckDevice(&*step->device);
    return true;
  }

  void CheckDevice(diag::DeviceStep* device) {
    for (uint64_t* time :
         {&device->span_ns, &device->busy_ns, &device->compute_ns, &device->communication_ns,
          &device->memory_ns, &device->overlap_ns, &device->inter_step_ns}) {
      if (*time <= kLongestNs) continue;
      *time = 0;
      ++times_;
    }
    Cut(&device->classes, kKernelClassCount, &cut_);
    Cut(&device->gemms, kMostGemms, &cut_);
    Cut(&device->devices, 64, &cut_);
    for (std::string& name : device->devices) Clean(&name, kNameBytes);
  }

  void CheckState(diag::RankState* state) {
    CleanTime(&state->at_unix_ns);
    CleanTime(&state->last_step_unix_ns);
    CleanTime(&state->last_progress_unix_ns);
    if (state->steps >= kMostStep) state->steps = 0;
    std::erase_if(state->open_calls, [&](const diag::OpenCall& call) {
      const bool bad = call.sequence > kMostSequence || !SaneTime(call.since_unix_ns);
      calls_ += bad;
      return bad;
    });
    Cut(&state->open_calls, kMostOpenCalls, &cut_);
    for (diag::OpenCall& call : state->open_calls) CheckCall(&call);
    if (state->last_call) CheckCall(&*state->last_call);
    std::erase_if(state->communicators, [&](const diag::CommunicatorState& comm) {
      const bool bad = comm.launched > kMostSequence || comm.completed > kMostSequence ||
                       comm.group_size > kMostRanks || comm.group_rank > kMostRanks;
      calls_ += bad;
      return bad;
    });
    Cut(&state->communicators, kMostCommunicators, &cut_);
    for (diag::CommunicatorState& comm : state->communicators) {
      Clean(&comm.name, kNameBytes);
      // The newest ones tell where the rank is.
      if (comm.recent.size() > kMostRecent) {
        const size_t extra = comm.recent.size() - kMostRecent;
        comm.recent.erase(comm.recent.begin(), comm.recent.begin() + static_cast<ptrdiff_t>(extra));
        cut_ += extra;
      }
      for (diag::Signature& call : comm.recent) CleanTime(&call.launched_unix_ns);
    }
    CheckProcess(&state->process);
  }

  void CheckCall(diag::OpenCall* call) {
    Clean(&call->name, kNameBytes);
    CheckFrames(&call->stack);
  }

  void CheckProcess(diag::ProcessState* process) {
    for (std::string* text :
         {&process->exception_type, &process->syscall, &process->wait_channel}) {
      Clean(text, kNameBytes);
    }
    Clean(&process->exception_text, kTextBytes);
    Clean(&process->syscall_path, kTextBytes);
    CheckFrames(&process->python_stack);
    Cut(&process->threads, kMostThreads, &cut_);
    for (diag::ThreadStack& thread : process->threads) {
      Clean(&thread.name, kNameBytes);
      Clean(&thread.state, kNameBytes);
      CheckFrames(&thread.frames);
    }
  }

  void CheckFrames(std::vector<diag::StackFrame>* frames) {
    Cut(frames, kMostFrames, &cut_);
    for (diag::StackFrame& frame : *frames) {
      Clean(&frame.function, kNameBytes);
      Clean(&frame.file, kTextBytes);
    }
  }

  void CheckSignal(diag::HostSignal* signal) {
    CleanTime(&signal->at_unix_ns);
    if (signal->rank && signal->rank->value >= kMostRanks) signal->rank.reset();
    Clean(&signal->node, kNameBytes);
    Clean(&signal->device, kNameBytes);
    Clean(&signal->text, kSignalBytes);
    Clean(&signal->source, kTextBytes);
  }

  void Say() {
    const auto say = [&](uint64_t count, const char* one, const char* many) {
      if (count > 0) {
        fragment_.notes.push_back(count == 1 ? one : std::to_string(count) + " " + many);
      }
    };
    say(ranks_, "a rank with an impossible number left out",
        "ranks with impossible numbers left out");
    say(steps_, "a step with impossible numbers left out",
        "steps with impossible numbers left out");
    say(repeated_, "a step that comes twice used once", "steps that come more than once used once");
    say(calls_, "a call with impossible numbers left out",
        "calls with impossible numbers left out");
    say(times_, "an impossible time taken for unknown", "impossible times taken for unknown");
    say(cut_, "one value of a list that is too long left out",
        "values of lists that are too long left out");
  }

  Fragment& fragment_;
  uint64_t ranks_ = 0, steps_ = 0, repeated_ = 0, calls_ = 0, times_ = 0, cut_ = 0;
};

}  // namespace

void CheckFragment(Fragment* fragment) { Check(fragment).Run(); }

}  // namespace flare::import
