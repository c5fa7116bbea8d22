// SPDX-License-Identifier: Apache-2.0
// Chrome traces that `flare trace` wrote.
#include "diag/import/flare_record.h"
#include "diag/import/importers.h"
#include "diag/import/json_args.h"
#include "diag/import/json_events.h"
#include "diag/trace/trace_writer.h"

namespace flare::import {
namespace {

constexpr size_t kMarkWithin = 512;  // bytes from the beginning

std::string_view WithoutQuotes(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text.remove_prefix(1);
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

int RecogniseFlareTrace(std::string_view head) {
  const std::string mark = std::string("\"") + diag::kTraceMark + "\"";
  if (head.empty() || head.front() != '{') return 0;
  return head.substr(0, kMarkWithin).find(mark) == std::string_view::npos ? 0 : 100;
}

Status ReadFlareTrace(Input* input, Fragment* fragment) {
  RecordReader records(fragment);
  JsonEvents events(input, {diag::kTraceMark, "flare.job", "flare.world_size"});
  JsonEvent event;
  JsonArgs arguments;
  while (events.Next(&event)) {
    if (!arguments.Parse(event.Raw("args"))) continue;
    const std::string_view rank = arguments.String(diag::kRankArgument);
    if (!rank.empty()) records.TakeRank(rank);
    const std::string_view step = arguments.String(diag::kStepArgument);
    if (!step.empty()) records.TakeStep(step);
  }
  for (const auto& [name, value] : events.members()) records.TakeFact(name, WithoutQuotes(value));
  for (std::string& note : events.Notes()) fragment->notes.push_back(std::move(note));
  records.Finish();
  if (!records.marked()) return Status::Error("not a trace that flare wrote: it lacks its mark");
  return Status::Ok();
}

}  // namespace flare::import
