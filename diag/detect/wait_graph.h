// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <vector>

#include "diag/detect/job_view.h"
#include "diag/detect/main_thread.h"

// Who waits for whom: an edge from each rank that waits in a collective, point-to-point call or
// communicator creation to each member that has not come to it.
//
// A rank whose main thread is busy elsewhere is a root even if asynchronous collectives of it are
// open: it is not these that hold it up. So is one whose device is left behind in a call that the
// others have finished (dumps tell that). Waits for members that nobody has heard of lead to
// `unknown`.
namespace flare::diag {

struct WaitEdge {
  Rank to;
  const OpenCall* call = nullptr;
};

struct WaitNode {
  const RankView* view = nullptr;
  Activity activity;
  std::vector<WaitEdge> edges;
  bool inside = false;  // in a call to which every member has come
  const OpenCall* inside_call = nullptr;
  // Its device is what holds it: a call that others have finished or begun, and it has not.
  const OpenCall* device_call = nullptr;
  bool unknown = false;         // waits for members that are not known
  bool any_source = false;      // a recv from anybody: one sender would do
  bool point_to_point = false;  // an edge is a send or recv
};

struct WaitGraph {
  std::map<Rank, WaitNode> nodes;  // every rank heard of
  // Ranks that others wait for and that wait for nobody.
  std::vector<Rank> roots;
  // Sets of ranks that all wait for each other, and that have no way to any other rank.
  std::vector<std::vector<Rank>> cycles;
  // Ranks inside a complete call, when nothing else explains the stall.
  std::vector<Rank> inside;
  std::vector<Rank> WaitersFor(const std::vector<Rank>& culprits) const;
};

// Looks at ranks that wait at least `at_least_ns`.
WaitGraph BuildWaitGraph(const JobView& view, uint64_t at_least_ns);

// Members that have not come to the collective of `call`, among those known and not ended well.
// From dumps: also those that have called it, but whose device has not come to it.
std::vector<Rank> MissingMembers(const JobView& view, const OpenCall& call);

}  // namespace flare::diag
