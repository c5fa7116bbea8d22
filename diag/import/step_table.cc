// SPDX-License-Identifier: Apache-2.0
// Tables of step times: CSV with a heading, or JSON objects line by line.
//
//   step,rank,step_time_ms          {"step": 10, "rank": 3, "step_time": 1.25}
//   10,3,1250
//
// A column with the time of a step is what makes a table one; columns of ranks (or workers), steps
// and moments are used when they are there. Units stand in the name ("_ms", "(s)"); without one the
// time is taken for seconds, which the notes say.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/line_reader.h"
#include "diag/import/log_time.h"
#include "diag/import/step_collector.h"
#include "diag/import/text_scan.h"
#include "diag/import/value.h"

namespace flare::import {
namespace {

constexpr size_t kMostColumns = 4096;
constexpr size_t kNone = SIZE_MAX;

// "Train|Step Time (ms)" becomes "train_step_time_ms".
std::string PlainName(std::string_view name) {
  std::string plain;
  for (const char c : name.substr(0, 128)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) {
      plain.push_back(static_cast<char>(std::tolower(byte)));
    } else if (!plain.empty() && plain.back() != '_') {
      plain.push_back('_');
    }
  }
  while (!plain.empty() && plain.back() == '_') plain.pop_back();
  return plain;
}

constexpr std::array<std::string_view, 14> kTimeNames = {"step_time",
                                                         "iteration_time",
                                                         "iter_time",
                                                         "batch_time",
                                                         "step_duration",
                                                         "iteration_duration",
                                                         "time_per_step",
                                                         "time_per_iteration",
                                                         "step_timing",
                                                         "step_latency",
                                                         "time_per_batch",
                                                         "step_seconds",
                                                         "elapsed_time_per_iteration",
                                                         "iteration_latency"};
constexpr std::array<std::string_view, 6> kRankNames = {"rank",      "global_rank", "worker",
                                                        "worker_id", "task_id",     "process_id"};
constexpr std::array<std::string_view, 7> kStepNames = {
    "step",      "iteration",          "iter", "global_step", "iteration_number",
    "batch_idx", "trainer_global_step"};
constexpr std::array<std::string_view, 3> kMomentNames = {"timestamp", "time", "datetime"};

template <typename Names>
bool IsOneOf(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct TimeColumn {
  double seconds = 1;  // of one unit
  bool unit_told = false;
};

std::optional<TimeColumn> AsTime(std::string_view name) {
  for (const std::string_view known : kTimeNames) {
    const size_t at = name.find(known);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != '_')) continue;
    const std::string_view rest = name.substr(at + known.size());
    if (known == "step_seconds") return TimeColumn{1, true};
    if (rest.empty() || rest == "_norm") return TimeColumn{};
    if (rest == "_s" || rest == "_sec" || rest == "_secs" || rest == "_seconds" ||
        rest == "_in_s") {
      return TimeColumn{1, true};
    }
    if (rest == "_ms" || rest == "_msec" || rest == "_milliseconds") return TimeColumn{1e-3, true};
    if (rest == "_us" || rest == "_microseconds") return TimeColumn{1e-6, true};
    if (rest == "_ns" || rest == "_nanoseconds") return TimeColumn{1e-9, true};
  }
  return std::nullopt;
}

struct Columns {
  size_t time = kNone, rank = kNone, step = kNone, moment = kNone;
  TimeColumn unit;
  std::string time_name;

  bool found() const { return time != kNone; }
};

Columns FindColumns(const std::vector<std::string>& names) {
  Columns columns;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = PlainName(names[i]);
    if (const auto unit = AsTime(name); unit && columns.time == kNone) {
      columns.time = i;
      columns.unit = *unit;
      columns.time_name = names[i];
    } else if (IsOneOf(name, kRankNames) && columns.rank == kNone) {
      columns.rank = i;
    } else if (IsOneOf(name, kStepNames) && columns.step == kNone) {
      columns.step = i;
    } else if (IsOneOf(name, kMomentNames) && columns.moment == kNone) {
      columns.moment = i;
    }
  }
  return columns;
}

// Fields of a line, with quotes as RFC 4180 has them; a field does not go on in the next line.
std::vector<std::string> Fields(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size() && fields.size() <= kMostColumns; ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        fields.back().push_back('"');
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back().push_back(line[i]);
    }
  }
  return fields;
}

