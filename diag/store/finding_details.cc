// SPDX-License-Identifier: Apache-2.0
#include "diag/store/finding_details.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace flare::diag {
namespace {

using nlohmann::json;

json RanksToJson(const std::vector<Rank>& ranks) {
  json out = json::array();
  for (Rank r : ranks) out.push_back(r.value);
  return out;
}

void RanksFromJson(const json& in, std::vector<Rank>* ranks) {
  for (const json& r : in) ranks->push_back(Rank(r.get<uint32_t>()));
}

// JSON knows no infinities; a number it cannot hold is as good as none.
json Number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

std::optional<double> NumberFrom(const json& in) {
  return in.is_number() ? std::optional<double>(in.get<double>()) : std::nullopt;
}

}  // namespace

std::string DetailsToJson(const Finding& finding) {
  const Verdict& verdict = finding.verdict;
  json evidence = json::array();
  for (const Evidence& e : verdict.evidence) {
    evidence.push_back({{"text", e.text},
                        {"metric", e.metric},
                        {"value", Number(e.value)},
                        {"unit", e.unit},
                        {"expected", Number(e.expected)}});
  }
  const json details = {{"ranks", RanksToJson(verdict.ranks)},
                        {"victims", RanksToJson(verdict.victims)},
                        {"nodes", verdict.nodes},
                        {"links", verdict.links},
                        {"until_job_end", finding.until_job_end},
                        {"evidence", std::move(evidence)}};
  // Names come from the job; text that is not UTF-8 must not make the finding unsayable.
  return details.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status DetailsFromJson(const std::string& text, Finding* finding) {
  Verdict* const verdict = &finding->verdict;
  try {
    const json in = json::parse(text);
    RanksFromJson(in.at("ranks"), &verdict->ranks);
    RanksFromJson(in.at("victims"), &verdict->victims);
    verdict->nodes = in.at("nodes").get<std::vector<std::string>>();
    verdict->links = in.at("links").get<std::vector<std::string>>();
    finding->until_job_end = in.value("until_job_end", false);  // absent in older databases
    for (const json& e : in.at("evidence")) {
      verdict->evidence.push_back({e.at("text").get<std::string>(),
                                   e.at("metric").get<std::string>(), NumberFrom(e.at("value")),
                                   e.at("unit").get<std::string>(), NumberFrom(e.at("expected"))});
    }
  } catch (const json::exception& e) {
    return Status::Error(std::string("details of a finding: ") + e.what());
  }
  return Status::Ok();
}

}  // namespace flare::diag
