// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to the importers, and what they make of them to joining, detectors and
// reports: all that `flare diagnose` does with a file of somebody else.
//
// Seeds are ordinary files, in one folder for each kind: importer_corpus/<kind>/<name>.
//
// With clang and FLARE_FUZZ=ON a libFuzzer target, for one kind at a time:
//   FLARE_FUZZ_KIND=kineto build-fuzz/tests/importer_fuzz tests/fuzz/importer_corpus/kineto
// Otherwise a program that replays seeds and, with --mutate, changed copies of them:
//   importer_fuzz [--mutate COUNT] [--seed NUMBER] tests/fuzz/importer_corpus/*
//   importer_fuzz --kind kineto FILE
// COUNT changes are made to each seed, the same ones for the same number. An input that crashes or
// takes too long is left as importer_fuzz_input in the working directory.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "diag/engine/imported_job.h"
#include "diag/import/importer.h"
#include "diag/import/join.h"
#include "diag/report/report_json.h"
#include "diag/report/report_text.h"

namespace flare::import {
namespace {

const Importer* FindKind(const std::string& kind) {
  for (const Importer& importer : Importers()) {
    if (kind == importer.kind) return &importer;
  }
  return nullptr;
}

void Diagnose(std::vector<Fragment> fragments) {
  for (JoinedJob& joined : JoinFragments(std::move(fragments))) {
    joined.job.id = joined.job.name = "fuzz";
    const diag::ImportedJob job(joined.job, {joined.now_unix_ns, joined.absolute_time,
                                             1'800'000'000'000'000'000, std::move(joined.notes)});
    diag::JsonText(diag::ReportJson(job.report()), -1);
    diag::RenderReport(job.report(), {});
    diag::StoredStep step;
    for (diag::StepStream steps = job.Steps(); steps(&step);) continue;
  }
}

// The same file as two ranks, as one folder may hold them.
void RunOne(const Importer& importer, const std::string& bytes) {
  InputLimits limits;
  limits.max_bytes = 64 << 20;
  const auto input = Input::FromMemory("rank0", bytes, limits);
  for (const Importer& other : Importers()) other.recognise(input->head());
  Result<Fragment> fragment = ReadWith(importer, input.get());
  if (!fragment.ok()) return;
  std::vector<Fragment> fragments = {*fragment, std::move(*fragment)};
  fragments[1].path = "rank1";
  for (RankFragment& rank : fragments[1].ranks) {
    if (rank.rank) ++rank.rank->value;
  }
  Diagnose(std::move(fragments));
}

}  // namespace
}  // namespace flare::import

#ifdef FLARE_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flare::import;
  static const Importer* const importer = [] {
    const char* kind = std::getenv("FLARE_FUZZ_KIND");
    const Importer* found = kind ? FindKind(kind) : nullptr;
    if (!found) {
      std::fprintf(stderr, "FLARE_FUZZ_KIND names no kind of file\n");
      std::exit(1);
    }
    return found;
  }();
  RunOne(*importer, std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
#else
// Set by sanitizers; absent without them.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace flare::import {
namespace {

constexpr std::chrono::seconds kTooLong(10);

std::string current;  // the input that runs

void LeaveInput() {
  const int fd = open("importer_fuzz_input", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, current.data(), current.size()) < 0) return;
  constexpr char kSaid[] = "importer_fuzz: the input is in importer_fuzz_input\n";
  if (write(STDERR_FILENO, kSaid, sizeof(kSaid) - 1) < 0) return;
}

void OnSignal(int signal) {
  LeaveInput();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// xorshift64*: the same on every machine.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t Below(uint64_t limit) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return limit == 0 ? 0 : state_ * 0x2545f4914f6cdd1d % limit;
  }

 private:
  uint64_t state_;
};

// What breaks readers: limits of integers, numbers that are none, brackets, ends of strings.
constexpr const char* kWords[] = {"-1",
                                  "0",
                                  "18446744073709551615",
                                  "9223372036854775808",
                                  "-9223372036854775809",
                                  "1e308",
                                  "NaN",
                                  "null",
                                  "4294967296",
                                  "\"",
                                  "\\",
                                  "[[[[[[[[",
                                  "{}{}",
                                  "]",
                                  "}",
                                  "\n",
                                  "\xff\xfe",
                                  "\xc3",
                                  "\\u0000",
                                  "\\ud800",
                                  ":",
                                  ",",
                                  "1e-400",
                                  "  "};