std::optional<double> Number(std::string_view text) {
  text = Trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

char SeparatorOf(std::string_view heading) {
  for (const char separator : {'\t', ';'}) {
    if (heading.find(separator) != std::string_view::npos &&
        heading.find(',') == std::string_view::npos) {
      return separator;
    }
  }
  return ',';
}

// A number of seconds, milliseconds or nanoseconds since 1970, in this century; 0 when it is none.
uint64_t UnixNs(double number) {
  for (const double unit : {1e9, 1e6, 1e3, 1.0}) {
    const double ns = number * unit;
    if (ns > 9e17 && ns < 4e18) return static_cast<uint64_t>(ns);
  }
  return 0;
}

class TableReader {
 public:
  explicit TableReader(Columns columns) : columns_(std::move(columns)) {}

  // The value of a column as number, if it is one; as text for moments.
  template <typename GetNumber, typename GetText>
  void Take(GetNumber number, GetText text) {
    ++rows_;
    const std::optional<double> time = number(columns_.time);
    if (!time) {
      ++unusable_;
      return;
    }
    std::optional<Rank> rank;
    if (columns_.rank != kNone) {
      const auto told = number(columns_.rank);
      if (!told || *told < 0 || *told > 1e9 || *told != std::floor(*told)) {
        ++unusable_;
        return;
      }
      rank = Rank(static_cast<uint32_t>(*told));
    }
    StepReading reading;
    reading.seconds = *time * columns_.unit.seconds;
    std::optional<double> step;
    if (columns_.step != kNone) step = number(columns_.step);
    if (columns_.moment != kNone) {
      if (const auto moment = number(columns_.moment)) {
        reading.at_unix_ns = UnixNs(*moment);
        // A clock that counts from anywhere tells the order.
        if (reading.at_unix_ns == 0 && columns_.step == kNone) step = moment;
      } else if (const auto time_told = FindLogTime(text(columns_.moment))) {
        reading.at_unix_ns = time_told->unix_ns;
        if (time_told->local) collector_.LocalTime();
      }
    }
    if (step && *step >= 0 && *step < 1e18) {
      reading.step = static_cast<uint64_t>(*step);
    } else if (counts_.size() < StepCollector::kMostRanks || counts_.contains(rank)) {
      reading.step = ++counts_[rank];
    }
    collector_.Add(rank, reading);
  }

  Status End(Fragment* fragment) {
    if (collector_.readings() == 0) return Status::Error("a table of step times without any");
    collector_.MoveTo(fragment);
    if (!columns_.unit.unit_told) {
      fragment->notes.push_back("the unit of \"" + columns_.time_name.substr(0, 64) +
                                "\" is not told; taken for seconds");
    }
    if (unusable_ > 0) {
      fragment->notes.push_back(Counted(unusable_, "row") + " without a time or a rank left out");
    }
    return Status::Ok();
  }

 private:
  const Columns columns_;
  StepCollector collector_;
  std::map<std::optional<Rank>, uint64_t> counts_;  // rows so far, where steps are not numbered
  uint64_t rows_ = 0, unusable_ = 0;
};

std::vector<std::string> Keys(const Value& object) {
  std::vector<std::string> keys;
  for (const Value::Member& member : object.members()) {
    if (keys.size() < kMostColumns) keys.emplace_back(member.key.text());
  }
  return keys;
}

Status ReadObjects(LineReader* lines, std::optional<std::string_view> line, Fragment* fragment) {
  std::optional<TableReader> table;
  std::vector<std::string> keys;
  for (; line; line = lines->Next()) {
    if (Trim(*line).empty()) continue;
    ValueStore store;
    const Result<Value> object = ReadJson(*line, &store);
    if (!object.ok()) continue;
    if (!table) {
      keys = Keys(*object);
      const Columns columns = FindColumns(keys);
      if (columns.found()) table.emplace(columns);
      if (!table) continue;
    }
    table->Take([&](size_t column) { return (*object)[keys[column]].number(); },
                [&](size_t column) { return (*object)[keys[column]].text(); });
  }
  return table ? table->End(fragment) : Status::Error("no object with the time of a step");
}

Status ReadRows(LineReader* lines, std::string_view heading, Fragment* fragment) {
  const char separator = SeparatorOf(heading);
  const Columns columns = FindColumns(Fields(heading, separator));
  if (!columns.found()) return Status::Error("no column with the time of a step");
  TableReader table(columns);
  while (const auto line = lines->Next()) {
    if (line->empty()) continue;
    const std::vector<std::string> fields = Fields(*line, separator);
    const auto field = [&](size_t column) {
      return column < fields.size() ? std::string_view(fields[column]) : std::string_view();
    };
    table.Take([&](size_t column) { return Number(field(column)); }, field);
  }
  return table.End(fragment);
}

}  // namespace

int RecogniseStepTable(std::string_view head) {
  int sure = 0;
  ForEachLine(head, 1, [&](std::string_view line) {
    if (line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    std::vector<std::string> names;
    ValueStore store;
    if (line.starts_with('{')) {
      const Result<Value> object = ReadJson(line, &store);
      if (object.ok()) names = Keys(*object);
    } else {
      names = Fields(line, SeparatorOf(line));
      if (names.size() < 2) return false;
    }
    const Columns columns = FindColumns(names);
    const bool more = columns.rank != kNone || columns.step != kNone || columns.moment != kNone;
    if (columns.found()) sure = more ? 75 : 30;
    return false;
  });
  return sure;
}

Status ReadStepTable(Input* input, Fragment* fragment) {
  LineReader lines(input);
  std::optional<std::string_view> first = lines.Next();
  while (first && Trim(*first).empty()) first = lines.Next();
  if (!first) return Status::Error("an empty file");
  if (first->starts_with("\xef\xbb\xbf")) first->remove_prefix(3);
  const Status status = first->starts_with('{') ? ReadObjects(&lines, first, fragment)
                                                : ReadRows(&lines, std::string(*first), fragment);
  lines.AddNotes(fragment);
  if (!status.ok() && !lines.status().ok()) return lines.status();
  return status;
}

}  // namespace flare::import
