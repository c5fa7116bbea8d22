// SPDX-License-Identifier: Apache-2.0
#include "diag/import/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "diag/import/byte_source.h"

namespace flare::import {
namespace {

constexpr uint64_t kRatioFrom = 64 << 20;

}  // namespace

Input::Input(std::string name, std::string path, const InputLimits& limits, ReadWatch* watch)
    : name_(std::move(name)), path_(std::move(path)), limits_(limits), watch_(watch) {}

Input::~Input() {
  if (!copy_path_.empty()) unlink(copy_path_.c_str());
}

Result<std::unique_ptr<Input>> Input::Open(const std::string& path, const InputLimits& limits,
                                           ReadWatch* watch) {
  std::unique_ptr<Input> input(new Input(path, path, limits, watch));
  const Status status = input->Restart();
  if (!status.ok()) return status.Prefixed(path);
  return input;
}

std::unique_ptr<Input> Input::FromMemory(std::string name, std::string bytes,
                                         const InputLimits& limits) {
  std::unique_ptr<Input> input(new Input(std::move(name), "", limits, nullptr));
  input->memory_ = std::move(bytes);
  // What is wrong with packed bytes shows again in Next().
  (void)input->Restart();
  return input;
}

Status Input::Restart() {
  std::unique_ptr<ByteSource> raw;
  if (path_.empty()) {
    raw = ReadMemory(memory_);
  } else {
    Result<std::unique_ptr<ByteSource>> file = OpenFile(path_);
    if (!file.ok()) return file.status();
    raw = std::move(file).value();
  }
  Result<std::unique_ptr<ByteSource>> plain = Unpack(std::move(raw));
  if (!plain.ok()) return plain.status();
  source_ = std::move(plain).value();
  plain_bytes_ = 0;
  head_given_ = false;
  head_error_ = Status::Ok();
  head_.clear();
  return ReadHead();
}

// An error in the head is kept for Next(): the bytes before it may still tell the kind.
Status Input::ReadHead() {
  std::string head(kHeadBytes, '\0');
  size_t have = 0;
  while (have < head.size()) {
    const Result<size_t> got = source_->Read(head.data() + have, head.size() - have);
    if (!got.ok()) {
      head_error_ = got.status();
      break;
    }
    if (*got == 0) break;
    have += *got;
  }
  head.resize(have);
  head_ = std::move(head);
  return have == 0 ? head_error_ : Status::Ok();
}

Status Input::CheckLimits(size_t more) {
  plain_bytes_ += more;
  if (plain_bytes_ > limits_.max_bytes) {
    return Status::Error("unpacks to more than " + std::to_string(limits_.max_bytes >> 20) +
                         " MiB");
  }
  const uint64_t raw = source_->raw_bytes();
  if (plain_bytes_ > kRatioFrom && plain_bytes_ / limits_.max_ratio > raw) {
    return Status::Error("unpacks to more than " + std::to_string(limits_.max_ratio) +
                         " times its size: not a trace but a bomb");
  }
  return Status::Ok();
}

void Input::CountRaw() {
  const uint64_t raw = source_->raw_bytes();
  if (watch_ == nullptr || raw <= counted_raw_) return;
  watch_->raw_bytes += raw - counted_raw_;
  counted_raw_ = raw;
}

Result<std::string_view> Input::Next() {
  if (watch_ != nullptr && watch_->stop) return Status::Error(name_ + ": interrupted");
  if (!head_given_) {
    head_given_ = true;
    plain_bytes_ = head_.size();
    if (!head_.empty()) return std::string_view(head_);
  }
  if (!head_error_.ok()) return head_error_.Prefixed(name_);
  chunk_.resize(kChunkBytes);
  const Result<size_t> got = source_->Read(chunk_.data(), chunk_.size());
  CountRaw();
  if (!got.ok()) {
    head_error_ = got.status();
    return got.status().Prefixed(name_);
  }
  const Status within = CheckLimits(*got);
  if (!within.ok()) {
    head_error_ = within;
    return within.Prefixed(name_);
  }
  return std::string_view(chunk_.data(), *got);
}

Result<std::string> Input::ReadAll(size_t max_bytes) {
  const Status restarted = Restart();
  if (!restarted.ok()) return restarted.Prefixed(name_);
  std::string all;
  for (;;) {
    const Result<std::string_view> piece = Next();
    if (!piece.ok()) return piece.status();
    if (piece->empty()) return all;
    if (all.size() + piece->size() > max_bytes) {
      return Status::Error(name_ + ": larger than " + std::to_string(max_bytes >> 20) +
                           " MiB, too much for this format");
    }
    all.append(*piece);
  }
}

Result<std::string> Input::PlainPath() {
  if (!copy_path_.empty()) return copy_path_;
  const Status restarted = Restart();
  if (!restarted.ok()) return restarted.Prefixed(name_);
  if (!path_.empty() && !source_->unpacks()) return path_;
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/flare-import-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return Status::Error(path + ": " + std::strerror(errno));
  const Status copied = CopyTo(fd);
  close(fd);
  if (!copied.ok()) {
    unlink(path.c_str());
    return copied;
  }
  copy_path_ = path;
  return copy_path_;
}

Status Input::CopyTo(int fd) {
  for (;;) {
    const Result<std::string_view> piece = Next();
    if (!piece.ok()) return piece.status();
    if (piece->empty()) return Status::Ok();
    std::string_view left = *piece;
    while (!left.empty()) {
      const ssize_t wrote = write(fd, left.data(), left.size());
      if (wrote > 0) left.remove_prefix(static_cast<size_t>(wrote));
      if (wrote < 0 && errno != EINTR) {
        return Status::Error(name_ + ": cannot be unpacked to $TMPDIR: " + std::strerror(errno));
      }
    }
  }
}

}  // namespace flare::import
