// SPDX-License-Identifier: Apache-2.0
#include "daemon/uplink/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/uplink/crc32c.h"

namespace flare::daemon {
namespace {

constexpr size_t kHeadBytes = 16;  // length, CRC, sequence
constexpr uint32_t kMaxPayload = 16u << 20;
constexpr const char* kSuffix = ".spool";

Status ErrnoStatus(const std::string& what) {
  return Status::Error(what + ": " + std::strerror(errno));
}

bool ReadAll(int fd, uint64_t offset, void* out, size_t count) {
  auto* p = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t n = pread(fd, p, count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    offset += static_cast<uint64_t>(n);
    count -= static_cast<size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const char* p, size_t count) {
  while (count > 0) {
    const ssize_t n = write(fd, p, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    count -= static_cast<size_t>(n);
  }
  return true;
}

uint32_t RecordCrc(uint32_t length, uint64_t sequence, const char* payload) {
  uint32_t crc = Crc32c(&length, sizeof(length));
  crc = Crc32c(&sequence, sizeof(sequence), crc);
  return Crc32c(payload, length, crc);
}

std::string ReadText(int directory_fd, const char* name) {
  const int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return {};
  char text[64];
  const ssize_t n = read(fd, text, sizeof(text));
  close(fd);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : std::string();
}

// Replaces a small file as a whole; a reader sees the old text or the new one.
bool WriteText(int directory_fd, const char* name, const std::string& text, bool durable) {
  const std::string temporary = std::string(name) + ".new";
  const int fd = openat(directory_fd, temporary.c_str(),
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  const bool ok = WriteAll(fd, text.data(), text.size()) && (!durable || fsync(fd) == 0);
  close(fd);
  return ok && renameat(directory_fd, temporary.c_str(), directory_fd, name) == 0;
}

bool ParseSequence(std::string_view text, uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

std::string NewDaemonId() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) return {};
  std::string id;
  char hex[3];
  for (const unsigned char b : bytes) {
    std::snprintf(hex, sizeof(hex), "%02x", b);
    id += hex;
  }
  return id;
}

}  // namespace

Spool::Spool(std::string directory, Options options)
    : directory_(std::move(directory)), options_(options) {}

Spool::~Spool() {
  if (write_fd_ >= 0) close(write_fd_);
  if (lock_fd_ >= 0) close(lock_fd_);
  if (directory_fd_ >= 0) close(directory_fd_);
}

Result<std::unique_ptr<Spool>> Spool::Open(const std::string& directory, Options options) {
  std::unique_ptr<Spool> spool(new Spool(directory, options));
  Status status = spool->Load();
  if (!status.ok()) return status.Prefixed("spool " + directory);
  return spool;
}

Status Spool::Load() {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  directory_fd_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd_ < 0) return ErrnoStatus("cannot open");
  lock_fd_ = openat(directory_fd_, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_fd_ < 0) return ErrnoStatus("cannot make its lock file");
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) return Status::Error("in use by another daemon");
  Status status = LoadIdentity();
  if (!status.ok()) return status;

  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory_.c_str()), closedir);
  if (entries == nullptr) return ErrnoStatus("cannot list");
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    File file;
    if (!name.ends_with(kSuffix) ||
        !ParseSequence(name.substr(0, name.size() - std::strlen(kSuffix)), &file.first_sequence) ||
        file.first_sequence == 0) {
      continue;
    }
    file.path = std::string(name);
    files_.push_back(file);
  }
  std::sort(files_.begin(), files_.end(),
            [](const File& a, const File& b) { return a.first_sequence < b.first_sequence; });
  for (uint64_t i = 0; i < files_.size(); ++i) {
    status = LoadFile(i, &files_[i]);
    if (!status.ok()) return status.Prefixed(files_[i].path);
  }
  next_sequence_ = std::max(next_sequence_, acknowledged_ + 1);
  while (!records_.empty() && records_.front().sequence <= acknowledged_) records_.pop_front();
  status = BeginFile();
  if (status.ok()) RemoveAcknowledgedFiles();
  return status;
}

