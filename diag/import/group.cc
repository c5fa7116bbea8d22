// SPDX-License-Identifier: Apache-2.0
#include "diag/import/group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "diag/import/rank_parts.h"

namespace flare::import {
namespace {

// Profiles and dumps of one run are taken within minutes; files of two runs may lie in one folder.
constexpr uint64_t kOneRunNs = uint64_t{3600} * 1'000'000'000;

std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

uint32_t WorldSize(const Fragment& fragment) {
  uint32_t world_size = 0;
  for (const RankFragment& rank : fragment.ranks)
    world_size = std::max(world_size, rank.world_size);
  return world_size;
}

bool TellsRanks(const Fragment& fragment) {
  return std::any_of(fragment.ranks.begin(), fragment.ranks.end(),
                     [](const RankFragment& rank) { return rank.rank.has_value(); });
}

// Where a kind of file shows a rank: fragment and place in it.
using Places = std::map<std::pair<std::string, Rank>, std::vector<std::pair<size_t, size_t>>>;

// A group being filled: what has been placed in it, and why it was set apart.
struct Draft {
  std::vector<Fragment> fragments;
  std::string identity;
  uint32_t world_size = 0;
  std::string folder;  // set when folders tell runs apart
  std::string reason;
  Places places;
  Window window;

  void Add(Fragment fragment) {
    Note(fragment, fragments.size(), &places);
    window = Hull(window, WindowOf(fragment));
    fragments.push_back(std::move(fragment));
  }

  static void Note(const Fragment& fragment, size_t index, Places* places) {
    for (size_t r = 0; r < fragment.ranks.size(); ++r) {
      const RankFragment& rank = fragment.ranks[r];
      if (rank.rank) (*places)[{fragment.kind, *rank.rank}].push_back({index, r});
    }
  }

  static Window Hull(const Window& a, const Window& b) {
    if (a.empty() || b.empty()) return a.empty() ? b : a;
    return {std::min(a.first_ns, b.first_ns), std::max(a.last_ns, b.last_ns)};
  }

