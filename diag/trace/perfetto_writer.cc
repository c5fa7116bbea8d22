// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>

#include "diag/trace/trace_writer.h"
#include "flare/v1/perfetto.pb.h"

namespace flare::diag {
namespace {

namespace perfetto = v1::perfetto;

constexpr size_t kFlushBytes = 64 << 10;
constexpr uint32_t kRealTime = 6;  // Perfetto's BUILTIN_CLOCK_REALTIME
constexpr uint32_t kSequence = 1;  // all packets come from one writer
constexpr uint32_t kProcessTrack = 0xffffffff;

uint64_t TrackId(uint32_t process, uint32_t track) {
  return (uint64_t{process} << 32 | track) + 1;  // 0 is Perfetto's default track
}

class PerfettoWriter : public TraceWriter {
 public:
  explicit PerfettoWriter(TraceSink sink) : sink_(std::move(sink)) {}

  // Facts of the trace stand on a slice of no length, for Perfetto has no member for them; the
  // importer finds them at the beginning of the file.
  void Begin(const TraceArguments& facts) override {
    perfetto::TracePacket packet;
    perfetto::TrackDescriptor* track = packet.mutable_track_descriptor();
    track->set_uuid(TrackId(kProcessTrack, kProcessTrack));
    track->set_name("flare");
    Add(packet);
    perfetto::TracePacket event = Event(0);
    event.mutable_track_event()->set_type(perfetto::TrackEvent::TYPE_INSTANT);
    event.mutable_track_event()->set_track_uuid(TrackId(kProcessTrack, kProcessTrack));
    event.mutable_track_event()->set_name("flare");
    Annotate(facts, &event);
    begin_ = std::move(event);  // at the time of the first event, else the trace starts in 1970
  }

  void Process(uint32_t process, const std::string& name,
               const TraceArguments& arguments) override {
    perfetto::TracePacket packet;
    perfetto::TrackDescriptor* track = packet.mutable_track_descriptor();
    track->set_uuid(TrackId(process, kProcessTrack));
    track->mutable_process()->set_pid(static_cast<int32_t>(process + 1));
    track->mutable_process()->set_process_name(Utf8(name));
    Add(packet);
    waiting_[process] = arguments;
  }
  void Track(uint32_t process, uint32_t track, const std::string& name) override {
    perfetto::TracePacket packet;
    perfetto::TrackDescriptor* descriptor = packet.mutable_track_descriptor();
    descriptor->set_uuid(TrackId(process, track));
    descriptor->set_parent_uuid(TrackId(process, kProcessTrack));
    descriptor->set_name(Utf8(name));
    Add(packet);
  }
  void Slice(uint32_t process, uint32_t track, const std::string& name, uint64_t start_unix_ns,
             uint64_t duration_ns, const TraceArguments& arguments) override {
    Add(process, track, perfetto::TrackEvent::TYPE_SLICE_BEGIN, name, start_unix_ns, arguments);
    perfetto::TracePacket end = Event(start_unix_ns + duration_ns);
    end.mutable_track_event()->set_type(perfetto::TrackEvent::TYPE_SLICE_END);
    end.mutable_track_event()->set_track_uuid(TrackId(process, track));
    Add(end);
  }
  void Instant(uint32_t process, uint32_t track, const std::string& name, uint64_t at_unix_ns,
               const TraceArguments& arguments) override {
    Add(process, track, perfetto::TrackEvent::TYPE_INSTANT, name, at_unix_ns, arguments);
  }
  void Counter(uint32_t process, const std::string& name, uint64_t at_unix_ns,
               double value) override {
    const auto [counter, added] = counters_.emplace(
        std::make_pair(process, name), TrackId(process, 0x80000000 + counters_.size()));
    if (added) {
      perfetto::TracePacket packet;
      perfetto::TrackDescriptor* track = packet.mutable_track_descriptor();
      track->set_uuid(counter->second);
      track->set_parent_uuid(TrackId(process, kProcessTrack));
      track->set_name(Utf8(name));
      track->mutable_counter();
      Add(packet);
    }
    perfetto::TracePacket packet = Event(at_unix_ns);
    packet.mutable_track_event()->set_type(perfetto::TrackEvent::TYPE_COUNTER);
    packet.mutable_track_event()->set_track_uuid(counter->second);
    packet.mutable_track_event()->set_double_counter_value(value);
    Add(packet);
  }
  bool End() override {
    GiveFacts(0);
    Flush();
    return !failed_;
  }