void ChangeOnce(Chance* chance, std::string* bytes) {
  const size_t at = chance->Below(bytes->size() + 1);
  const size_t length = 1 + chance->Below(chance->Below(4) == 0 ? bytes->size() + 1 : 16);
  switch (chance->Below(8)) {
    case 0:
      if (at < bytes->size()) (*bytes)[at] ^= static_cast<char>(1 << chance->Below(8));
      break;
    case 1:
      if (at < bytes->size()) (*bytes)[at] = static_cast<char>(chance->Below(256));
      break;
    case 2:
      bytes->erase(at, length);
      break;
    case 3:  // says something twice
      bytes->insert(at, bytes->substr(chance->Below(bytes->size() + 1), length));
      break;
    case 4:
      bytes->insert(at, kWords[chance->Below(std::size(kWords))]);
      break;
    case 5: {  // another number in the place of one
      size_t begin = bytes->find_first_of("0123456789", at);
      if (begin == std::string::npos) break;
      const size_t end = bytes->find_first_not_of("0123456789.", begin);
      bytes->replace(begin, std::min(end, bytes->size()) - begin,
                     kWords[chance->Below(std::size(kWords))]);
      break;
    }
    case 6:
      if (chance->Below(4) == 0) bytes->resize(at);
      break;
    case 7:
      bytes->replace(std::min(at, bytes->size()), length,
                     bytes->substr(chance->Below(bytes->size() + 1), length));
      break;
  }
}

bool RunWatched(const Importer& importer, std::string bytes) {
  current = std::move(bytes);
  const auto begin = std::chrono::steady_clock::now();
  RunOne(importer, current);
  if (std::chrono::steady_clock::now() - begin < kTooLong) return true;
  std::fprintf(stderr, "importer_fuzz: %s: an input takes too long\n", importer.kind);
  LeaveInput();
  return false;
}

std::string Content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool RunSeed(const Importer& importer, const std::filesystem::path& path, uint64_t mutations,
             uint64_t seed) {
  const std::string original = Content(path);
  if (!RunWatched(importer, original)) return false;
  Chance chance(seed * 1'000'003 + original.size());
  for (uint64_t i = 0; i < mutations; ++i) {
    std::string changed = original;
    for (uint64_t changes = 1 + chance.Below(8); changes > 0; --changes) {
      ChangeOnce(&chance, &changed);
    }
    if (changed.size() > original.size() * 4 + 4096) changed.resize(original.size() * 4 + 4096);
    if (!RunWatched(importer, std::move(changed))) return false;
  }
  return true;
}

struct Arguments {
  std::string kind;
  uint64_t mutations = 0;
  uint64_t seed = 1;
  std::vector<std::filesystem::path> paths;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--kind") {
      arguments.kind = next, ++i;
    } else if (word == "--mutate") {
      arguments.mutations = std::strtoull(next.c_str(), nullptr, 10), ++i;
    } else if (word == "--seed") {
      arguments.seed = std::strtoull(next.c_str(), nullptr, 10), ++i;
    } else {
      arguments.paths.push_back(word);
    }
  }
  return arguments;
}

int Run(const Arguments& arguments) {
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(LeaveInput);
  } else {
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(signal, OnSignal);
  }
  size_t seeds = 0;
  for (const std::filesystem::path& path : arguments.paths) {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::directory_iterator(path)) {
        files.push_back(entry.path());
      }
    } else {
      files.push_back(path);
    }
    std::sort(files.begin(), files.end());
    const std::string kind = arguments.kind.empty() ? path.filename().string() : arguments.kind;
    const Importer* importer = FindKind(kind);
    if (!importer) {
      std::fprintf(stderr, "importer_fuzz: no kind %s\n", kind.c_str());
      return 1;
    }
    for (const std::filesystem::path& file : files) {
      if (!RunSeed(*importer, file, arguments.mutations, arguments.seed)) return 1;
      ++seeds;
    }
  }
  std::printf("%zu seeds, %llu changes of each\n", seeds,
              static_cast<unsigned long long>(arguments.mutations));
  return seeds > 0 ? 0 : 1;
}

}  // namespace
}  // namespace flare::import

int main(int argc, char** argv) { return flare::import::Run(flare::import::Parse(argc, argv)); }
#endif
