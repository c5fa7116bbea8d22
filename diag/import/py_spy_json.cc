// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>

#include "diag/import/importers.h"
#include "diag/import/stack_dump.h"
#include "diag/import/text_scan.h"

// `py-spy dump --json`: an array of threads, innermost frames first; several arrays one after the
// other when the dumps of several processes were put into one file.
//
//   [{"pid": 4242, "thread_id": 140..., "thread_name": "MainThread", "os_thread_id": 4242,
//     "active": false, "owns_gil": false,
//     "frames": [{"name": "wait", "filename": "/usr/lib/...", "short_filename": "threading.py",
//                 "line": 306, "locals": null}]}]
namespace flare::import {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr size_t kMostBytes = 256 << 20;

template <typename T>
T Get(const object& from, std::string_view key, T otherwise) {
  T value;
  return from[key].get(value) == simdjson::SUCCESS ? value : otherwise;
}

std::string_view State(const object& thread) {
  if (Get(thread, "owns_gil", false)) return "active+gil";
  return Get(thread, "active", false) ? "active" : "idle";
}

class JsonReader {
 public:
  explicit JsonReader(StackDump* dump) : dump_(dump) {}

  void TakeDocument(const element& document) {
    simdjson::dom::array threads;
    if (document.get(threads) != simdjson::SUCCESS) return;
    begun_ = false;
    for (const element item : threads) {
      object thread;
      if (item.get(thread) == simdjson::SUCCESS) TakeThread(thread);
    }
  }

 private:
  void TakeThread(const object& thread) {
    const int64_t pid = Get<int64_t>(thread, "pid", 0);
    if (!begun_ || pid != pid_) process_ = dump_->BeginProcess(Origin{}, pid);
    begun_ = true;
    pid_ = pid;
    const uint64_t system_id = Get<uint64_t>(thread, "os_thread_id", 0);
    const std::string_view name = Get<std::string_view>(thread, "thread_name", "");
    const StackDump::ThreadId id = dump_->BeginThread(
        process_, system_id != 0 ? system_id : Get<uint64_t>(thread, "thread_id", 0), name,
        State(thread));
    const bool main = name == "MainThread" || (pid > 0 && system_id == static_cast<uint64_t>(pid));
    DumpedProcess* process = dump_->process(process_);
    if (main && process != nullptr && !process->main) process->main = id.thread;
    simdjson::dom::array frames;
    if (thread["frames"].get(frames) != simdjson::SUCCESS) return;
    for (const element item : frames) {
      object frame;
      if (item.get(frame) != simdjson::SUCCESS) continue;
      std::string_view file = Get<std::string_view>(frame, "filename", "");
      if (file.empty()) file = Get<std::string_view>(frame, "short_filename", "");
      const int64_t line = Get<int64_t>(frame, "line", 0);
      dump_->AddFrame(id, Get<std::string_view>(frame, "name", "?"), file,
                      line > 0 && line <= UINT32_MAX ? static_cast<uint32_t>(line) : 0);
    }
  }

  StackDump* dump_;
  bool begun_ = false;  // a process of this document
  size_t process_ = 0;
  int64_t pid_ = 0;
};

}  // namespace

int RecognisePySpyJson(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '[') return 0;
  const bool threads = Has(head, "\"thread_id\"") && Has(head, "\"frames\"");
  return threads && (Has(head, "\"owns_gil\"") || Has(head, "\"thread_name\"")) ? 90 : 0;
}

Status ReadPySpyJson(Input* input, Fragment* fragment) {
  Result<std::string> text = input->ReadAll(kMostBytes);
  if (!text.ok()) return text.status();
  const simdjson::padded_string padded(*text);
  text->clear();
  simdjson::dom::parser parser;
  simdjson::dom::document_stream documents;
  auto error = parser.parse_many(padded, std::max<size_t>(padded.size(), 32)).get(documents);
  StackDump dump;
  JsonReader reader(&dump);
  if (error == simdjson::SUCCESS) {
    for (auto document : documents) {
      element root;
      error = document.get(root);
      if (error != simdjson::SUCCESS) break;
      reader.TakeDocument(root);
    }
  }
  dump.MoveTo(fragment);
  const bool cut = error != simdjson::SUCCESS || documents.truncated_bytes() > 0;
  if (cut) {
    fragment->notes.push_back(std::string("only the part before this was used: ") +
                              (error != simdjson::SUCCESS ? simdjson::error_message(error)
                                                          : "the last array is cut off"));
  }
  if (fragment->ranks.empty()) {
    return Status::Error(cut ? "the JSON is broken or cut off before its first array ends"
                             : "no stack of any process was found");
  }
  return Status::Ok();
}

}  // namespace flare::import
