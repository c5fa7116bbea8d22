// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/read_jobs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "diag/cli/read_progress.h"
#include "diag/import/importer.h"
#include "diag/import/read_files.h"
#include "diag/import/walk.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

namespace fs = std::filesystem;

std::string KindList() {
  std::string list;
  for (const import::Importer& importer : import::Importers()) {
    list += (list.empty() ? "" : ",") + std::string(importer.kind);
  }
  return list;
}

std::string KindHelp() {
  std::string help = "\nKinds of files, told by their content:";
  for (const import::Importer& importer : import::Importers()) {
    std::string kind = importer.kind;
    kind.resize(std::max<size_t>(kind.size(), 18), ' ');
    help += "\n  " + kind + " " + importer.title;
  }
  return help;
}

std::string CheckKind(const std::string& kind) {
  for (const import::Importer& importer : import::Importers()) {
    if (kind == importer.kind) return "";
  }
  return kind + " is none of " + KindList();
}

// The name of a file without what tells how it is written: "train.pt.trace.json.gz" is "train".
std::string Stem(const std::string& name) {
  const size_t dot = name.find('.', 1);
  return dot == std::string::npos ? name : name.substr(0, dot);
}

void Complain(const std::string& message) { Fail(diag::Printable(message, 2000)); }

uint64_t TotalBytes(const import::Walk& walk) {
  uint64_t bytes = 0;
  for (const import::FoundFile& file : walk.files) bytes += file.bytes;
  return bytes;
}

}  // namespace

void AddFileOptions(CLI::App* app, FileOptions* options) {
  app->add_option("PATH", options->paths, "Files, or folders with the files of all ranks")
      ->required()
      ->type_name("PATH");
  CLI::Option* as = app->add_option("--as", options->as, "Take every file for this kind");
  if (!import::Importers().empty()) as->check(CLI::Validator(CheckKind, "{" + KindList() + "}"));
  app->add_option("--name", options->name, "Name of the job; default: of the file or folder")
      ->type_name("NAME");
  app->footer(app->get_footer() + "\n" + KindHelp());
}

std::string NameOfPaths(const std::vector<std::string>& paths) {
  std::error_code error;
  std::string name;
  if (paths.size() == 1) {
    fs::path path = fs::weakly_canonical(paths[0], error);
    if (error) path = paths[0];
    name = path.filename().string();
    if (!fs::is_directory(path, error)) name = Stem(name);
  } else if (!paths.empty()) {
    const fs::path first = fs::weakly_canonical(paths[0], error);
    name = first.parent_path().filename().string();
  }
  return name.empty() ? "import" : name;
}

Result<ReadJobs> ReadJobsAloud(const FileOptions& options, int* exit_code) {
  const import::Walk walk = import::WalkPaths(options.paths);
  import::ReadWatch watch;
  import::ReadSettings settings;
  settings.as = options.as;
  settings.watch = &watch;
  import::ReadFiles files;
  {
    const ReadProgress progress(&watch, walk.files.size(), TotalBytes(walk));
    files = import::ReadAllFiles(walk, settings);
  }
  if (watch.stop) {
    *exit_code = kExitInterrupted;
    return Status::Error("interrupted");
  }
  ReadJobs read;
  for (const std::string& error : files.errors) Complain(error);
  read.errors = files.errors.size();
  if (files.fragments.empty()) {
    for (const std::string& note : files.notes) Complain(note);
    if (files.errors.empty()) Complain("nothing there that can be imported");
    *exit_code = kExitError;
    return Status::Error("nothing to import");
  }
  read.jobs = import::JoinFragments(std::move(files.fragments));
  const std::string name = options.name.empty() ? NameOfPaths(options.paths) : options.name;
  for (import::JoinedJob& joined : read.jobs) {
    joined.job.name = joined.label.empty() ? name : name + "/" + joined.label;
    joined.notes.insert(joined.notes.end(), files.notes.begin(), files.notes.end());
  }
  return read;
}

}  // namespace flare::cli
