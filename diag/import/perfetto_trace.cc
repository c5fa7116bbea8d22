// SPDX-License-Identifier: Apache-2.0
// Perfetto traces that `flare trace` wrote. Those of other programs are refused in words: their
// tracks say nothing of ranks and steps.
#include <algorithm>
#include <string>

#include "diag/import/flare_record.h"
#include "diag/import/importers.h"
#include "diag/trace/trace_writer.h"
#include "flare/v1/perfetto.pb.h"

namespace flare::import {
namespace {

constexpr size_t kMaxPacketBytes = 16 << 20;
constexpr char kPacketTag = '\x0a';  // field 1 of Trace, length-delimited

// Packets of a Trace one by one; the window holds one packet and a chunk at most.
class Packets {
 public:
  explicit Packets(Input* input) : input_(input) {}

  // False at the end; `error()` says when that is not the end of a sound file.
  bool Next(std::string_view* packet) {
    size_t size = 0, header = 0;
    while (!Header(&size, &header)) {
      if (!error_.empty()) return false;
      if (!Fill()) {
        if (at_ < window_.size()) error_ = "the file is cut off in the middle of a packet";
        return false;
      }
    }
    while (window_.size() - at_ - header < size) {
      if (Fill()) continue;
      error_ = "the file is cut off in the middle of a packet";
      return false;
    }
    *packet = std::string_view(window_).substr(at_ + header, size);
    at_ += header + size;
    return true;
  }
  const std::string& error() const { return error_; }

 private:
  bool Header(size_t* size, size_t* header) {
    if (at_ == window_.size()) return false;
    if (window_[at_] != kPacketTag) {
      error_ = "something that is no packet of a trace follows";
      return false;
    }
    uint64_t value = 0;
    for (size_t i = 1; i <= 10; ++i) {
      if (at_ + i >= window_.size()) return false;
      const auto byte = static_cast<unsigned char>(window_[at_ + i]);
      if (i <= 5) value |= uint64_t{byte & 0x7fu} << (7 * (i - 1));
      if (byte < 0x80) {
        *size = value;
        *header = i + 1;
        if (i <= 5 && value <= kMaxPacketBytes) return true;
        break;
      }
    }
    error_ = "a packet is larger than " + std::to_string(kMaxPacketBytes >> 20) + " MiB";
    return false;
  }
  bool Fill() {
    if (ended_) return false;
    window_.erase(0, at_);
    at_ = 0;
    const Result<std::string_view> more = input_->Next();
    if (!more.ok()) error_ = more.status().message();
    ended_ = !more.ok() || more->empty();
    if (!ended_) window_.append(*more);
    return !ended_;
  }

  Input* const input_;
  std::string window_;
  size_t at_ = 0;
  bool ended_ = false;
  std::string error_;
};

void TakeAnnotation(const v1::perfetto::DebugAnnotation& note, RecordReader* records) {
  if (note.name() == diag::kRankArgument) {
    records->TakeRank(note.string_value());
  } else if (note.name() == diag::kStepArgument) {
    records->TakeStep(note.string_value());
  } else {
    records->TakeFact(note.name(), note.string_value());
  }
}

}  // namespace

int RecognisePerfettoTrace(std::string_view head) {
  if (head.size() < 4 || head.front() != kPacketTag) return 0;
  v1::perfetto::TracePacket packet;
  const auto length = static_cast<unsigned char>(head[1]);
  if (length == 0) return 0;
  if (length < 0x80) {
    if (head.size() < 2u + length ||
        !packet.ParseFromArray(head.data() + 2, static_cast<int>(length))) {
      return 0;
    }
  }
  return head.find(diag::kTraceMark) == std::string_view::npos ? 40 : 90;
}

Status ReadPerfettoTrace(Input* input, Fragment* fragment) {
  RecordReader records(fragment);
  Packets packets(input);
  std::string_view bytes;
  uint64_t broken = 0;
  v1::perfetto::TracePacket packet;
  while (packets.Next(&bytes)) {
    if (!packet.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      ++broken;
      continue;
    }
    for (const auto& note : packet.track_event().debug_annotations()) {
      TakeAnnotation(note, &records);
    }
  }
  if (!records.marked()) {
    return Status::Error(
        "a Perfetto trace of another program: only those that 'flare trace' wrote "
        "can be imported; export it as Chrome JSON if it is a profile of PyTorch" +
        (packets.error().empty() ? "" : " (" + packets.error() + ")"));
  }
  if (broken > 0) {
    fragment->notes.push_back(std::to_string(broken) + " packets could not be read");
  }
  if (!packets.error().empty()) fragment->notes.push_back(packets.error());
  records.Finish();
  return Status::Ok();
}

}  // namespace flare::import
