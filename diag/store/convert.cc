// SPDX-License-Identifier: Apache-2.0
#include "diag/store/convert.h"

#include "diag/store/convert_enums.h"

namespace flare::diag {
namespace {

Life LifeFromProto(int value) {
  switch (value) {
    case v1::ProcessState::LIFE_RUNNING:
      return Life::kRunning;
    case v1::ProcessState::LIFE_EXITED:
      return Life::kExited;
    case v1::ProcessState::LIFE_DIED:
      return Life::kDied;
    default:
      return Life::kUnknown;
  }
}

OpenCall OpenCallFromProto(const v1::OpenCall& message) {
  OpenCall out;
  out.kind = KindFromProto(message.kind());
  out.name = message.name();
  out.communicator = CommId(message.communicator());
  out.sequence = message.sequence();
  out.operation = OperationFromProto(message.operation());
  out.data_type = DataTypeFromProto(message.data_type());
  out.bytes = message.bytes();
  out.peer = message.peer();
  out.since_unix_ns = message.since_unix_ns();
  out.thread = message.thread();
  out.main_thread = message.main_thread();
  out.unequal_bytes_allowed = message.unequal_bytes_allowed();
  return out;
}

CommunicatorState CommunicatorStateFromProto(const v1::CommunicatorState& message) {
  CommunicatorState out;
  out.communicator = CommId(message.communicator());
  out.name = message.name();
  out.group_rank = message.group_rank();
  out.group_size = message.group_size();
  out.launched = message.launched();
  out.completed = message.completed();
  out.recent.reserve(message.recent_size());
  for (const v1::Signature& s : message.recent()) {
    out.recent.push_back({s.sequence(), OperationFromProto(s.operation()),
                          DataTypeFromProto(s.data_type()), s.bytes(), s.peer(),
                          s.unequal_bytes_allowed(), s.launched_unix_ns()});
  }
  return out;
}

ProcessState ProcessFromProto(const v1::ProcessState& message) {
  ProcessState out;
  out.life = LifeFromProto(message.life());
  out.run_state = message.run_state().empty() ? 0 : message.run_state().front();
  out.exit_code = message.exit_code();
  out.exception_type = message.exception_type();
  out.exception_text = message.exception_text();
  out.cpu_ns = message.cpu_ns();
  out.main_thread_cpu_ns = message.main_thread_cpu_ns();
  out.run_delay_ns = message.run_delay_ns();
  out.syscall = message.syscall();
  out.syscall_path = message.syscall_path();
  out.wait_channel = message.wait_channel();
  out.python_stack.reserve(message.python_stack_size());
  for (const v1::StackFrame& f : message.python_stack()) {
    out.python_stack.push_back({f.function(), f.file(), f.line()});
  }
  out.major_faults = message.major_faults();
  return out;
}

template <typename Field>
void AddRanks(const std::vector<Rank>& ranks, Field* field) {
  for (Rank r : ranks) field->Add(r.value);
}

}  // namespace

RankState StateFromProto(const v1::RankState& message) {
  RankState out;
  out.at_unix_ns = message.at_unix_ns();
  out.steps = message.steps();
  out.last_step_unix_ns = message.last_step_unix_ns();
  out.last_progress_unix_ns = message.last_progress_unix_ns();
  out.process = ProcessFromProto(message.process());
  out.open_calls.reserve(message.open_calls_size());
  for (const v1::OpenCall& c : message.open_calls()) {
    out.open_calls.push_back(OpenCallFromProto(c));
  }
  out.communicators.reserve(message.communicators_size());
  for (const v1::CommunicatorState& c : message.communicators()) {
    out.communicators.push_back(CommunicatorStateFromProto(c));
  }
  return out;
}

RankRecord RankFromProto(const v1::RankHello& message) {
  RankRecord out;
  out.rank = Rank(message.rank());
  out.source = SourceId(message.source());
  out.node = message.node();
  out.pid = message.pid();
  out.started_unix_ns = message.started_unix_ns();
  out.framework = message.framework();
  out.python = message.python();
  out.library_version = message.library_version();
  for (const v1::PartStatus& p : message.parts()) out.parts.push_back({p.part(), p.state()});
  return out;
}

v1::RankHello RankToProto(const RankRecord& rank) {
  v1::RankHello out;
  out.set_source(rank.source.value);
  out.set_rank(rank.rank.value);
  out.set_node(rank.node);
  out.set_pid(rank.pid);
  out.set_started_unix_ns(rank.started_unix_ns);
  out.set_framework(rank.framework);
  out.set_python(rank.python);
  out.set_library_version(rank.library_version);
  for (const PartStatus& p : rank.parts) {
    v1::PartStatus* m = out.add_parts();
    m->set_part(p.part);
    m->set_state(p.state);
  }
  return out;
}

v1::Finding FindingToProto(const Finding& finding) {
  const Verdict& v = finding.verdict;
  v1::Finding out;
  out.set_id(finding.id);
  out.set_job(finding.job);
  out.set_class_(v.finding_class);
  out.set_cause(v.cause);
  out.set_team(v.team);
  AddRanks(v.ranks, out.mutable_ranks());
  for (const std::string& n : v.nodes) out.add_nodes(n);
  for (const std::string& l : v.links) out.add_links(l);
  out.set_confidence(v.confidence);
  out.set_severity(v.severity);
  out.set_state(StateName(finding.state));
  out.set_first_seen_unix_ns(finding.first_seen_unix_ns);
  out.set_last_seen_unix_ns(finding.last_seen_unix_ns);
  out.set_gpu_hours_lost(finding.gpu_hours_lost);
  out.set_summary(v.summary);
  out.set_action(v.action);
  for (const Evidence& e : v.evidence) {
    v1::Evidence* m = out.add_evidence();
    m->set_text(e.text);
    m->set_metric(e.metric);
    m->set_unit(e.unit);
    m->set_has_value(e.value.has_value());
    if (e.value) m->set_value(*e.value);
    m->set_has_expected(e.expected.has_value());
    if (e.expected) m->set_expected(*e.expected);
  }
  AddRanks(v.victims, out.mutable_victims());
  out.set_since_unix_ns(v.since_unix_ns);
  out.set_until_job_end(finding.until_job_end);
  return out;
}

FindingState FindingStateFromName(const std::string& name) {
  for (FindingState s : {FindingState::kOpen, FindingState::kResolved, FindingState::kWithdrawn}) {
    if (name == StateName(s)) return s;
  }
  return FindingState::kSuspected;
}

Finding FindingFromProto(const v1::Finding& message) {
  Finding out;
  out.id = message.id();
  out.job = message.job();
  out.state = FindingStateFromName(message.state());
  out.first_seen_unix_ns = message.first_seen_unix_ns();
  out.last_seen_unix_ns = message.last_seen_unix_ns();
  out.gpu_hours_lost = message.gpu_hours_lost();
  out.until_job_end = message.until_job_end();
  Verdict& v = out.verdict;
  v.finding_class = message.class_();
  v.since_unix_ns = message.since_unix_ns();
  v.cause = message.cause();
  v.team = message.team();
  for (uint32_t r : message.ranks()) v.ranks.push_back(Rank(r));
  for (uint32_t r : message.victims()) v.victims.push_back(Rank(r));
  v.nodes.assign(message.nodes().begin(), message.nodes().end());
  v.links.assign(message.links().begin(), message.links().end());
  v.confidence = message.confidence();
  v.severity = message.severity();
  v.summary = message.summary();
  v.action = message.action();
  for (const v1::Evidence& m : message.evidence()) {
    Evidence e{m.text(), m.metric(), std::nullopt, m.unit(), std::nullopt};
    if (m.has_value()) e.value = m.value();
    if (m.has_expected()) e.expected = m.expected();
    v.evidence.push_back(std::move(e));
  }
  return out;
}

}  // namespace flare::diag
