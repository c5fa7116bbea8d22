// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// The two formats in which a job can be looked at in a trace viewer.
//
// A trace has processes with tracks; a track has slices that do not overlap, instants and counters.
// Names may hold anything: bytes that are not UTF-8 become U+FFFD. Memory does not grow with the
// trace. One thread per writer.
namespace flare::diag {

// Takes the next bytes of the file; false when they could not be written.
using TraceSink = std::function<bool(std::string_view bytes)>;

struct TraceArgument {
  std::string name;
  std::string value;
};
using TraceArguments = std::vector<TraceArgument>;

class TraceWriter {
 public:
  virtual ~TraceWriter() = default;

  // First of all. `facts` are those of the whole trace; the importer of FLARE's own traces knows
  // them by kTraceMark.
  virtual void Begin(const TraceArguments& facts) = 0;
  // Before anything on them. `process` and `track` are numbers of the caller's choice.
  virtual void Process(uint32_t process, const std::string& name,
                       const TraceArguments& arguments) = 0;
  virtual void Track(uint32_t process, uint32_t track, const std::string& name) = 0;

  virtual void Slice(uint32_t process, uint32_t track, const std::string& name,
                     uint64_t start_unix_ns, uint64_t duration_ns,
                     const TraceArguments& arguments) = 0;
  virtual void Instant(uint32_t process, uint32_t track, const std::string& name,
                       uint64_t at_unix_ns, const TraceArguments& arguments) = 0;
  virtual void Counter(uint32_t process, const std::string& name, uint64_t at_unix_ns,
                       double value) = 0;
  // False when the sink has failed at any time.
  virtual bool End() = 0;
};

// Name of the fact by which FLARE's own traces are known; its value is the version of the layout.
inline constexpr char kTraceMark[] = "flare.trace";
inline constexpr char kTraceLayout[] = "1";
// Arguments that carry FLARE's own records, as text in protobuf's JSON.
inline constexpr char kRankArgument[] = "flare.rank";  // of a process: v1::RankHello
inline constexpr char kStepArgument[] = "flare.step";  // of a slice: v1::RankStep

// Chrome's trace event format: JSON, opened by Perfetto and chrome://tracing.
std::unique_ptr<TraceWriter> NewChromeWriter(TraceSink sink);

// Perfetto's protobuf format: a third of the size, opened by ui.perfetto.dev.
std::unique_ptr<TraceWriter> NewPerfettoWriter(TraceSink sink);

}  // namespace flare::diag
