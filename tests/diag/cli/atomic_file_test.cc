// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/diag/cli/temporary_folder.h"

namespace flare::cli {
namespace {

TEST(AtomicFileTest, ReplacesTheWholeFileAndLeavesNothingElse) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "f", std::string(100'000, 'a'), 0600).ok());
  ASSERT_TRUE(WriteFileAtomically(folder / "f", "b", 0600).ok());
  EXPECT_EQ(*ReadSmallFile(folder / "f"), "b");
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(AtomicFileTest, KeepsThePermissionsOfTheOldFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "f", "a", 0600).ok());
  ASSERT_EQ(chmod((folder / "f").c_str(), 0640), 0);
  ASSERT_TRUE(WriteFileAtomically(folder / "f", "b", 0600).ok());
  struct stat info {};
  ASSERT_EQ(stat((folder / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(AtomicFileTest, RefusesToReplaceADevice) {
  const Status status = WriteFileAtomically("/dev/null", "a", 0600);
  EXPECT_EQ(status.message(), "/dev/null: not a regular file");
}

TEST(AtomicFileTest, SaysWhereItCannotWrite) {
  EXPECT_FALSE(WriteFileAtomically("/nonexistent/f", "a", 0600).ok());
}

TEST(AtomicFileTest, ReadingAFifoDoesNotBlock) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(ReadSmallFile(folder / "fifo").ok());
}

TEST(AtomicFileTest, ReadsNoMoreThanAsked) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "f", std::string(100'000, 'a'), 0600).ok());
  EXPECT_EQ(ReadSmallFile(folder / "f", 1000)->size(), 1000u);
  EXPECT_FALSE(ReadSmallFile("/proc/self/stat")->empty());
}

}  // namespace
}  // namespace flare::cli
