// SPDX-License-Identifier: Apache-2.0
#include "diag/import/number_ranks.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "diag/import/check.h"

namespace flare::import {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// A number of at most seven digits, all of `digits`.
std::optional<uint32_t> Number(const std::string& digits) {
  if (digits.empty() || digits.size() > 7 || !std::all_of(digits.begin(), digits.end(), IsDigit)) {
    return std::nullopt;
  }
  const auto value = static_cast<uint32_t>(std::stoul(digits));
  return value < kMostRanks ? std::optional<uint32_t>(value) : std::nullopt;
}

bool Numbered(const RankFragment& rank, uint32_t number) {
  return rank.world_size == 0 || number < rank.world_size;
}

bool AnyUntold(const Fragment& fragment) {
  return std::any_of(fragment.ranks.begin(), fragment.ranks.end(),
                     [](const RankFragment& rank) { return !rank.rank; });
}

bool OneUntold(const Fragment& fragment) {
  return fragment.ranks.size() == 1 && !fragment.ranks[0].rank;
}

void NumberByWord(Fragment* fragment) {
  if (!OneUntold(*fragment)) return;
  const std::optional<uint32_t> number = RankInName(fragment->path);
  if (!number || !Numbered(fragment->ranks[0], *number)) return;
  fragment->ranks[0].rank = Rank(*number);
  fragment->notes.push_back("rank " + std::to_string(*number) + " by the name of the file");
}

// Only dumps: two profiles whose names differ in a number may as well be two runs.
void NumberDumps(std::vector<Fragment>* fragments) {
  std::map<std::pair<std::string, std::string>, std::vector<Fragment*>> sets;
  for (Fragment& fragment : *fragments) {
    if (OneUntold(fragment) && fragment.ranks[0].record.steps.empty()) {
      sets[{fragment.kind, Folder(fragment.path)}].push_back(&fragment);
    }
  }
  for (const auto& [key, set] : sets) {
    std::vector<std::string> names;
    for (const Fragment* fragment : set) names.push_back(BaseName(fragment->path));
    const std::vector<uint32_t> numbers = NumbersInNames(names);
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!Numbered(set[i]->ranks[0], numbers[i])) continue;
      set[i]->ranks[0].rank = Rank(numbers[i]);
      set[i]->notes.push_back("rank " + std::to_string(numbers[i]) +
                              " by the number in the name of the file");
    }
  }
}

void NumberInOrder(Fragment* fragment) {
  if (!AnyUntold(*fragment)) return;
  const bool steps =
      std::any_of(fragment->ranks.begin(), fragment->ranks.end(),
                  [](const RankFragment& rank) { return !rank.record.steps.empty(); });
  if (!steps) return;
  std::set<Rank> taken;
  for (const RankFragment& rank : fragment->ranks) {
    if (rank.rank) taken.insert(*rank.rank);
  }
  Rank next;
  size_t numbered = 0;
  for (RankFragment& rank : fragment->ranks) {
    if (rank.rank) continue;
    while (taken.contains(next)) ++next.value;
    taken.insert(next);
    rank.rank = next;
    ++numbered;
  }
  fragment->notes.push_back(
      numbered == 1 ? "the file does not say which rank it shows; taken for rank " +
                          std::to_string(next.value)
                    : "the file does not say which ranks its " + std::to_string(numbered) +
                          " processes are; numbered in their order");
}

}  // namespace

std::optional<uint32_t> RankInName(const std::string& path) {
  std::string name = BaseName(path);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (size_t at = name.find("rank"); at != std::string::npos; at = name.find("rank", at + 1)) {
    // "rank 3", and not "crank 3" or "local_rank 3", which is a number on a node.
    if (at > 0 && std::isalpha(static_cast<unsigned char>(name[at - 1]))) continue;
    if (at >= 6 && name.compare(at - 6, 5, "local") == 0) continue;
    size_t begin = at + 4;
    while (begin < name.size() && std::string("_-=. ").find(name[begin]) != std::string::npos) {
      ++begin;
    }
    size_t end = begin;
    while (end < name.size() && IsDigit(name[end])) ++end;
    if (const auto number = Number(name.substr(begin, end - begin))) return number;
  }
  return std::nullopt;
}

std::vector<uint32_t> NumbersInNames(const std::vector<std::string>& names) {
  if (names.size() < 2) return {};
  size_t prefix = names[0].size(), suffix = names[0].size();
  for (const std::string& name : names) {
    const auto ends = std::mismatch(names[0].begin(), names[0].end(), name.begin(), name.end());
    prefix = std::min(prefix, static_cast<size_t>(ends.first - names[0].begin()));
    const auto tails =
        std::mismatch(names[0].rbegin(), names[0].rend(), name.rbegin(), name.rend());
    suffix = std::min(suffix, static_cast<size_t>(tails.first - names[0].rbegin()));
  }
  // Digits that all names share belong to the numbers: "_1" and "_10", "1.json" and "21.json".
  while (prefix > 0 && IsDigit(names[0][prefix - 1])) --prefix;
  while (suffix > 0 && IsDigit(names[0][names[0].size() - suffix])) --suffix;
  std::set<uint32_t> different;
  std::vector<uint32_t> numbers;
  for (const std::string& name : names) {
    if (name.size() <= prefix + suffix) return {};
    const auto number = Number(name.substr(prefix, name.size() - prefix - suffix));
    if (!number || !different.insert(*number).second) return {};
    numbers.push_back(*number);
  }
  // Ranks lie close together; pids and dates do not.
  if (*different.rbegin() >= 8 * names.size() + 8) return {};
  return numbers;
}

void NumberRanks(std::vector<Fragment>* fragments) {
  for (Fragment& fragment : *fragments) NumberByWord(&fragment);
  NumberDumps(fragments);
  for (Fragment& fragment : *fragments) NumberInOrder(&fragment);
}

}  // namespace flare::import
