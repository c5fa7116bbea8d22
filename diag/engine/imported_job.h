// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"
#include "diag/store/store.h"
#include "flare/v1/query.pb.h"

// A job read from files: what LiveJob is to a job that is watched, in one look.
//
// The detectors look once, at the last moment that the files know of. What needs time to become
// certain stays a suspicion, unless its time had come by then. Nothing is resolved: the files do
// not tell what came after. Pure but for the store; no threads.
namespace flare::diag {

struct ImportFacts {
  uint64_t now_unix_ns = 0;   // last moment known, for the detectors
  bool absolute_time = true;  // false: no time of the job is shown
  uint64_t imported_unix_ns = 0;
  std::vector<std::string> notes;
};

class ImportedJob {
 public:
  // `job` has its id and name. It must outlive the object.
  ImportedJob(const Job& job, ImportFacts facts);

  const v1::Report& report() const { return report_; }
  const std::vector<Finding>& findings() const { return findings_; }

  JobKey key() const { return key_; }
  // What the store gets, but for the steps.
  void AddTo(StoreWrites* writes) const;
  // The steps, one by one. The object must outlive the stream.
  StepStream Steps() const;

 private:
  void Summarize();

  const JobKey key_;
  const Job& job_;
  const ImportFacts facts_;
  std::vector<Finding> findings_;
  v1::Report report_;
};

// Adds the jobs to the store: all of them or, on an error, nothing.
Status SaveAll(const std::vector<std::unique_ptr<ImportedJob>>& jobs, Store* store);

}  // namespace flare::diag
