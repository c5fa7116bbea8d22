// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/preload.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "diag/cli/private_dir.h"
#include "diag/cli/probe.h"
#include "diag/cli/segment_facts.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

constexpr int kProbeTimeoutMs = 10'000;
constexpr const char* kLibraryName = "libflare.so";

std::string FirstLine(const std::string& text) {
  return diag::Printable(text.substr(0, text.find('\n')), 300);
}

Status Judge(const ProbeResult& result) {
  if (result.timed_out) return Status::Error("'true' did not end within 10 s under it");
  if (result.exit_status > 128) {
    return Status::Error("'true' died of signal " + std::to_string(result.exit_status - 128) +
                         " under it");
  }
  if (result.exit_status != 0) {
    return Status::Error("'true' failed with status " + std::to_string(result.exit_status) +
                         " under it: " + FirstLine(result.output));
  }
  if (!result.output.empty()) return Status::Error(FirstLine(result.output));
  return Status::Ok();
}

}  // namespace

Result<std::string> FindLibrary() {
  if (const char* chosen = std::getenv("FLARE_PRELOAD"); chosen != nullptr && *chosen != 0) {
    if (access(chosen, R_OK) == 0) return std::filesystem::absolute(chosen).string();
    return Status::Error(std::string("FLARE_PRELOAD=") + chosen + ": " + std::strerror(errno));
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Status::Error("/proc/self/exe: " + error.message());
  const std::filesystem::path root = program.parent_path().parent_path();
  for (const char* folder : {"lib", FLARE_INSTALL_LIBDIR, "lib64", "lib/flare"}) {
    const std::string path = (root / folder / kLibraryName).string();
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return Status::Error(std::string(kLibraryName) + " is not below " + root.string() +
                       "; set FLARE_PRELOAD to its path");
}

// Ours goes last. Allocators (jemalloc, tcmalloc) and sanitizers must come first to take effect or
// to start at all, and we need only stand before the libraries of the program, which always follow.
std::string PreloadValue(const std::string& existing, const std::string& library) {
  std::string padded = existing;
  for (char& c : padded) {
    if (c == ':') c = ' ';
  }
  std::istringstream entries(padded);
  for (std::string entry; entries >> entry;) {
    if (entry == library) return existing;
  }
  return existing.empty() ? library : existing + ":" + library;
}

Status TryPreload(const std::string& value) {
  // Inert by intent: what wakes libflare is taken away, and a job that is run by hand in a rank
  // must not get a segment for `true`.
  const Variable asleep[] = {{"FLARE_FORCE", ""}, {"FLARE_LOG", ""}};
  const Result<ProbeResult> armed =
      RunProbe({"true"}, {asleep[0], asleep[1], {"LD_PRELOAD", value}}, kProbeTimeoutMs);
  if (!armed.ok()) return armed.status();
  const Status verdict = Judge(*armed);
  if (verdict.ok()) return verdict;
  const Result<ProbeResult> bare = RunProbe({"true"}, {asleep[0], asleep[1]}, kProbeTimeoutMs);
  return bare.ok() && *bare == *armed ? Status::Ok() : verdict;
}

Status TryWaking(const std::string& value) {
  const std::string base = DefaultSegmentDir();
  if (Status status = MakePrivateDir(base); !status.ok()) return status;
  std::string folder = base + "/doctor-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return Status::Error(base + ": " + std::strerror(errno));
  const Result<ProbeResult> result = RunProbe({"true"},
                                              {{"LD_PRELOAD", value},
                                               {"FLARE_FORCE", "1"},
                                               {"FLARE_DISABLE", ""},
                                               {"FLARE_DIR", folder},
                                               {"FLARE_JOB", "doctor"}},
                                              kProbeTimeoutMs);
  Status verdict = result.ok() ? Judge(*result) : result.status();
  if (verdict.ok()) {
    const std::vector<SegmentFacts> segments = FindSegments(folder);
    if (segments.empty()) {
      verdict = Status::Error("libflare was loaded but left no segment in " + base);
    } else {
      verdict = segments.front().problem;
    }
  }
  RemoveTree(folder);
  return verdict;
}

}  // namespace flare::cli
