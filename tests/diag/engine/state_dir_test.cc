// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

TEST(StateDirTest, NewFolderIsPrivate) {
  const TempDir dir;
  ASSERT_TRUE(StateDir::Open(dir / "a/b", false).ok());
  struct stat status {};
  ASSERT_EQ(stat((dir / "a/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST(StateDirTest, OneAdvertisedEngineAndAnyNumberOfOthers) {
  const TempDir dir;
  {
    const Result<std::unique_ptr<StateDir>> first = StateDir::Open(dir.path(), true);
    ASSERT_TRUE(first.ok());
    EXPECT_FALSE(StateDir::Open(dir.path(), true).ok());
    EXPECT_TRUE(StateDir::Open(dir.path(), false).ok());
  }
  EXPECT_TRUE(StateDir::Open(dir.path(), true).ok());
}

TEST(StateDirTest, OwnerIsGoneWhenItsEngineIs) {
  const TempDir dir;
  const std::unique_ptr<StateDir> here = std::move(*StateDir::Open(dir.path(), true));
  std::unique_ptr<StateDir> other = std::move(*StateDir::Open(dir.path(), false));
  const std::string owner = other->owner();
  EXPECT_FALSE(here->OwnerIsGone(here->owner()));
  EXPECT_FALSE(here->OwnerIsGone(owner));
  other.reset();
  EXPECT_TRUE(here->OwnerIsGone(owner));
  EXPECT_TRUE(here->OwnerIsGone(""));
  EXPECT_TRUE(here->OwnerIsGone("../../etc/passwd"));
}

TEST(StateDirTest, PlaceThatCannotBeIsRefusedInWords) {
  const Result<std::unique_ptr<StateDir>> dir = StateDir::Open("/proc/none/here", true);
  ASSERT_FALSE(dir.ok());
  EXPECT_THAT(dir.status().message(), testing::HasSubstr("/proc/none/here"));
  EXPECT_FALSE(StateDir::Open("", true).ok());
}

TEST(StateDirTest, OnlyAnAdvertisedEngineWritesItsAddress) {
  const TempDir dir;
  std::unique_ptr<StateDir> quiet = std::move(*StateDir::Open(dir.path(), false));
  ASSERT_TRUE(quiet->Advertise("x").ok());
  EXPECT_FALSE(std::filesystem::exists(dir / "engine.addr"));
  std::unique_ptr<StateDir> loud = std::move(*StateDir::Open(dir.path(), true));
  ASSERT_TRUE(loud->Advertise("x").ok());
  EXPECT_TRUE(std::filesystem::exists(dir / "engine.addr"));
  quiet.reset();
  EXPECT_TRUE(std::filesystem::exists(dir / "engine.addr"));
  loud.reset();
  EXPECT_FALSE(std::filesystem::exists(dir / "engine.addr"));
}

}  // namespace
}  // namespace flare::diag
