// SPDX-License-Identifier: Apache-2.0
#include "diag/import/job_output.h"

#include <algorithm>
#include <array>

#include "diag/import/importers.h"
#include "diag/import/line_reader.h"
#include "diag/import/stack_dump.h"
#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

// A text in which nothing was found in so many lines is no output of a job.
constexpr uint64_t kMostOtherLines = 2'000'000;

constexpr std::string_view kMarks[] = {
    " NCCL INFO ",
    " NCCL WARN ",
    "NCCL version ",
    "RCCL version ",
    "Watchdog caught",
    "ProcessGroupNCCL",
    "ChildFailedError",
    "terminate called after",
    "Traceback (most recent call last)",
};

}  // namespace

// A log may begin with anything, so that any text may be one; other kinds of text know their marks.
int RecogniseJobOutput(std::string_view head) {
  for (const std::string_view mark : kMarks) {
    if (Has(head, mark)) return 40;
  }
  bool steps = false;
  ForEachLine(head, 1000, [&](std::string_view line) {
    steps = LooksLikeStep(line);
    return !steps;
  });
  if (steps) return 40;
  const auto odd = std::count_if(head.begin(), head.end(), [](unsigned char c) {
    return c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\x1b';
  });
  const size_t first = head.find_first_not_of(" \t\r\n");
  const bool document =
      first != std::string_view::npos && (head[first] == '{' || head[first] == '<');
  return !head.empty() && static_cast<size_t>(odd) * 100 <= head.size() && !document ? 1 : 0;
}

Status ReadJobOutput(Input* input, Fragment* fragment) {
  const std::array readers = {MakeNcclReader(),    MakeWatchdogReader(),  MakeExceptionReader(),
                              MakeElasticReader(), MakeNcclTestsReader(), MakeStepReader()};
  // A progress bar draws itself anew after each carriage return.
  LineReader lines(input, LineReader::Ends::kCarriageReturnToo);
  const std::string path = input->name();
  const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
  std::string plain;
  bool found = false;
  while (const std::optional<std::string_view> next = lines.Next()) {
    OutputLine line;
    line.whole = WithoutEscapes(*next, &plain);
    line.text = line.whole;
    line.file = file;
    line.number = lines.number();
    // Numbers are padded. Names before a colon are more often words than hosts.
    const PrefixedLine split = SplitPrefix(
        line.whole.substr(std::min(line.whole.find_first_not_of(' '), line.whole.size())));
    if (!split.prefix.empty() && (split.prefix[0] == '[' || IsDigit(split.prefix[0]))) {
      line.text = split.text;
      if (split.prefix.starts_with("[rank") && line.text.starts_with(' ')) {
        line.text.remove_prefix(1);
      }
      line.origin = OriginOfPrefix(split.prefix);
    }
    for (const std::unique_ptr<OutputReader>& reader : readers) reader->Take(line);
    found = found || std::any_of(readers.begin(), readers.end(),
                                 [](const auto& reader) { return reader->found(); });
    if (!found && lines.number() >= kMostOtherLines) break;
  }
  lines.AddNotes(fragment);
  for (const std::unique_ptr<OutputReader>& reader : readers) {
    if (reader->found()) reader->End(fragment);
  }
  if (found) return Status::Ok();
  return lines.status().ok() ? Status::Error(
                                   "text in which no training step and no message of NCCL, PyTorch "
                                   "or torchrun was found; --as "
                                   "names another kind")
                             : lines.status();
}

}  // namespace flare::import
