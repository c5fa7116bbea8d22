// SPDX-License-Identifier: Apache-2.0
#include "daemon/fold/step_accumulator.h"

#include <algorithm>
#include <limits>

#include "daemon/fold/signature_hash.h"

namespace flare::daemon {

void StepAccumulator::Clear() {
  phases_.clear();
  for (size_t i = 0; i < communicator_count_; ++i) {
    communicators_[i].collectives.clear();
    communicators_[i].totals.clear();
  }
  communicator_count_ = 0;
  last_communicator_ = 0;
  communication_.clear();
  events_ = 0;
  earliest_start_ = ~0ull;
}

bool StepAccumulator::Add(const Event& event) {
  const uint64_t ticks = event.end_ticks - event.start_ticks;
  switch (event.kind) {
    case EventKind::kCollective:
    case EventKind::kSend:
    case EventKind::kRecv: {
      Communicator* communicator = FindCommunicator(event.comm);
      if (communicator == nullptr) return false;
      communication_.push_back({event.start_ticks, event.end_ticks});
      AddTotals(event, ticks, &communicator->totals);
      if (event.kind == EventKind::kCollective) {
        communicator->collectives.push_back({event.sequence, event.bytes, ticks, event.peer,
                                             event.operation, event.data_type, event.flags});
      }
      break;
    }
    case EventKind::kNone:
    case EventKind::kStep:
      break;
    case EventKind::kUserCall:
      AddPhase(event.kind, event.name_id, ticks);
      break;
    default:
      AddPhase(event.kind, 0, ticks);
  }
  ++events_;
  earliest_start_ = std::min(earliest_start_, event.start_ticks);
  return true;
}

void StepAccumulator::AddPhase(EventKind kind, uint32_t name_id, uint64_t ticks) {
  for (Phase& phase : phases_) {
    if (phase.kind != kind || phase.name_id != name_id) continue;
    ++phase.count;
    phase.total_ticks += ticks;
    phase.longest_ticks = std::max(phase.longest_ticks, ticks);
    return;
  }
  // Kinds are few; only names can be many. Those beyond the limit share the entry without a name.
  if (phases_.size() >= kMaxPhases && name_id != 0) return AddPhase(kind, 0, ticks);
  phases_.push_back({kind, name_id, 1, ticks, ticks});
}

StepAccumulator::Communicator* StepAccumulator::FindCommunicator(uint64_t id) {
  if (last_communicator_ < communicator_count_ && communicators_[last_communicator_].id == id) {
    return &communicators_[last_communicator_];
  }
  for (size_t i = 0; i < communicator_count_; ++i) {
    if (communicators_[i].id != id) continue;
    last_communicator_ = i;
    return &communicators_[i];
  }
  if (communicator_count_ >= kMaxCommunicators) return nullptr;
  if (communicator_count_ == communicators_.size()) communicators_.emplace_back();
  last_communicator_ = communicator_count_++;
  communicators_[last_communicator_].id = id;
  return &communicators_[last_communicator_];
}

void StepAccumulator::AddTotals(const Event& event, uint64_t ticks, std::vector<Totals>* totals) {
  Operation operation = event.operation;
  if (operation == Operation::kUnknown && event.kind == EventKind::kSend) {
    operation = Operation::kSend;
  }
  if (operation == Operation::kUnknown && event.kind == EventKind::kRecv) {
    operation = Operation::kRecv;
  }
  const uint64_t bytes = (event.flags & kEventBytesUnknown) != 0 ? 0 : event.bytes;
  for (Totals& t : *totals) {
    if (t.operation != operation || t.data_type != event.data_type) continue;
    ++t.count;
    t.bytes += bytes;
    t.total_ticks += ticks;
    return;
  }
  totals->push_back({operation, event.data_type, 1, bytes, ticks});
}

void StepAccumulator::Finish(uint64_t start_ticks, uint64_t end_ticks, const TickClock& clock,
                             const NameOf& name_of, v1::RankStep* out) {
  out->set_communication_ns(
      clock.DurationNs(CoveredLength(&communication_, start_ticks, end_ticks)));
  out->set_events(events_);
  for (const Phase& phase : phases_) {
    v1::PhaseTime* message = out->add_phases();
    message->set_kind(static_cast<v1::CallKind>(phase.kind));
    if (phase.name_id != 0) message->set_name(name_of(phase.name_id));
    message->set_count(phase.count);
    message->set_total_ns(clock.DurationNs(phase.total_ticks));
    message->set_longest_ns(clock.DurationNs(phase.longest_ticks));
  }
  for (size_t i = 0; i < communicator_count_; ++i) {
    FinishCommunicator(&communicators_[i], clock, out->add_communicators());
  }
}

void StepAccumulator::FinishCommunicator(Communicator* communicator, const TickClock& clock,
                                         v1::CommunicatorStep* out) {
  out->set_communicator(communicator->id);
  for (const Totals& t : communicator->totals) {
    v1::OperationTotals* message = out->add_operations();
    message->set_operation(static_cast<v1::Operation>(t.operation));
    message->set_data_type(static_cast<v1::DataType>(t.data_type));
    message->set_count(t.count);
    message->set_bytes(t.bytes);
    message->set_total_ns(clock.DurationNs(t.total_ticks));
  }
  std::vector<Collective>& calls = communicator->collectives;
  if (calls.empty()) return;
  // They finish in almost the order of their sequence.
  const auto before = [](const Collective& a, const Collective& b) {
    return a.sequence < b.sequence;
  };
  if (!std::is_sorted(calls.begin(), calls.end(), before)) {
    std::stable_sort(calls.begin(), calls.end(), before);
  }
  SignatureHash hash;
  for (const Collective& c : calls) {
    hash.Add(c.sequence, c.operation, c.data_type, c.bytes, c.root, c.flags);
  }
  out->set_signature_hash(hash.value());
  const uint64_t first = calls.front().sequence;
  out->set_first_sequence(first);
  // A collective between two that ended may still run: it counts here with duration 0. A range
  // much wider than the calls in it is no range; then only what was seen counts.
  const uint64_t range = calls.back().sequence - first;
  const bool plausible = range < 2 * calls.size() + kMaxListedDurations;
  out->set_count(static_cast<uint32_t>(plausible ? range + 1 : calls.size()));
  if (!plausible || range >= kMaxListedDurations) return;
  out->mutable_duration_us()->Resize(static_cast<int>(range + 1), 0);
  for (const Collective& c : calls) {
    const uint64_t us = (clock.DurationNs(c.duration_ticks) + 999) / 1000;
    const uint64_t listed = std::clamp<uint64_t>(us, 1, std::numeric_limits<uint32_t>::max());
    out->set_duration_us(static_cast<int>(c.sequence - first), static_cast<uint32_t>(listed));
  }
}

}  // namespace flare::daemon
