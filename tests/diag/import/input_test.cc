// SPDX-License-Identifier: Apache-2.0
#include "diag/import/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/diag/import/packing.h"
#include "tests/diag/import/temp_dir.h"

namespace flare::import {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Text that packs well but not absurdly, and is longer than a head and a chunk.
std::string Text(size_t bytes) {
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i) {
    text += "event " + std::to_string(i * 2654435761 % 1000003) + "\n";
  }
  text.resize(bytes);
  return text;
}

// All that comes before the end or the error.
std::string Drain(Input* input, Status* status) {
  std::string all;
  for (;;) {
    const Result<std::string_view> piece = input->Next();
    *status = piece.status();
    if (!piece.ok() || piece->empty()) return all;
    all.append(*piece);
  }
}

using Pack = std::string (*)(const std::string&);

class InputPackingTest : public testing::TestWithParam<Pack> {};
INSTANTIATE_TEST_SUITE_P(Packings, InputPackingTest, testing::Values(Gzip, Zstd, Xz));

TEST_P(InputPackingTest, GivesThePlainBytesFromTheBeginning) {
  const std::string text = Text(1 << 20);
  const auto input = Input::FromMemory("x", GetParam()(text));
  EXPECT_EQ(input->head(), text.substr(0, Input::kHeadBytes));
  Status status;
  EXPECT_EQ(Drain(input.get(), &status), text);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(InputPackingTest, SeveralStreamsInOneFileAreOne) {
  const auto input =
      Input::FromMemory("x", GetParam()("one ") + GetParam()("") + GetParam()("two"));
  Status status;
  EXPECT_EQ(Drain(input.get(), &status), "one two");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(InputPackingTest, CutOffFileGivesWhatThereIsAndAnError) {
  const std::string text = Text(1 << 20);
  std::string packed = GetParam()(text);
  packed.resize(packed.size() * 3 / 4);
  const auto input = Input::FromMemory("x", packed);
  Status status;
  const std::string got = Drain(input.get(), &status);
  EXPECT_GT(got.size(), text.size() / 2);
  EXPECT_EQ(got, text.substr(0, got.size()));
  EXPECT_EQ(status.message(), "x: the packed file is cut off");
  EXPECT_FALSE(input->Next().ok());  // and stays one
}

TEST_P(InputPackingTest, DamageIsAnErrorAfterTheBytesBeforeIt) {
  const std::string text = Text(1 << 20);
  std::string packed = GetParam()(text);
  for (size_t i = packed.size() / 2; i < packed.size() / 2 + 64; ++i) packed[i] ^= 0x5a;
  const auto input = Input::FromMemory("x", packed);
  Status status;
  const std::string got = Drain(input.get(), &status);
  EXPECT_LT(got.size(), text.size());
  EXPECT_THAT(status.message(), StartsWith("x: broken"));
}

TEST_P(InputPackingTest, EmptyContentIsEmpty) {
  const auto input = Input::FromMemory("x", GetParam()(""));
  EXPECT_EQ(input->head(), "");
  Status status;
  EXPECT_EQ(Drain(input.get(), &status), "");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(InputTest, PlainAndEmptyFilesAreTheirBytes) {
  const TempDir folder;
  const auto plain = Input::Open(folder.Write("plain", "some text"));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(*(*plain)->ReadAll(100), "some text");
  const auto empty = Input::Open(folder.Write("empty", ""));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE((*empty)->Next()->empty());
}

TEST(InputTest, TheNameOfAFileSaysNothing) {
  const TempDir folder;
  const auto gz = Input::Open(folder.Write("trace.gz", "not packed"));
  EXPECT_EQ((*gz)->head(), "not packed");
  const auto json = Input::Open(folder.Write("trace.json", Zstd("packed")));
  EXPECT_EQ((*json)->head(), "packed");
}

TEST(InputTest, ZeroesAfterGzipArePaddingAndSkippableZstdFramesAreSkipped) {
  Status status;
  const auto gzip = Input::FromMemory("x", Gzip("text") + std::string(100'000, '\0') + "\x1f");
  EXPECT_EQ(Drain(gzip.get(), &status), "text");
  EXPECT_TRUE(status.ok()) << status.message();
  const auto zstd =
      Input::FromMemory("x", std::string("\x50\x2a\x4d\x18\x02\0\0\0hi", 10) + Zstd("text"));
  EXPECT_EQ(Drain(zstd.get(), &status), "text");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(InputTest, BombIsRefused) {
  const auto input = Input::FromMemory("x", Zstd(std::string(200 << 20, ' ')));
  Status status;
  const std::string got = Drain(input.get(), &status);
  EXPECT_LE(got.size(), 80u << 20);
  EXPECT_THAT(status.message(), HasSubstr("bomb"));
}

TEST(InputTest, MoreThanTheLimitIsRefused) {
  InputLimits limits;
  limits.max_bytes = 1 << 20;
  const auto input = Input::FromMemory("x", Gzip(Text(2 << 20)), limits);
  Status status;
  Drain(input.get(), &status);
  EXPECT_THAT(status.message(), HasSubstr("unpacks to more than 1 MiB"));
}

TEST(InputTest, XzThatWantsGigabytesOfMemoryIsRefused) {
  // A header of a stream with one block whose dictionary is 1.5 GiB.
  lzma_options_lzma options;
  lzma_lzma_preset(&options, 0);
  options.dict_size = UINT32_C(3) << 29;
  lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  lzma_block block{};
  block.check = LZMA_CHECK_NONE;
  block.compressed_size = LZMA_VLI_UNKNOWN;
  block.uncompressed_size = LZMA_VLI_UNKNOWN;
  block.filters = filters;
  ASSERT_EQ(lzma_block_header_size(&block), LZMA_OK);
  std::string packed(LZMA_STREAM_HEADER_SIZE + block.header_size, '\0');
  lzma_stream_flags flags{};
  flags.check = LZMA_CHECK_NONE;
  auto* bytes = reinterpret_cast<uint8_t*>(packed.data());
  ASSERT_EQ(lzma_stream_header_encode(&flags, bytes), LZMA_OK);
  ASSERT_EQ(lzma_block_header_encode(&block, bytes + LZMA_STREAM_HEADER_SIZE), LZMA_OK);
  const auto input = Input::FromMemory("x", packed);
  EXPECT_THAT(input->Next().status().message(), HasSubstr("needs more than 256 MiB"));
}

TEST(InputTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TempDir folder;
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Input::Open(fifo).status().message(), fifo + ": not a regular file");
  EXPECT_EQ(Input::Open(folder.path()).status().message(), folder.path() + ": not a regular file");
  EXPECT_FALSE(Input::Open("/dev/zero").ok());
  EXPECT_EQ(Input::Open(folder.path() + "/none").status().message(),
            folder.path() + "/none: No such file or directory");
}

TEST(InputTest, ReadAllRefusesWhatIsTooLargeAndBeginsAnewEachTime) {
  const auto input = Input::FromMemory("x", Gzip(Text(1 << 20)));
  (void)input->Next();
  EXPECT_EQ(input->ReadAll(1 << 20)->size(), 1u << 20);
  EXPECT_EQ(input->ReadAll(1 << 20)->size(), 1u << 20);
  EXPECT_THAT(input->ReadAll(1000).status().message(), HasSubstr("too much for this format"));
}

TEST(InputTest, PlainPathIsTheFileItselfOrACopyThatGoesWithTheInput) {
  const TempDir folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  const std::string plain = folder.Write("plain", "text");
  EXPECT_EQ(*(*Input::Open(plain))->PlainPath(), plain);
  auto packed = Input::Open(folder.Write("packed", Gzip("unpacked")));
  const std::string copy = *(*packed)->PlainPath();
  EXPECT_EQ(copy, *(*packed)->PlainPath());
  std::ifstream file(copy);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "unpacked");
  packed->reset();
  EXPECT_FALSE(std::filesystem::exists(copy));
  unsetenv("TMPDIR");
}

TEST(InputTest, PlainPathOfADamagedFileLeavesNothing) {
  const TempDir folder, temporary;
  setenv("TMPDIR", temporary.path().c_str(), 1);
  const std::string packed = Gzip(Text(1 << 20));
  auto input = Input::Open(folder.Write("cut", packed.substr(0, packed.size() / 2)));
  EXPECT_FALSE((*input)->PlainPath().ok());
  EXPECT_FALSE((*input)->PlainPath().ok());
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
  unsetenv("TMPDIR");
}

TEST(InputTest, WatchCountsPackedBytesOnceAndStops) {
  const TempDir folder;
  const std::string packed = Gzip(Text(4 << 20));
  const std::string path = folder.Write("x", packed);
  ReadWatch watch;
  const auto input = Input::Open(path, {}, &watch);
  EXPECT_TRUE((*input)->ReadAll(4 << 20).ok());
  EXPECT_TRUE((*input)->ReadAll(4 << 20).ok());
  EXPECT_EQ(watch.raw_bytes, packed.size());
  watch.stop = true;
  EXPECT_EQ((*input)->Next().status().message(), path + ": interrupted");
}

}  // namespace
}  // namespace flare::import
