// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "diag/import/importers.h"
#include "diag/import/json_args.h"
#include "diag/import/json_events.h"
#include "diag/import/kineto_reader.h"

// PyTorch profiler traces as Kineto writes them, from PyTorch 1.8 to current, of NVIDIA and AMD
// devices, and traces that other tools derived from them.
namespace flare::import {
namespace {

// Times from here on (September 2001) count from the Unix epoch: no machine is up for so long.
constexpr int64_t kUnixTime = 1'000'000'000'000'000'000;
constexpr uint32_t kMaxWorld = 1 << 24;

struct Header {
  std::optional<Rank> rank;
  uint32_t world_size = 0;
  std::optional<int64_t> base_ns;
  std::string host;
  std::map<uint32_t, std::string> devices;
};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string Member(const JsonEvents& events, std::string_view name) {
  const auto at = events.members().find(name);
  return at == events.members().end() ? "" : at->second;
}

Header ReadHeader(const JsonEvents& events) {
  Header header;
  JsonArgs args;
  if (args.Parse(Member(events, "distributedInfo"))) {
    const auto rank = args.Int("rank"), world = args.Int("world_size");
    if (rank && *rank >= 0 && *rank < kMaxWorld) header.rank = Rank(static_cast<uint32_t>(*rank));
    if (world && *world > 0 && *world <= kMaxWorld)
      header.world_size = static_cast<uint32_t>(*world);
  }
  for (const char* name : {"deviceProperties", "computeProperties"}) {
    if (!args.Parse("{\"list\":" + Member(events, name) + "}")) continue;
    for (const std::string& object : args.Objects("list")) {
      JsonArgs device;
      if (!device.Parse(object)) continue;
      const auto id = device.Int("id");
      if (id && *id >= 0 && *id < 4096)
        header.devices[static_cast<uint32_t>(*id)] = device.String("name");
    }
  }
  std::string base = Member(events, "baseTimeNanoseconds");
  if (args.Parse("{\"base\":" + (base.empty() ? "null" : base) + "}")) {
    const auto value = args.Int("base");
    if (value && *value > 0 && *value < int64_t{1} << 61) header.base_ns = *value;
  }
  for (const char* name : {"host_name", "hostname"}) {
    if (args.Parse("{\"name\":" + Member(events, name) + "}")) header.host = args.String("name");
    if (!header.host.empty()) break;
  }
  return header;
}

// ROCm numbers devices after processors, so that the header's numbers need not be the events'.
// Names are used all the same when there is only one.
void AddDeviceNames(const Header& header, const std::set<uint32_t>& used, ProfileBuilder* builder) {
  std::set<std::string> names;
  for (const auto& [id, name] : header.devices) names.insert(name);
  for (const uint32_t device : used) {
    const auto known = header.devices.find(device);
    if (known != header.devices.end()) {
      builder->AddDeviceName(known->second);
    } else if (names.size() == 1) {
      builder->AddDeviceName(*names.begin());
    }
  }
}

std::string CountText(size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// One process as one rank.
RankFragment ToRank(KinetoProcess* process, const Header& header, int64_t origin_ns,
                    std::vector<std::string>* notes) {
  process->collectives.Finish(&process->builder, notes);
  Profile profile = process->builder.Build(origin_ns);
  RankFragment rank;
  rank.world_size = header.world_size;
  diag::RankRecord& record = rank.record;
  record.framework = "pytorch";
  record.node = header.host;
  std::from_chars(process->pid.data(), process->pid.data() + process->pid.size(), record.pid);
  record.steps.assign(std::make_move_iterator(profile.steps.begin()),
                      std::make_move_iterator(profile.steps.end()));
  if (profile.has_device) record.recording = std::move(profile.device);
  record.state.communicators = std::move(profile.communicators);
  rank.collective_ends = std::move(profile.collective_ends);
  if (!profile.pseudo_steps) record.state.steps = record.steps.size();
  notes->insert(notes->end(), profile.notes.begin(), profile.notes.end());
  if (profile.pseudo_steps) {
    notes->push_back("no steps are marked (ProfilerStep): the recording is taken as one stretch");
  }
  return rank;
}

}  // namespace

int RecogniseKineto(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (head[first] != '{' && head[first] != '[')) return 0;
  const bool events = Contains(head, "\"traceEvents\"");
  if (events && (Contains(head, "\"schemaVersion\"") || Contains(head, "\"deviceProperties\"") ||
                 Contains(head, "\"distributedInfo\""))) {
    return 90;
  }
  if (events && Contains(head, "\"ph\"")) return 70;
  // The header of a job with many process groups can be longer than the part we see.
  if (Contains(head, "\"schemaVersion\"") &&
      (Contains(head, "\"distributedInfo\"") || Contains(head, "\"deviceProperties\""))) {
    return 60;
  }
  if (events) return 50;
  if (head[first] == '[' && Contains(head, "\"ph\"") && Contains(head, "\"ts\"")) return 40;
  return 0;
}

Status ReadKineto(Input* input, Fragment* fragment) {
  const std::set<std::string, std::less<>> wanted = {"distributedInfo",   "deviceProperties",
                                                     "computeProperties", "baseTimeNanoseconds",
                                                     "host_name",         "hostname"};
  auto events = std::make_unique<JsonEvents>(input, wanted);
  auto reader = std::make_unique<KinetoReader>();
  reader->Read(events.get());
  if (reader->several()) {
    std::map<uint32_t, std::string> owners = reader->DeviceOwners();
    fragment->notes.push_back(
        "several processes in one file: each device is taken for that of the "
        "process that launched most of its kernels");
    const Status status = input->Restart();
    if (!status.ok()) return status;
    events = std::make_unique<JsonEvents>(input, wanted);
    reader = std::make_unique<KinetoReader>(std::move(owners));
    reader->Read(events.get());
  }
  for (std::string& note : events->Notes()) fragment->notes.push_back(std::move(note));
  if (!events->any_array()) {
    return Status::Error("no list of trace events in it" +
                         (fragment->notes.empty() ? "" : ": " + fragment->notes.front()));
  }
  const Header header = ReadHeader(*events);
  fragment->framework = "pytorch";
  const int64_t origin = header.base_ns.value_or(0);
  bool any_works = false;
  for (const auto& process : reader->processes()) any_works = any_works || process->works;
  size_t idle = 0;
  int64_t latest = 0;
  for (auto& process : reader->processes()) {
    if (process->builder.empty() && !process->works) continue;
    if (any_works && !process->works) {
      ++idle;
      continue;
    }
    std::optional<uint32_t> rank;
    if (header.rank) rank = header.rank->value;
    process->collectives.SetJob(rank, header.world_size);
    AddDeviceNames(header, reader->devices(), &process->builder);
    fragment->ranks.push_back(ToRank(process.get(), header, origin, &fragment->notes));
    const auto& steps = fragment->ranks.back().record.steps;
    if (!steps.empty()) latest = std::max(latest, static_cast<int64_t>(steps.back().start_unix_ns));
  }
  if (fragment->ranks.empty()) {
    return Status::Error("none of its " + CountText(events->events(), "event") +
                         " is of a kind that tells about training (kernels, launches, steps, "
                         "collectives, marked spans)");
  }
  // Processes of one file have the same things missing.
  std::set<std::string> said;
  std::erase_if(fragment->notes,
                [&](const std::string& note) { return !said.insert(note).second; });
  if (fragment->ranks.size() == 1) fragment->ranks[0].rank = header.rank;
  fragment->absolute_time = latest >= kUnixTime;
  if (!fragment->absolute_time) {
    fragment->notes.push_back("times count from an unknown origin");
  }
  if (idle > 0) {
    fragment->notes.push_back(CountText(idle, "process") +
                              " without steps, collectives or device work left out");
  }
  if (fragment->ranks.size() == 1 && reader->devices().size() > 1) {
    fragment->notes.push_back(CountText(reader->devices().size(), "device") +
                              " of one process: times are unions over all of them");
  }
  return Status::Ok();
}

}  // namespace flare::import
