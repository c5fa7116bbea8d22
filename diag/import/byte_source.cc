// SPDX-License-Identifier: Apache-2.0
#include "diag/import/byte_source.h"

#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace flare::import {
namespace {

constexpr size_t kPackedBytes = 64 << 10;
constexpr uint64_t kUnpackerMemory = 256 << 20;  // an xz or zstd file may ask for gigabytes

class FileSource : public ByteSource {
 public:
  explicit FileSource(int fd) : fd_(fd) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { close(fd_); }

  Result<size_t> Read(char* out, size_t size) override {
    ssize_t got = 0;
    do got = read(fd_, out, size);
    while (got < 0 && errno == EINTR);
    if (got < 0) return Status::Error(std::strerror(errno));
    raw_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }
  uint64_t raw_bytes() const override { return raw_; }

 private:
  const int fd_;
  uint64_t raw_ = 0;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}

  Result<size_t> Read(char* out, size_t size) override {
    const size_t count = bytes_.copy(out, size, at_);
    at_ += count;
    return count;
  }
  uint64_t raw_bytes() const override { return at_; }

 private:
  const std::string_view bytes_;
  size_t at_ = 0;
};

// Gives back the bytes that were looked at to tell the packing.
class Peeked : public ByteSource {
 public:
  Peeked(std::string peeked, std::unique_ptr<ByteSource> rest)
      : peeked_(std::move(peeked)), rest_(std::move(rest)) {}

  Result<size_t> Read(char* out, size_t size) override {
    if (at_ == peeked_.size()) return rest_->Read(out, size);
    const size_t count = peeked_.copy(out, size, at_);
    at_ += count;
    return count;
  }
  uint64_t raw_bytes() const override { return rest_->raw_bytes(); }

 private:
  const std::string peeked_;
  size_t at_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

// The loop that all unpackers share: feed packed bytes until plain ones come out. An error waits
// until what was unpacked before it has been given out.
class Unpacker : public ByteSource {
 public:
  explicit Unpacker(std::unique_ptr<ByteSource> packed)
      : packed_(std::move(packed)), buffer_(kPackedBytes) {}

  Result<size_t> Read(char* out, size_t size) override {
    if (size == 0) return size_t{0};
    if (!error_.ok()) return error_;
    for (;;) {
      if (begin_ == end_ && !ended_) {
        const Result<size_t> got = packed_->Read(buffer_.data(), buffer_.size());
        if (!got.ok()) return error_ = got.status();
        begin_ = 0;
        end_ = *got;
        ended_ = *got == 0;
      }
      size_t produced = 0;
      error_ = Step(out, size, &produced);
      if (produced > 0) return produced;
      if (!error_.ok()) return error_;
      if (ended_ && begin_ == end_) {
        if (between_streams()) return size_t{0};
        return error_ = Status::Error("the packed file is cut off");
      }
    }
  }
  uint64_t raw_bytes() const override { return packed_->raw_bytes(); }
  bool unpacks() const override { return true; }

 protected:
  // Takes from [next(), next() + available()) by Take(), and writes at most `size` bytes.
  virtual Status Step(char* out, size_t size, size_t* produced) = 0;
  virtual bool between_streams() const = 0;
  const char* next() const { return buffer_.data() + begin_; }
  size_t available() const { return end_ - begin_; }
  void Take(size_t count) { begin_ += count; }
  void TakeAll() { begin_ = end_; }
  bool ended() const { return ended_; }

 private:
  std::unique_ptr<ByteSource> packed_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  bool ended_ = false;
  Status error_;
};

class GzipSource : public Unpacker {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> packed) : Unpacker(std::move(packed)) {
    ok_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
  }
  ~GzipSource() override { inflateEnd(&stream_); }

 protected:
  Status Step(char* out, size_t size, size_t* produced) override {
    if (!ok_) return Status::Error("no memory to unpack gzip");
    if (between_) {
      if (available() == 0) return Status::Ok();
      // Zeroes may follow the last stream, as tar pads; anything else but a new stream is rubbish.
      padding_ = padding_ || (any_ && *next() != '\x1f');
      if (padding_) {
        TakeAll();
        return Status::Ok();
      }
      if (any_) inflateReset(&stream_);
    }
    between_ = false;
    any_ = true;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next()));
    stream_.avail_in = static_cast<uInt>(available());
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(size, UINT32_MAX));
    const int code = inflate(&stream_, Z_NO_FLUSH);
    *produced = static_cast<size_t>(reinterpret_cast<char*>(stream_.next_out) - out);
    Take(available() - stream_.avail_in);
    if (code == Z_STREAM_END) between_ = true;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return Status::Ok();
    return Status::Error(std::string("broken gzip data") +
                         (stream_.msg ? std::string(" (") + stream_.msg + ")" : ""));
  }
  bool between_streams() const override { return between_; }

 private:
  z_stream stream_{};
  bool ok_ = false, between_ = true, any_ = false, padding_ = false;
};