Status Spool::LoadIdentity() {
  const std::string id = ReadText(directory_fd_, "daemon_id");
  const bool valid = id.size() == 32 && id.find_first_not_of("0123456789abcdef") == id.npos;
  daemon_id_ = valid ? id : NewDaemonId();
  if (daemon_id_.empty()) return Status::Error("no randomness for an identity");
  if (!valid && !WriteText(directory_fd_, "daemon_id", daemon_id_, true)) {
    return ErrnoStatus("cannot write");
  }
  ParseSequence(ReadText(directory_fd_, "acknowledged"), &acknowledged_);
  return Status::Ok();
}

Status Spool::LoadFile(uint64_t number, File* file) {
  const int fd = openat(directory_fd_, file->path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return ErrnoStatus("cannot open");
  struct stat st;
  if (fstat(fd, &st) != 0) {
    close(fd);
    return ErrnoStatus("cannot stat");
  }
  const auto size = static_cast<uint64_t>(st.st_size);
  uint64_t offset = 0;
  file->last_sequence = file->first_sequence - 1;
  next_sequence_ = std::max(next_sequence_, file->first_sequence);
  std::string payload;
  while (offset + kHeadBytes <= size) {
    uint32_t length = 0, crc = 0;
    uint64_t sequence = 0;
    char head[kHeadBytes];
    if (!ReadAll(fd, offset, head, sizeof(head))) break;
    std::memcpy(&length, head, 4);
    std::memcpy(&crc, head + 4, 4);
    std::memcpy(&sequence, head + 8, 8);
    if (length > kMaxPayload || offset + kHeadBytes + length > size) break;
    payload.resize(length);
    if (!ReadAll(fd, offset + kHeadBytes, payload.data(), length)) break;
    if (RecordCrc(length, sequence, payload.data()) != crc || sequence < next_sequence_) break;
    records_.push_back({sequence, number, offset, length});
    file->last_sequence = sequence;
    next_sequence_ = sequence + 1;
    offset += kHeadBytes + length;
  }
  if (offset < size) {
    damaged_bytes_ += size - offset;
    if (ftruncate(fd, static_cast<off_t>(offset)) != 0) {
      close(fd);
      return ErrnoStatus("cannot cut a damaged end");
    }
  }
  file->bytes = offset;
  close(fd);
  return Status::Ok();
}

Status Spool::BeginFile() {
  if (write_fd_ >= 0) {
    // What it holds must be durable before the next file can be.
    fdatasync(write_fd_);
    close(write_fd_);
    write_fd_ = -1;
  }
  char name[40];
  std::snprintf(name, sizeof(name), "%020" PRIu64 "%s", next_sequence_, kSuffix);
  const bool reuse = !files_.empty() && files_.back().path == name;
  write_fd_ =
      openat(directory_fd_, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (write_fd_ < 0) return ErrnoStatus(std::string("cannot make ") + name);
  if (!reuse) files_.push_back({name, next_sequence_, next_sequence_ - 1, 0});
  return SyncDirectory();
}

Result<uint64_t> Spool::Append(const std::string& payload) {
  if (payload.size() > kMaxPayload) return Status::Error("batch too large for the spool");
  const uint64_t need = kHeadBytes + payload.size();
  while (bytes() + need > options_.max_bytes && files_.size() > 1) RemoveOldestFile(true);
  Status status;
  if (write_fd_ < 0 || files_.back().bytes + need > options_.file_bytes) {
    if (write_fd_ < 0 || files_.back().bytes > 0) status = BeginFile();
  }
  if (status.ok()) status = WriteRecord(payload);
  if (!status.ok() && files_.size() > 1) {
    RemoveOldestFile(true);
    status = WriteRecord(payload);
  }
  if (!status.ok()) return status;
  return next_sequence_ - 1;
}

Status Spool::WriteRecord(const std::string& payload) {
  if (write_fd_ < 0) return Status::Error("no file to write to");
  File& file = files_.back();
  const auto length = static_cast<uint32_t>(payload.size());
  const uint32_t crc = RecordCrc(length, next_sequence_, payload.data());
  std::string record(kHeadBytes, '\0');
  std::memcpy(record.data(), &length, 4);
  std::memcpy(record.data() + 4, &crc, 4);
  std::memcpy(record.data() + 8, &next_sequence_, 8);
  record += payload;
  if (!WriteAll(write_fd_, record.data(), record.size())) {
    const Status status = ErrnoStatus("cannot write");
    // Half a record must not stand before a whole one.
    if (ftruncate(write_fd_, static_cast<off_t>(file.bytes)) != 0) {
      close(write_fd_);
      write_fd_ = -1;
    }
    return status;
  }
  records_.push_back({next_sequence_, files_removed_ + files_.size() - 1, file.bytes, length});
  file.bytes += record.size();
  file.last_sequence = next_sequence_++;
  return Status::Ok();
}

Status Spool::Sync() {
  if (write_fd_ >= 0 && fdatasync(write_fd_) != 0) return ErrnoStatus("cannot sync");
  return Status::Ok();
}

void Spool::Acknowledge(uint64_t sequence) {
  sequence = std::min(sequence, next_sequence_ - 1);
  if (sequence <= acknowledged_) return;
  acknowledged_ = sequence;
  while (!records_.empty() && records_.front().sequence <= sequence) records_.pop_front();
  // Not synced: after a crash an older number only means that the engine gets to see, and to
  // acknowledge again, what it has.
  WriteText(directory_fd_, "acknowledged", std::to_string(sequence), false);
  RemoveAcknowledgedFiles();
}

void Spool::RemoveAcknowledgedFiles() {
  while (files_.size() > 1 && files_.front().last_sequence <= acknowledged_) {
    RemoveOldestFile(false);
  }
}

void Spool::RemoveOldestFile(bool lost) {
  const uint64_t number = files_removed_;
  while (!records_.empty() && records_.front().file == number) {
    if (lost) {
      Result<std::string> payload = ReadPlace(records_.front());
      lost_.push_back(payload.ok() ? *payload : std::string());
    }
    records_.pop_front();
  }
  unlinkat(directory_fd_, files_.front().path.c_str(), 0);
  files_.pop_front();
  ++files_removed_;
}

bool Spool::HasAfter(uint64_t sequence) const {
  return !records_.empty() && records_.back().sequence > sequence;
}

Result<Spool::Record> Spool::ReadAfter(uint64_t sequence) {
  while (true) {
    const auto it = std::upper_bound(
        records_.begin(), records_.end(), sequence,
        [](uint64_t wanted, const Place& place) { return wanted < place.sequence; });
    if (it == records_.end()) return Status::Error("no such record");
    Result<std::string> payload = ReadPlace(*it);
    if (payload.ok()) return Record{it->sequence, std::move(payload).value()};
    // Damaged since it was written: gone for good, so that those behind it can go.
    lost_.emplace_back();
    records_.erase(it);
  }
}

Result<std::string> Spool::ReadPlace(const Place& place) const {
  const File& file = files_[place.file - files_removed_];
  const int fd = openat(directory_fd_, file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return ErrnoStatus("cannot open " + file.path);
  std::string record(kHeadBytes + place.length, '\0');
  const bool ok = ReadAll(fd, place.offset, record.data(), record.size());
  close(fd);
  if (!ok) return Status::Error("cannot read a record of " + file.path);
  uint32_t crc = 0;
  std::memcpy(&crc, record.data() + 4, 4);
  if (RecordCrc(place.length, place.sequence, record.data() + kHeadBytes) != crc) {
    return Status::Error("damaged record in " + file.path);
  }
  return record.substr(kHeadBytes);
}

Status Spool::SyncDirectory() {
  return fsync(directory_fd_) == 0 ? Status::Ok() : ErrnoStatus("cannot sync the directory");
}

uint64_t Spool::bytes() const {
  uint64_t sum = 0;
  for (const File& file : files_) sum += file.bytes;
  return sum;
}

std::vector<std::string> Spool::TakeLost() { return std::exchange(lost_, {}); }

}  // namespace flare::daemon
