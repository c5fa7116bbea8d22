// SPDX-License-Identifier: Apache-2.0
#include "diag/import/walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/diag/import/temp_dir.h"

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Names(const Walk& walk) {
  std::vector<std::string> names;
  for (const FoundFile& file : walk.files) {
    names.push_back(std::filesystem::path(file.path).filename());
  }
  return names;
}

TEST(WalkTest, EntersFoldersInTheOrderOfNumbers) {
  const TempDir folder;
  for (const char* name : {"rank10.json", "rank2.json", "b/deep/rank1.json", "a/rank3.json"}) {
    folder.Write(name, "x");
  }
  const Walk walk = WalkPaths({folder.path() + "/"});
  EXPECT_THAT(Names(walk), ElementsAre("rank3.json", "rank1.json", "rank2.json", "rank10.json"));
  EXPECT_FALSE(walk.files[0].named);
  EXPECT_EQ(walk.files[0].path, folder.path() + "/a/rank3.json");
  EXPECT_THAT(walk.errors, IsEmpty());
}

TEST(WalkTest, HiddenAndSpecialFilesAreLeftOutOfFoldersAndSaid) {
  const TempDir folder;
  folder.Write(".hidden", "x");
  folder.Write(".git/config", "x");
  folder.Write("seen", "x");
  mkfifo((folder.path() + "/fifo").c_str(), 0600);
  const Walk walk = WalkPaths({folder.path()});
  EXPECT_THAT(Names(walk), ElementsAre("seen"));
  EXPECT_THAT(walk.notes,
              ElementsAre("2 hidden files or folders left out", "a special file left out"));
  // Whoever names one means it.
  EXPECT_THAT(Names(WalkPaths({folder.path() + "/.hidden"})), ElementsAre(".hidden"));
}

TEST(WalkTest, LinksAreFollowedButNothingComesTwice) {
  const TempDir folder, other;
  other.Write("linked", "x");
  folder.Write("a/file", "x");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() + "/a/loop");
  std::filesystem::create_directory_symlink(other.path(), folder.path() + "/other");
  std::filesystem::create_symlink(folder.path() + "/a/file", folder.path() + "/z");
  const Walk walk = WalkPaths({folder.path(), folder.path() + "/a/file"});
  EXPECT_THAT(Names(walk), ElementsAre("file", "linked"));
}

TEST(WalkTest, BrokenLinkInAFolderIsANoteAndANamedPathThatIsNotThereAnError) {
  const TempDir folder;
  std::filesystem::create_symlink("/nowhere", folder.path() + "/broken");
  const Walk walk = WalkPaths({folder.path(), folder.path() + "/none", ""});
  EXPECT_THAT(walk.notes, ElementsAre(HasSubstr("broken: No such file")));
  EXPECT_THAT(walk.errors, ElementsAre(HasSubstr("none: No such file"), HasSubstr("No such file")));
}

TEST(WalkTest, OrderOfNamesComparesNumbersAndIsStrict) {
  std::vector<std::string> names = {"b", "a10", "a2", "a02", "a", "a2b", "a1.json", "10", "9", ""};
  std::sort(names.begin(), names.end(), NaturallyBefore);
  EXPECT_THAT(names, ElementsAre("", "9", "10", "a", "a1.json", "a02", "a2", "a2b", "a10", "b"));
  for (const std::string& a : names) {
    for (const std::string& b : names) {
      EXPECT_FALSE(NaturallyBefore(a, b) && NaturallyBefore(b, a)) << a << " " << b;
      EXPECT_EQ(a == b, !NaturallyBefore(a, b) && !NaturallyBefore(b, a)) << a << " " << b;
    }
  }
}

}  // namespace
}  // namespace flare::import
