// SPDX-License-Identifier: Apache-2.0
// The Python module flare._flare: files of other tools to jobs, findings and tables. python/flare
// wraps it; users see that.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "diag/bindings/columns.h"
#include "diag/engine/imported_job.h"
#include "diag/import/join.h"
#include "diag/import/read_files.h"
#include "diag/report/report_json.h"
#include "libflare/core/clock.h"

namespace py = pybind11;

namespace flare::bindings {
namespace {

// Owns the job that its report refers to, so it is never moved.
class ReadJob {
 public:
  ReadJob(import::JoinedJob joined, std::string name) : joined_(std::move(joined)) {
    joined_.job.id = joined_.job.name = std::move(name);
    imported_ = std::make_unique<diag::ImportedJob>(
        joined_.job, diag::ImportFacts{joined_.now_unix_ns, joined_.absolute_time, RealtimeNs(),
                                       joined_.notes});
  }
  ReadJob(const ReadJob&) = delete;
  ReadJob& operator=(const ReadJob&) = delete;

  const diag::Job& job() const { return joined_.job; }
  const std::vector<std::string>& paths() const { return joined_.paths; }
  std::string ReportJson() const {
    return diag::JsonText(diag::ReportJson(imported_->report()), -1);
  }

 private:
  import::JoinedJob joined_;
  std::unique_ptr<diag::ImportedJob> imported_;
};

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

// Raises ValueError when a named file cannot be used, or nothing was found.
std::vector<std::shared_ptr<ReadJob>> ReadJobs(const std::vector<std::string>& paths,
                                               const std::string& kind, const std::string& name) {
  std::vector<std::string> errors;
  std::vector<std::shared_ptr<ReadJob>> jobs;
  {
    const py::gil_scoped_release others_run;
    const import::Walk walk = import::WalkPaths(paths);
    import::ReadSettings settings;
    settings.as = kind;
    import::ReadFiles files = import::ReadAllFiles(walk, settings);
    errors = walk.errors;
    errors.insert(errors.end(), files.errors.begin(), files.errors.end());
    if (errors.empty()) {
      std::vector<import::JoinedJob> joined = import::JoinFragments(std::move(files.fragments));
      for (import::JoinedJob& job : joined) {
        for (const auto* notes : {&walk.notes, &files.notes}) {
          job.notes.insert(job.notes.end(), notes->begin(), notes->end());
        }
        const std::string label = job.label.empty() ? name : name + " " + job.label;
        jobs.push_back(std::make_shared<ReadJob>(std::move(job), label));
      }
      if (jobs.empty()) {
        errors = files.notes;
        errors.push_back("nothing here can be imported");
      }
    }
  }
  if (!errors.empty()) throw py::value_error(Joined(errors));
  return jobs;
}

}  // namespace
}  // namespace flare::bindings

PYBIND11_MODULE(_flare, module) {
  using flare::bindings::ReadJob;
  module.attr("version") = FLARE_VERSION;
  py::class_<ReadJob, std::shared_ptr<ReadJob>>(module, "Job")
      .def_property_readonly("paths", &ReadJob::paths)
      .def("report_json", &ReadJob::ReportJson)
      .def("steps", [](const ReadJob& j) { return flare::bindings::StepColumns(j.job()); })
      .def("kernels", [](const ReadJob& j) { return flare::bindings::KernelColumns(j.job()); })
      .def("gemms", [](const ReadJob& j) { return flare::bindings::GemmColumns(j.job()); })
      .def("collectives",
           [](const ReadJob& j) { return flare::bindings::CollectiveColumns(j.job()); })
      .def("waits", [](const ReadJob& j) { return flare::bindings::WaitColumns(j.job()); });
  module.def("read_jobs", &flare::bindings::ReadJobs, py::arg("paths"), py::arg("kind"),
             py::arg("name"));
}
