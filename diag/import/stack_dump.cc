// SPDX-License-Identifier: Apache-2.0
#include "diag/import/stack_dump.h"

#include <algorithm>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

// Prefixes believed in one file; of more the lines count as having none.
constexpr size_t kOrigins = 100'000;

// The program itself, and not a thread started by it, lies outermost.
bool BeginsProgram(const diag::ThreadStack& thread) {
  const auto outermost =
      std::find_if(thread.frames.rbegin(), thread.frames.rend(),
                   [](const diag::StackFrame& frame) { return IsPythonFile(frame.file); });
  if (outermost == thread.frames.rend()) return false;
  return outermost->function == "<module>" || outermost->function == "_run_module_as_main";
}

std::optional<size_t> MainThread(const DumpedProcess& process) {
  if (process.main) return process.main;
  if (process.threads.size() == 1) return 0;
  std::optional<size_t> found;
  for (size_t i = 0; i < process.threads.size(); ++i) {
    if (!BeginsProgram(process.threads[i])) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

// One parser and the origin it reads for.
struct Reader {
  Origin origin;
  std::unique_ptr<DumpParser> parser;
};

}  // namespace

bool IsPythonFile(std::string_view file) {
  return file.ends_with(".py") || file.ends_with(".pyx") || file.starts_with('<');
}

size_t StackDump::BeginProcess(const Origin& origin, int64_t pid) {
  if (processes_.size() >= StackLimits::kProcesses) {
    ++processes_left_out_;
    return StackLimits::kProcesses;
  }
  DumpedProcess& process = processes_.emplace_back();
  process.origin = origin;
  process.pid = pid;
  return processes_.size() - 1;
}

DumpedProcess* StackDump::process(size_t number) {
  return number < processes_.size() ? &processes_[number] : nullptr;
}

StackDump::ThreadId StackDump::BeginThread(size_t number, uint64_t id, std::string_view name,
                                           std::string_view state) {
  DumpedProcess* owner = process(number);
  if (owner == nullptr || owner->threads.size() >= StackLimits::kThreads) {
    ++threads_left_out_;
    return {number, StackLimits::kThreads};
  }
  diag::ThreadStack& thread = owner->threads.emplace_back();
  thread.id = id;
  thread.name = name.substr(0, StackLimits::kNameBytes);
  thread.state = state.substr(0, StackLimits::kNameBytes);
  return {number, owner->threads.size() - 1};
}

diag::ThreadStack* StackDump::thread(ThreadId id) {
  DumpedProcess* owner = process(id.process);
  return owner != nullptr && id.thread < owner->threads.size() ? &owner->threads[id.thread]
                                                               : nullptr;
}

// Main threads tell where a rank stands: they must not go short for those beside them.
size_t StackDump::FrameLimit(ThreadId id, const diag::ThreadStack& stack) const {
  const std::optional<size_t>& main = processes_[id.process].main;
  const bool beside = main ? *main != id.thread : !stack.name.empty() && stack.name != "MainThread";
  return beside ? StackLimits::kAllFrames / 2 : StackLimits::kAllFrames;
}

void StackDump::AddFrame(ThreadId id, std::string_view function, std::string_view file,
                         uint32_t line) {
  diag::ThreadStack* owner = thread(id);
  if (owner == nullptr || owner->frames.size() >= StackLimits::kFrames ||
      frames_ >= FrameLimit(id, *owner)) {
    ++frames_left_out_;
    return;
  }
  ++frames_;
  diag::StackFrame& frame = owner->frames.emplace_back();
  frame.function = function.substr(0, StackLimits::kNameBytes);
  // Of a path the end tells more than the beginning.
  frame.file = file.substr(file.size() - std::min(file.size(), StackLimits::kNameBytes));
  frame.line = line;
}

void StackDump::AddNote(std::string note) {
  constexpr size_t kNotes = 20;
  if (notes_.size() >= kNotes || std::find(notes_.begin(), notes_.end(), note) != notes_.end()) {
    return;
  }
  notes_.push_back(std::move(note));
}

void StackDump::MoveTo(Fragment* fragment) {
  std::map<uint32_t, size_t>
      of_rank;  // a prefix tells a rank only when one process stands under it
  const auto has_frames = [](const DumpedProcess& process) {
    return std::any_of(process.threads.begin(), process.threads.end(),
                       [](const diag::ThreadStack& thread) { return !thread.frames.empty(); });
  };
  for (const DumpedProcess& process : processes_) {
    if (process.origin.rank && has_frames(process)) ++of_rank[process.origin.rank->value];
  }
  for (DumpedProcess& process : processes_) {
    if (!has_frames(process)) continue;
    RankFragment& rank = fragment->ranks.emplace_back();
    if (process.origin.rank && of_rank[process.origin.rank->value] == 1) {
      rank.rank = process.origin.rank;
    }
    rank.record.node = process.origin.node;
    rank.record.pid = process.pid;
    diag::ProcessState& state = rank.record.state.process;
    state.life = process.life;
    state.run_state = process.run_state;
    const std::optional<size_t> main = MainThread(process);
    if (main) {
      for (const diag::StackFrame& frame : process.threads[*main].frames) {
        if (IsPythonFile(frame.file)) state.python_stack.push_back(frame);
      }
      process.threads[*main].name = "MainThread";  // as detectors look for it
    }
    state.threads = std::move(process.threads);
  }
  fragment->signals = std::move(signals_);
  fragment->notes = std::move(notes_);
  const auto note = [&](uint64_t count, const char* what) {
    if (count > 0) fragment->notes.push_back(Counted(count, what) + " left out: too many");
  };
  note(processes_left_out_, "process");
  note(threads_left_out_, "thread");
  note(frames_left_out_, "stack frame");
}

std::string_view WithoutEscapes(std::string_view line, std::string* buffer) {
  if (line.find('\x1b') == std::string_view::npos) return line;
  buffer->clear();
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      buffer->push_back(line[i]);
      continue;
    }
    // "ESC [ parameters letter"; anything else loses its ESC only.
    if (i + 1 >= line.size() || line[i + 1] != '[') continue;
    size_t end = i + 2;
    while (end < line.size() && (IsDigit(line[end]) || line[end] == ';')) ++end;
    i = end;
  }
  return *buffer;
}