class ZstdSource : public Unpacker {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> packed)
      : Unpacker(std::move(packed)), context_(ZSTD_createDCtx()) {
    if (context_) ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27);
  }
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }

 protected:
  Status Step(char* out, size_t size, size_t* produced) override {
    if (!context_) return Status::Error("no memory to unpack zstd");
    ZSTD_inBuffer in{next(), available(), 0};
    ZSTD_outBuffer to{out, size, 0};
    const size_t left = ZSTD_decompressStream(context_, &to, &in);
    Take(in.pos);
    *produced = to.pos;
    if (ZSTD_isError(left)) {
      return Status::Error(std::string("broken zstd data (") + ZSTD_getErrorName(left) + ")");
    }
    if (in.size > 0 || to.pos > 0) between_ = left == 0;
    return Status::Ok();
  }
  bool between_streams() const override { return between_; }

 private:
  ZSTD_DCtx* const context_;
  bool between_ = true;
};

class XzSource : public Unpacker {
 public:
  explicit XzSource(std::unique_ptr<ByteSource> packed) : Unpacker(std::move(packed)) {
    ok_ = lzma_stream_decoder(&stream_, kUnpackerMemory, LZMA_CONCATENATED) == LZMA_OK;
  }
  ~XzSource() override { lzma_end(&stream_); }

 protected:
  Status Step(char* out, size_t size, size_t* produced) override {
    if (!ok_) return Status::Error("no memory to unpack xz");
    if (done_) {
      TakeAll();
      return Status::Ok();
    }
    stream_.next_in = reinterpret_cast<const uint8_t*>(next());
    stream_.avail_in = available();
    stream_.next_out = reinterpret_cast<uint8_t*>(out);
    stream_.avail_out = size;
    const lzma_ret code = lzma_code(&stream_, ended() ? LZMA_FINISH : LZMA_RUN);
    *produced = size - stream_.avail_out;
    Take(available() - stream_.avail_in);
    done_ = code == LZMA_STREAM_END;
    if (code == LZMA_OK || code == LZMA_STREAM_END || code == LZMA_BUF_ERROR) return Status::Ok();
    return Status::Error(code == LZMA_MEMLIMIT_ERROR
                             ? "the xz file needs more than 256 MiB to unpack"
                             : "broken xz data");
  }
  bool between_streams() const override { return done_; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ok_ = false, done_ = false;
};

// A frame, or one to be skipped, as pzstd writes first: 0x184d2a50 to 0x184d2a5f, little-endian.
bool IsZstd(std::string_view magic) {
  if (magic.starts_with("\x28\xb5\x2f\xfd")) return true;
  return magic.size() >= 4 && (magic[0] & '\xf0') == '\x50' && magic.substr(1, 3) == "\x2a\x4d\x18";
}

}  // namespace

Result<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  // A FIFO or device must not hold us up, nor be read.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Status::Error(std::strerror(errno));
  auto source = std::make_unique<FileSource>(fd);
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return Status::Error(std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return Status::Error("not a regular file");
  return std::unique_ptr<ByteSource>(std::move(source));
}

std::unique_ptr<ByteSource> ReadMemory(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

Result<std::unique_ptr<ByteSource>> Unpack(std::unique_ptr<ByteSource> packed) {
  std::string magic(6, '\0');
  size_t have = 0;
  while (have < magic.size()) {
    const Result<size_t> got = packed->Read(magic.data() + have, magic.size() - have);
    if (!got.ok()) return got.status();
    if (*got == 0) break;
    have += *got;
  }
  magic.resize(have);
  auto all = std::make_unique<Peeked>(magic, std::move(packed));
  std::unique_ptr<ByteSource> plain;
  if (magic.starts_with("\x1f\x8b")) {
    plain = std::make_unique<GzipSource>(std::move(all));
  } else if (IsZstd(magic)) {
    plain = std::make_unique<ZstdSource>(std::move(all));
  } else if (magic.starts_with("\xfd\x37zXZ") && magic.back() == '\0') {
    plain = std::make_unique<XzSource>(std::move(all));
  } else {
    plain = std::move(all);
  }
  return plain;
}

}  // namespace flare::import