  static Window WindowOf(const Fragment& fragment) {
    Window window;
    if (!fragment.absolute_time) return window;
    for (const RankFragment& rank : fragment.ranks) {
      window = Hull(window, flare::import::WindowOf(rank));
    }
    return window;
  }
};

std::string DaysOrHours(uint64_t ns) {
  const uint64_t hours = ns / kOneRunNs;
  return hours >= 48 ? std::to_string(hours / 24) + " days" : std::to_string(hours) + " h";
}

// Why `fragment` cannot be of the job of `draft`; empty when nothing speaks against it.
std::string Objection(const Fragment& fragment, const Draft& draft) {
  bool shares_process = false;
  for (const RankFragment& rank : fragment.ranks) {
    if (!rank.rank) continue;
    const auto known = draft.places.find({fragment.kind, *rank.rank});
    if (known == draft.places.end()) continue;
    for (const auto& [index, place] : known->second) {
      const Fragment& other = draft.fragments[index];
      if (!CanBeOneProcess(rank, other.ranks[place])) {
        return "rank " + std::to_string(rank.rank->value) +
               " comes twice with different contents, in " + BaseName(other.path) + " and in " +
               BaseName(fragment.path);
      }
      shares_process = true;
    }
  }
  const uint64_t gap = Gap(Draft::WindowOf(fragment), draft.window);
  if (gap <= kOneRunNs || shares_process) return "";
  return BaseName(fragment.path) + " lies " + DaysOrHours(gap) + " from " +
         BaseName(draft.fragments.front().path) + " in time";
}

// Drafts by what files state: job and world size.
std::vector<Draft> ByStatement(std::vector<Fragment> fragments) {
  std::vector<Draft> drafts;
  const auto place = [&](auto wanted, auto fits, auto exact, const char* reason) {
    for (Fragment& fragment : fragments) {
      if (fragment.path.empty() || !wanted(fragment)) continue;
      Draft* only = nullptr;
      size_t count = 0;
      for (Draft& draft : drafts) {
        if (!fits(fragment, draft)) continue;
        // A draft of its own kind settles what would be ambiguous.
        const bool better = exact(fragment, draft) && !(only && exact(fragment, *only));
        if (better || only == nullptr) only = &draft;
        ++count;
      }
      if (only == nullptr || (count > 1 && !exact(fragment, *only))) {
        Draft draft;
        draft.identity = fragment.identity;
        if (!drafts.empty()) draft.reason = reason;
        drafts.push_back(std::move(draft));
        only = &drafts.back();
      }
      only->world_size = std::max(only->world_size, WorldSize(fragment));
      only->Add(std::move(fragment));
      fragment.path.clear();  // placed
    }
  };
  place([](const Fragment& f) { return !f.identity.empty(); },
        [](const Fragment& f, const Draft& d) { return f.identity == d.identity; },
        [](const Fragment&, const Draft&) { return true; }, "the files name different jobs");
  place([](const Fragment& f) { return WorldSize(f) > 0; },
        [](const Fragment& f, const Draft& d) {
          return d.world_size == 0 || d.world_size == WorldSize(f);
        },
        [](const Fragment& f, const Draft& d) {
          return d.identity.empty() && d.world_size == WorldSize(f);
        },
        "the files tell different numbers of ranks");
  place([](const Fragment& f) { return TellsRanks(f); },
        [](const Fragment&, const Draft&) { return true; },
        [](const Fragment&, const Draft& d) { return d.identity.empty() && d.world_size == 0; },
        "some files do not tell to which of the jobs they belong");
  return drafts;
}

// Folders explain contradictions when within each there is none.
bool FoldersExplain(const std::vector<Fragment>& fragments) {
  Places places;
  for (size_t i = 0; i < fragments.size(); ++i) Draft::Note(fragments[i], i, &places);
  bool contradiction = false;
  for (const auto& [key, shown] : places) {
    // Of a rank that comes very often the first few tell.
    for (size_t i = 1; i < std::min<size_t>(shown.size(), 64); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Fragment& a = fragments[shown[i].first];
        const Fragment& b = fragments[shown[j].first];
        if (CanBeOneProcess(a.ranks[shown[i].second], b.ranks[shown[j].second])) continue;
        if (Folder(a.path) == Folder(b.path)) return false;
        contradiction = true;
      }
    }
  }
  return contradiction;
}

// Drafts in which nothing contradicts.
std::vector<Draft> Split(Draft draft) {
  std::vector<Draft> parts;
  const bool folders = FoldersExplain(draft.fragments);
  for (Fragment& fragment : draft.fragments) {
    Draft* home = nullptr;
    std::string objection;
    for (Draft& part : parts) {
      if (folders && part.folder != Folder(fragment.path)) {
        objection = "each folder holds a run of its own";
        continue;
      }
      objection = Objection(fragment, part);
      if (!objection.empty()) continue;
      home = &part;
      break;
    }
    if (home == nullptr) {
      Draft part;
      part.identity = draft.identity;
      part.world_size = draft.world_size;
      if (folders) part.folder = Folder(fragment.path);
      part.reason = parts.empty() ? draft.reason : objection;
      parts.push_back(std::move(part));
      home = &parts.back();
    }
    home->Add(std::move(fragment));
  }
  return parts;
}

bool Holds(const Draft& draft, const std::string& folder) {
  return std::any_of(draft.fragments.begin(), draft.fragments.end(),
                     [&](const Fragment& f) { return Folder(f.path) == folder; });
}

// Logs and dumps of nobody in particular: to the only job, the only one of their folder, or none.
void PlaceRest(std::vector<Fragment> rest, std::vector<Draft>* drafts) {
  const size_t jobs = drafts->size();
  std::optional<size_t> alone;
  for (Fragment& fragment : rest) {
    std::vector<size_t> homes;
    for (size_t i = 0; i < jobs; ++i) {
      if (jobs == 1 || Holds((*drafts)[i], Folder(fragment.path))) homes.push_back(i);
    }
    if (homes.size() == 1) {
      (*drafts)[homes[0]].Add(std::move(fragment));
      continue;
    }
    if (!alone) {
      alone = drafts->size();
      drafts->push_back({});
      if (jobs > 0) drafts->back().reason = "some files do not tell to which job they belong";
    }
    (*drafts)[*alone].Add(std::move(fragment));
  }
}

// The last parts of the folders in which they differ, an identity, or a file.
void Label(std::vector<Group>* groups, const std::vector<Draft>& drafts) {
  std::map<std::string, int> used;
  for (size_t i = 0; i < drafts.size(); ++i) {
    const Draft& draft = drafts[i];
    std::string label = draft.identity;
    const bool same = std::count_if(drafts.begin(), drafts.end(), [&](const Draft& other) {
                        return other.identity == draft.identity;
                      }) > 1;
    if (label.empty() || same) {
      const std::string folder = Folder(draft.fragments.front().path);
      const bool one_folder =
          std::all_of(draft.fragments.begin(), draft.fragments.end(),
                      [&](const Fragment& f) { return Folder(f.path) == folder; });
      const auto holders = std::count_if(drafts.begin(), drafts.end(),
                                         [&](const Draft& other) { return Holds(other, folder); });
      label = one_folder && holders == 1 && !folder.empty()
                  ? BaseName(folder)
                  : BaseName(draft.fragments.front().path);
    }
    const int count = ++used[label];
    (*groups)[i].label = count == 1 ? label : label + " " + std::to_string(count);
  }
}

}  // namespace

std::vector<Group> GroupFragments(std::vector<Fragment> fragments) {
  std::vector<Fragment> telling, rest;
  for (Fragment& fragment : fragments) {
    const bool tells = TellsRanks(fragment) || !fragment.identity.empty();
    (tells ? telling : rest).push_back(std::move(fragment));
  }
  std::vector<Draft> drafts;
  for (Draft& draft : ByStatement(std::move(telling))) {
    for (Draft& part : Split(std::move(draft))) drafts.push_back(std::move(part));
  }
  PlaceRest(std::move(rest), &drafts);
  std::vector<Group> groups(drafts.size());
  if (drafts.size() > 1) Label(&groups, drafts);
  std::set<std::string> reasons;
  for (const Draft& draft : drafts) {
    if (!draft.reason.empty()) reasons.insert(draft.reason);
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    groups[i].fragments = std::move(drafts[i].fragments);
    if (drafts.size() == 1) continue;
    std::string note = "the files hold " + std::to_string(drafts.size()) + " jobs, told one by one";
    const char* separator = ": ";
    for (const std::string& reason : reasons) {
      note += separator + reason;
      separator = "; ";
    }
    groups[i].notes.push_back(note);
  }
  return groups;
}

}  // namespace flare::import
