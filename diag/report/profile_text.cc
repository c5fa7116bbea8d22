// SPDX-License-Identifier: Apache-2.0
#include "diag/report/profile_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <vector>

#include "diag/report/device_view.h"
#include "diag/report/plain_text.h"
#include "diag/report/text_style.h"

namespace flare::diag {
namespace {

constexpr size_t kProfileRows = 16;

std::string Percent(std::optional<double> share) {
  if (!share) return "-";
  char text[16];
  std::snprintf(text, sizeof(text), "%.1f %%", *share * 100);
  return text;
}

std::vector<std::string> Row(const v1::RankProfile& profile) {
  const v1::DeviceStep& device = profile.device();
  const std::optional<DeviceShares> shares = SharesOf(device);
  const auto share = [&](double DeviceShares::*member) {
    return Percent(shares ? std::optional<double>((*shares).*member) : std::nullopt);
  };
  const double step_seconds =
      static_cast<double>(profile.steps_ns()) * 1e-9 / std::max(1u, profile.steps());
  const std::optional<double> latency = QuantileSeconds(device.compute_issue_latency(), 0.5);
  return {std::to_string(profile.rank()),
          std::to_string(profile.steps()),
          step_seconds > 0 ? StepTime(step_seconds) : "-",
          share(&DeviceShares::busy),
          share(&DeviceShares::compute),
          share(&DeviceShares::communication),
          Percent(shares ? shares->overlap : std::nullopt),
          share(&DeviceShares::idle),
          std::to_string(device.kernels()),
          latency ? StepTime(*latency) : "-"};
}

// Of many ranks those that a reader asks for first.
std::vector<const v1::RankProfile*> Choose(const v1::Report& report) {
  std::set<uint32_t> culprits;
  for (const v1::Finding& f : report.findings()) {
    culprits.insert(f.ranks().begin(), f.ranks().end());
  }
  std::vector<const v1::RankProfile*> chosen;
  std::vector<double> idle;
  for (const v1::RankProfile& profile : report.profiles()) {
    chosen.push_back(&profile);
    if (const auto shares = SharesOf(profile.device())) idle.push_back(shares->idle);
  }
  if (chosen.size() <= kProfileRows || idle.empty()) return chosen;
  const auto middle = idle.begin() + static_cast<ptrdiff_t>(idle.size() / 2);
  std::nth_element(idle.begin(), middle, idle.end());
  const double median = *middle;
  std::vector<std::pair<double, const v1::RankProfile*>> by_distance;
  for (const v1::RankProfile* profile : chosen) {
    const auto shares = SharesOf(profile->device());
    const double distance = shares ? std::fabs(shares->idle - median) : 0;
    by_distance.emplace_back(culprits.contains(profile->rank()) ? 2 : distance, profile);
  }
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  chosen.clear();
  for (size_t i = 0; i < kProfileRows; ++i) chosen.push_back(by_distance[i].second);
  std::sort(chosen.begin(), chosen.end(),
            [](const auto* a, const auto* b) { return a->rank() < b->rank(); });
  return chosen;
}

}  // namespace

std::string ProfilesText(const v1::Report& report, const TextOptions& options) {
  if (report.profiles_size() == 0) return "";
  std::vector<std::vector<std::string>> rows = {{"rank", "steps", "per step", "GPU busy", "compute",
                                                 "communic.", "overlap", "idle", "kernels",
                                                 "issue latency"}};
  const std::vector<const v1::RankProfile*> chosen = Choose(report);
  for (const v1::RankProfile* profile : chosen) rows.push_back(Row(*profile));
  std::string out = Table(rows, options);
  const size_t all = static_cast<size_t>(report.profiles_size());
  if (all > chosen.size()) {
    out += Dim(options, "and " + Counted(all - chosen.size(), "more rank") +
                            " nearer to the middle; all of them with --json") +
           "\n";
  }
  return out;
}

}  // namespace flare::diag
