// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <utility>

#include "diag/trace/trace_writer.h"
#include "nlohmann/json.hpp"

namespace flare::diag {
namespace {

constexpr size_t kFlushBytes = 64 << 10;

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds with three places: a double would lose the nanoseconds of a Unix time.
std::string Microseconds(uint64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%03u", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned>(ns % 1000));
  return text;
}

std::string ArgumentsText(const TraceArguments& arguments) {
  std::string text = "{";
  for (const TraceArgument& argument : arguments) {
    if (text.size() > 1) text += ',';
    text += Quoted(argument.name) + ":" + Quoted(argument.value);
  }
  return text + "}";
}

class ChromeWriter : public TraceWriter {
 public:
  explicit ChromeWriter(TraceSink sink) : sink_(std::move(sink)) {}

  void Begin(const TraceArguments& facts) override {
    Add("{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\"");
    for (const TraceArgument& fact : facts) {
      Add("," + Quoted(fact.name) + ":" + Quoted(fact.value));
    }
    Add(",\n\"traceEvents\":[");
  }

  void Process(uint32_t process, const std::string& name,
               const TraceArguments& arguments) override {
    TraceArguments all = arguments;
    all.insert(all.begin(), {"name", name});
    Event("\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + std::to_string(process), all);
    Event("\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":" + std::to_string(process),
          {{"sort_index", std::to_string(process)}});
  }
  void Track(uint32_t process, uint32_t track, const std::string& name) override {
    Event("\"ph\":\"M\",\"name\":\"thread_name\"," + Place(process, track), {{"name", name}});
  }
  void Slice(uint32_t process, uint32_t track, const std::string& name, uint64_t start_unix_ns,
             uint64_t duration_ns, const TraceArguments& arguments) override {
    Event("\"ph\":\"X\",\"cat\":\"flare\",\"name\":" + Quoted(name) + "," + Place(process, track) +
              ",\"ts\":" + Microseconds(start_unix_ns) + ",\"dur\":" + Microseconds(duration_ns),
          arguments);
  }
  void Instant(uint32_t process, uint32_t track, const std::string& name, uint64_t at_unix_ns,
               const TraceArguments& arguments) override {
    Event("\"ph\":\"i\",\"s\":\"p\",\"cat\":\"flare\",\"name\":" + Quoted(name) + "," +
              Place(process, track) + ",\"ts\":" + Microseconds(at_unix_ns),
          arguments);
  }
  void Counter(uint32_t process, const std::string& name, uint64_t at_unix_ns,
               double value) override {
    char number[32];
    std::snprintf(number, sizeof number, "%.6g", value);
    Add(std::string(first_ ? "\n{" : ",\n{") + "\"ph\":\"C\",\"name\":" + Quoted(name) +
        ",\"pid\":" + std::to_string(process) + ",\"ts\":" + Microseconds(at_unix_ns) +
        ",\"args\":{\"value\":" + number + "}}");
    first_ = false;
  }
  bool End() override {
    Add("\n]}\n");
    Flush();
    return !failed_;
  }

 private:
  static std::string Place(uint32_t process, uint32_t track) {
    return "\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(track);
  }
  void Event(const std::string& members, const TraceArguments& arguments) {
    Add(std::string(first_ ? "\n{" : ",\n{") + members + ",\"args\":" + ArgumentsText(arguments) +
        "}");
    first_ = false;
  }
  void Add(const std::string& text) {
    buffer_ += text;
    if (buffer_.size() >= kFlushBytes) Flush();
  }
  void Flush() {
    if (!failed_ && !buffer_.empty()) failed_ = !sink_(buffer_);
    buffer_.clear();
  }

  TraceSink sink_;
  std::string buffer_;
  bool first_ = true;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<TraceWriter> NewChromeWriter(TraceSink sink) {
  return std::make_unique<ChromeWriter>(std::move(sink));
}

}  // namespace flare::diag