 private:
  // protobuf refuses strings that are not UTF-8 when it reads them.
  static std::string Utf8(const std::string& text);

  static perfetto::TracePacket Event(uint64_t at_unix_ns) {
    perfetto::TracePacket packet;
    packet.set_timestamp(at_unix_ns);
    packet.set_timestamp_clock_id(kRealTime);
    packet.set_trusted_packet_sequence_id(kSequence);
    return packet;
  }
  static void Annotate(const TraceArguments& arguments, perfetto::TracePacket* packet) {
    for (const TraceArgument& argument : arguments) {
      perfetto::DebugAnnotation* note = packet->mutable_track_event()->add_debug_annotations();
      note->set_name(Utf8(argument.name));
      note->set_string_value(Utf8(argument.value));
    }
  }
  void Add(uint32_t process, uint32_t track, perfetto::TrackEvent::Type type,
           const std::string& name, uint64_t at_unix_ns, const TraceArguments& arguments) {
    GiveFacts(at_unix_ns);
    const auto waiting = waiting_.find(process);
    if (waiting != waiting_.end()) {
      const TraceArguments facts = std::move(waiting->second);
      waiting_.erase(waiting);
      if (!facts.empty()) {
        Add(process, kProcessTrack, perfetto::TrackEvent::TYPE_INSTANT, "process", at_unix_ns,
            facts);
      }
    }
    perfetto::TracePacket packet = Event(at_unix_ns);
    perfetto::TrackEvent* event = packet.mutable_track_event();
    event->set_type(type);
    event->set_track_uuid(TrackId(process, track));
    event->add_categories("flare");
    event->set_name(Utf8(name));
    Annotate(arguments, &packet);
    Add(packet);
  }
  void GiveFacts(uint64_t at_unix_ns) {
    if (!begin_.has_track_event()) return;
    begin_.set_timestamp(at_unix_ns);
    Add(std::exchange(begin_, {}));
  }
  void Add(const perfetto::TracePacket& packet) {
    packet.SerializeToString(&packet_);
    buffer_ += '\x0a';  // field 1 of Trace, length-delimited
    for (size_t left = packet_.size();; left >>= 7) {
      buffer_ += static_cast<char>(left < 0x80 ? left : (left & 0x7f) | 0x80);
      if (left < 0x80) break;
    }
    buffer_ += packet_;
    if (buffer_.size() >= kFlushBytes) Flush();
  }
  void Flush() {
    if (!failed_ && !buffer_.empty()) failed_ = !sink_(buffer_);
    buffer_.clear();
  }

  TraceSink sink_;
  std::string buffer_;
  std::string packet_;
  bool failed_ = false;
  perfetto::TracePacket begin_;
  std::map<uint32_t, TraceArguments> waiting_;  // facts of processes without an event yet
  std::map<std::pair<uint32_t, std::string>, uint64_t> counters_;
};

std::string PerfettoWriter::Utf8(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80       ? 1
                          : byte >> 5 == 6  ? 2
                          : byte >> 4 == 14 ? 3
                          : byte >> 3 == 30 ? 4
                                            : 0;
    bool good = length > 0 && i + length <= text.size();
    for (size_t k = 1; good && k < length; ++k) {
      good = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    }
    if (good) {
      out.append(text, i, length);
      i += length;
    } else {
      out += "\xef\xbf\xbd";
      ++i;
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<TraceWriter> NewPerfettoWriter(TraceSink sink) {
  return std::make_unique<PerfettoWriter>(std::move(sink));
}

}  // namespace flare::diag
