// SPDX-License-Identifier: Apache-2.0
// Checks of `flare doctor PID`: why one process is traced or not.
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>

#include "diag/cli/atomic_file.h"
#include "diag/cli/doctor_check.h"
#include "diag/cli/process_identity.h"
#include "diag/cli/segment_facts.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

// The process as /proc shows it.
struct Subject {
  int pid = 0;
  std::string proc;         // "/proc/4711"
  std::string environment;  // NAME=value, each ended by a zero; as it was at exec
  std::string maps;
};

std::optional<std::string> Variable(const Subject& subject, const std::string& name) {
  std::istringstream entries(subject.environment);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

bool Mapped(const Subject& subject, const char* what) {
  return subject.maps.find(what) != std::string::npos;
}

// Reads just enough of the program: a static one has no interpreter.
struct Program {
  bool readable = false;
  bool elf64 = false;
  bool dynamic = false;
  bool raised = false;  // set-uid or set-gid
};

Program InspectProgram(const Subject& subject) {
  Program program;
  const int fd = open((subject.proc + "/exe").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return program;
  struct stat info {};
  Elf64_Ehdr header{};
  program.readable = fstat(fd, &info) == 0 &&
                     pread(fd, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header));
  program.raised = (info.st_mode & (S_ISUID | S_ISGID)) != 0;
  program.elf64 =
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64;
  for (int i = 0; program.elf64 && i < std::min<int>(header.e_phnum, 128); ++i) {
    Elf64_Phdr segment{};
    const off_t at = static_cast<off_t>(header.e_phoff) + i * off_t{header.e_phentsize};
    if (pread(fd, &segment, sizeof(segment), at) != static_cast<ssize_t>(sizeof(segment))) break;
    if (segment.p_type == PT_INTERP) program.dynamic = true;
  }
  close(fd);
  return program;
}

Check Answer(CheckLevel level, const std::string& name, const std::string& text,
             const std::string& remedy = "") {
  return {name, level, text, remedy};
}

std::optional<Check> NotLoadable(const Program& program) {
  if (!program.readable) return std::nullopt;
  if (!program.elf64) {
    return Answer(CheckLevel::kProblem, "program", "it is not a 64-bit program",
                  "only 64-bit programs can be traced");
  }
  if (!program.dynamic) {
    return Answer(CheckLevel::kProblem, "program",
                  "it is statically linked, so nothing can be preloaded into it",
                  "use a dynamically linked build");
  }
  if (program.raised) {
    return Answer(CheckLevel::kProblem, "program",
                  "it is set-uid or set-gid, so the system ignores LD_PRELOAD",
                  "start the job without changing user");
  }
  return std::nullopt;
}

// Why libflare is not in the process at all.
Check NotMapped(const Subject& subject) {
  const std::string preload = Variable(subject, "LD_PRELOAD").value_or("");
  if (preload.find("libflare") == std::string::npos) {
    return Answer(CheckLevel::kProblem, "preload",
                  "it was started without libflare.so in LD_PRELOAD",
                  "start the job with 'flare run -- COMMAND', or set LD_PRELOAD in its template; "
                  "containers and sudo drop it from the environment");
  }
  return Answer(CheckLevel::kProblem, "preload",
                "LD_PRELOAD names libflare.so but it is not loaded: " + preload,
                "check that the path exists inside the container of the process and can be read");
}

struct RankVariables {
  const char* rank;
  const char* size;
  const char* launcher;
};
constexpr RankVariables kRankVariables[] = {
    {"RANK", "WORLD_SIZE", "torchrun"},
    {"SLURM_PROCID", "SLURM_NTASKS", "Slurm"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"},
    {"PMI_RANK", "PMI_SIZE", "PMI"},
};

std::optional<std::string> RankWords(const Subject& subject) {
  for (const RankVariables& names : kRankVariables) {
    const auto rank = Variable(subject, names.rank);
    const auto size = Variable(subject, names.size);
    if (rank && size) {
      return "rank " + diag::Printable(*rank, 20) + " of " + diag::Printable(*size, 20) + " by " +
             names.launcher;
    }
  }
  if (Variable(subject, "FLARE_FORCE")) return "woken by FLARE_FORCE";
  return std::nullopt;
}

std::string SegmentFolderOf(const Subject& subject) {
  const auto chosen = Variable(subject, "FLARE_DIR");
  if (chosen && !chosen->empty()) return *chosen;
  struct stat info {};
  const bool known = stat(subject.proc.c_str(), &info) == 0;
  return "/dev/shm/flare-" + std::to_string(known ? info.st_uid : geteuid());
}

std::optional<std::string> KillSwitch(const Subject& subject, const std::string& folder) {
  const auto disable = Variable(subject, "FLARE_DISABLE");
  if (disable && !disable->empty() && *disable != "0") return "FLARE_DISABLE=" + *disable;
  // Through /proc/PID/root: the process may see other files than we do.
  for (const std::string& path : {folder + "/disable", std::string("/run/flare/disable")}) {
    if (access((subject.proc + "/root" + path).c_str(), F_OK) == 0) return "the file " + path;
  }
  return std::nullopt;
}

void CheckSegment(const Subject& subject, const std::string& folder, std::vector<Check>* checks) {
  const std::vector<SegmentFacts> segments = FindSegments(subject.proc + "/root" + folder);
  const auto own = std::find_if(segments.begin(), segments.end(), [&](const SegmentFacts& s) {
    return s.problem.ok() && s.pid == subject.pid;
  });
  if (own != segments.end()) {
    std::string parts;
    for (const std::string& part : own->parts) parts += (parts.empty() ? "" : ", ") + part;
    checks->push_back(Answer(own->enabled ? CheckLevel::kOk : CheckLevel::kProblem, "segment",
                             std::string(own->enabled ? "it is traced" : "it is switched off") +
                                 " as rank " + std::to_string(own->rank) + " of " + own->job +
                                 " (" + parts + ")",
                             own->enabled ? "" : "flare switch " + own->job + " on"));
    return;
  }
  if (!Mapped(subject, "libtorch") && !Mapped(subject, "libgloo")) {
    checks->push_back(Answer(CheckLevel::kNote, "segment",
                             "it is asleep: it has not loaded PyTorch or called a traced library",
                             "nothing to do; FLARE_FORCE=1 wakes it at once"));
    return;
  }
  checks->push_back(
      Answer(CheckLevel::kProblem, "segment", "it should be traced but has no segment in " + folder,
             "see 'flare doctor' for shared memory; FLARE_LOG=FILE in its environment "
             "makes libflare say why"));
}

}  // namespace

std::vector<Check> CheckProcess(int pid) {
  Subject subject;
  subject.pid = pid;
  subject.proc = "/proc/" + std::to_string(pid);
  std::vector<Check> checks;
  if (!IdentifyProcess(pid)) {
    checks.push_back(Answer(CheckLevel::kProblem, "process",
                            "there is no process " + std::to_string(pid) + " to be seen",
                            "check the number; in a container, use the number seen there"));
    return checks;
  }
  const Result<std::string> environment = ReadSmallFile(subject.proc + "/environ", 4 << 20);
  const Result<std::string> maps = ReadSmallFile(subject.proc + "/maps", 64 << 20);
  if (!environment.ok() || !maps.ok()) {
    checks.push_back(Answer(
        CheckLevel::kProblem, "process",
        "it cannot be inspected: " + (environment.ok() ? maps : environment).status().message(),
        "run 'flare doctor' as its user or as root"));
    return checks;
  }
  subject.environment = *environment;
  subject.maps = *maps;
  if (!Mapped(subject, "libflare")) {
    checks.push_back(NotLoadable(InspectProgram(subject)).value_or(NotMapped(subject)));
    return checks;
  }
  checks.push_back(Answer(CheckLevel::kOk, "preload", "libflare.so is loaded"));
  const std::string folder = SegmentFolderOf(subject);
  if (const auto off = KillSwitch(subject, folder)) {
    checks.push_back(Answer(CheckLevel::kProblem, "kill_switch", *off + " switches tracing off",
                            "remove it and restart the process"));
    return checks;
  }
  const auto rank = RankWords(subject);
  if (!rank) {
    checks.push_back(Answer(CheckLevel::kNote, "rank",
                            "it is asleep: no rank variable is set, so it is no training process",
                            "nothing to do for a launcher or a shell; FLARE_FORCE=1 wakes it"));
    return checks;
  }
  checks.push_back(Answer(CheckLevel::kOk, "rank", *rank));
  CheckSegment(subject, folder, &checks);
  return checks;
}

}  // namespace flare::cli
