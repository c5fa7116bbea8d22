// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/segment_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "libflare/core/segment_layout.h"

namespace flare::cli {
namespace {

using HeaderBytes = std::array<char, sizeof(SegmentHeader)>;

template <typename T>
T Field(const HeaderBytes& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::string TextField(const HeaderBytes& bytes, size_t offset, size_t size) {
  return std::string(bytes.data() + offset, strnlen(bytes.data() + offset, size));
}

const char* PartName(size_t part) {
  static constexpr const char* kNames[] = {"gloo", "python", "tensor_layout", "lock"};
  return part < std::size(kNames) ? kNames[part] : nullptr;
}

const char* PartStateName(uint32_t state) {
  static constexpr const char* kNames[] = {"idle", "active", "missing symbol", "unsupported",
                                           "failed"};
  return state < std::size(kNames) ? kNames[state] : "unknown";
}

std::vector<std::string> Parts(const HeaderBytes& bytes) {
  std::vector<std::string> parts;
  for (size_t part = 0; PartName(part) != nullptr; ++part) {
    const auto state =
        Field<uint32_t>(bytes, offsetof(SegmentHeader, part_state) + part * sizeof(uint32_t));
    parts.push_back(std::string(PartName(part)) + " " + PartStateName(state));
  }
  return parts;
}

bool OwnerHoldsLock(int fd) {
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

Status ReadHeader(int fd, HeaderBytes* bytes) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return Status::Error(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Status::Error("not a regular file");
  if (pread(fd, bytes->data(), bytes->size(), 0) != static_cast<ssize_t>(bytes->size())) {
    return Status::Error("cut short");
  }
  if (Field<uint64_t>(*bytes, offsetof(SegmentHeader, magic)) != kSegmentMagic) {
    return Status::Error("not a segment of FLARE");
  }
  return Status::Ok();
}

}  // namespace

SegmentFacts ReadSegmentFacts(const std::string& path) {
  SegmentFacts facts;
  facts.path = path;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) {
    facts.problem = Status::Error(std::strerror(errno));
    return facts;
  }
  HeaderBytes bytes;
  facts.problem = ReadHeader(fd, &bytes);
  facts.owner_lives = facts.problem.ok() && OwnerHoldsLock(fd);
  close(fd);
  if (!facts.problem.ok()) return facts;
  facts.layout_version = Field<uint32_t>(bytes, offsetof(SegmentHeader, version));
  if (facts.layout_version != kSegmentVersion) {
    facts.problem = Status::Error("layout version " + std::to_string(facts.layout_version) +
                                  ", this program knows " + std::to_string(kSegmentVersion));
    return facts;
  }
  facts.job = TextField(bytes, offsetof(SegmentHeader, job), sizeof(SegmentHeader::job));
  facts.library_version = TextField(bytes, offsetof(SegmentHeader, library_version),
                                    sizeof(SegmentHeader::library_version));
  facts.rank = Field<uint32_t>(bytes, offsetof(SegmentHeader, rank));
  facts.world_size = Field<uint32_t>(bytes, offsetof(SegmentHeader, world_size));
  facts.pid = Field<int32_t>(bytes, offsetof(SegmentHeader, pid));
  facts.enabled = Field<uint32_t>(bytes, offsetof(SegmentHeader, enabled)) != 0;
  facts.parts = Parts(bytes);
  return facts;
}

std::vector<SegmentFacts> FindSegments(const std::string& folder) {
  std::vector<SegmentFacts> segments;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".seg")) {
      segments.push_back(ReadSegmentFacts(entry.path().string()));
    } else if (name.starts_with("run-") && !entry.is_symlink(error)) {
      for (SegmentFacts& facts : FindSegments(entry.path().string())) {
        segments.push_back(std::move(facts));
      }
    }
  }
  return segments;
}

}  // namespace flare::cli