Status ReadDump(Input* input, const DumpFormat& format, Fragment* fragment) {
  StackDump dump;
  LineReader lines(input);
  BlockHeading heading;
  std::string buffer;
  std::map<std::string, std::unique_ptr<Reader>, std::less<>> by_prefix;
  std::vector<std::unique_ptr<Reader>> blocks;  // of lines without prefix, a heading each
  const auto make = [&](Origin origin) {
    auto reader = std::make_unique<Reader>();
    reader->origin = std::move(origin);
    reader->parser = format.make(&dump, &reader->origin);
    return reader;
  };
  blocks.push_back(make({}));
  while (const auto raw = lines.Next()) {
    const std::string_view line = WithoutEscapes(*raw, &buffer);
    const PrefixedLine parts = SplitPrefix(line);
    if (!parts.prefix.empty()) {
      auto found = by_prefix.find(parts.prefix);
      if (found == by_prefix.end() && by_prefix.size() < kOrigins && format.begins(parts.text)) {
        found =
            by_prefix.emplace(std::string(parts.prefix), make(OriginOfPrefix(parts.prefix))).first;
      }
      if (found != by_prefix.end()) {
        found->second->parser->Take(parts.text);
        continue;
      }
    }
    if (heading.Take(line)) {
      if (blocks.back()->origin.node != heading.node() && blocks.size() < kOrigins) {
        blocks.push_back(make(Origin{heading.node(), {}}));
      }
      continue;
    }
    blocks.back()->parser->Take(line);
  }
  for (auto& [prefix, reader] : by_prefix) reader->parser->End();
  for (auto& reader : blocks) reader->parser->End();
  dump.MoveTo(fragment);
  lines.AddNotes(fragment);
  if (fragment->ranks.empty() && fragment->signals.empty()) {
    return lines.status().ok() ? Status::Error("no stack of any process was found")
                               : lines.status();
  }
  return Status::Ok();
}

}  // namespace flare::import
