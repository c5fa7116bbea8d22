// SPDX-License-Identifier: Apache-2.0
#include "diag/import/flare_record.h"

#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <utility>

#include "diag/store/convert.h"
#include "diag/trace/trace_writer.h"
#include "flare/v1/event.pb.h"

namespace flare::import {
namespace {

constexpr size_t kMostRanks = 200'000;

template <typename Message>
bool FromJson(std::string_view json, Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a newer FLARE
  return google::protobuf::util::JsonStringToMessage(
             google::protobuf::StringPiece(json.data(), json.size()), message, options)
      .ok();
}

}  // namespace

void RecordReader::TakeFact(std::string_view name, std::string_view value) {
  if (name == diag::kTraceMark) {
    marked_ = true;
    if (value != diag::kTraceLayout) {
      fragment_->notes.push_back("the trace has layout " + std::string(value.substr(0, 20)) +
                                 ", this FLARE knows " + diag::kTraceLayout);
    }
  } else if (name == "flare.job") {
    fragment_->identity = value.substr(0, 500);
  } else if (name == "flare.world_size") {
    std::from_chars(value.data(), value.data() + value.size(), world_size_);
  }
}

void RecordReader::TakeRank(std::string_view json) {
  v1::RankHello hello;
  if (!FromJson(json, &hello) || ranks_.size() >= kMostRanks) {
    ++broken_;
    return;
  }
  RankFragment& rank = ranks_[hello.source()];
  rank.rank = Rank(hello.rank());
  rank.world_size = hello.world_size();
  rank.record = diag::RankFromProto(hello);
  rank.record.source = {};
  rank.record.rank = {};
}

void RecordReader::TakeStep(std::string_view json) {
  v1::RankStep step;
  const bool read = FromJson(json, &step);
  const auto rank = ranks_.find(step.source());
  if (!read || rank == ranks_.end()) {
    ++broken_;
    return;
  }
  KeepStep(diag::StepFromProto(step), &rank->second);
}

void RecordReader::Finish() {
  for (auto& [source, rank] : ranks_) {
    if (rank.world_size == 0) rank.world_size = world_size_;
    fragment_->ranks.push_back(std::move(rank));
  }
  if (broken_ > 0) {
    fragment_->notes.push_back(std::to_string(broken_) + (broken_ == 1 ? " record" : " records") +
                               " of FLARE could not be read and was left out");
  }
}

}  // namespace flare::import
