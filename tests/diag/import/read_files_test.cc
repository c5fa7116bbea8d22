// SPDX-License-Identifier: Apache-2.0
#include "diag/import/read_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <set>

#include "tests/diag/import/packing.h"
#include "tests/diag/import/temp_dir.h"

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// "toy N": a file of rank N. Anything else with "toy" in front is broken.
int RecogniseToy(std::string_view head) { return head.starts_with("toy") ? 90 : 0; }

Status ReadToy(Input* input, Fragment* fragment) {
  const Result<std::string> text = input->ReadAll(1000);
  if (!text.ok()) return text.status();
  if (*text == "toy throws") throw std::bad_alloc();
  if (!text->starts_with("toy ")) return Status::Error("no rank");
  RankFragment rank;
  rank.rank = Rank(static_cast<uint32_t>(std::atoi(text->c_str() + 4)));
  fragment->ranks.push_back(rank);
  return Status::Ok();
}

// Tries any text, and fails.
int RecogniseGuess(std::string_view head) { return head.starts_with("words") ? 1 : 0; }
Status ReadGuess(Input*, Fragment*) { return Status::Error("no guess"); }

constexpr Importer kToys[] = {{"toy", "Toy", RecogniseToy, ReadToy},
                              {"guess", "Guess", RecogniseGuess, ReadGuess}};

ReadFiles Read(const std::vector<std::string>& paths, const std::string& as = "") {
  ReadSettings settings;
  settings.importers = kToys;
  settings.as = as;
  return ReadAllFiles(WalkPaths(paths), settings);
}

TEST(ReadFilesTest, FragmentsComeInTheOrderOfFiles) {
  const TempDir folder;
  for (int i = 0; i < 40; ++i) {
    const std::string text = "toy " + std::to_string(i);
    folder.Write("f" + std::to_string(i), i % 2 ? text : Gzip(text));
  }
  const ReadFiles read = Read({folder.path()});
  ASSERT_THAT(read.fragments, SizeIs(40));
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(read.fragments[i].ranks[0].rank, Rank(i));
    EXPECT_EQ(read.fragments[i].kind, "toy");
    EXPECT_EQ(read.fragments[i].path, folder.path() + "/f" + std::to_string(i));
  }
  EXPECT_THAT(read.notes, IsEmpty());
}

TEST(ReadFilesTest, UnknownFilesInAFolderAreOneNote) {
  const TempDir folder;
  folder.Write("a.toy", "toy 1");
  for (const char* name : {"b.txt", "c.txt", "d.txt", "e.txt", "f.txt", "g.txt"}) {
    folder.Write(name, "words");
  }
  const ReadFiles read = Read({folder.path()});
  EXPECT_THAT(read.fragments, SizeIs(1));
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_THAT(
      read.notes,
      ElementsAre("6 files of no known kind left out: b.txt, c.txt, d.txt, e.txt, f.txt, ..."));
}

TEST(ReadFilesTest, UnknownFileThatWasNamedIsAnErrorThatSaysWhatItLooksLike) {
  const TempDir folder;
  const ReadFiles read = Read({folder.Write("a", std::string("\x7f\x45\x4c\x46\x02\x01\0\0", 8)),
                               folder.Write("b", "{\"some\": 1}"), folder.Write("c", "")});
  EXPECT_THAT(read.errors,
              ElementsAre(HasSubstr("binary data of another kind"),
                          HasSubstr("JSON of another kind"), HasSubstr("it is empty")));
  EXPECT_THAT(read.errors[0], HasSubstr("(kinds: toy, guess; --as names one)"));
}

TEST(ReadFilesTest, BrokenFileOfAKnownKindIsSaidByItself) {
  const TempDir folder;
  const std::string broken = folder.Write("broken", "toy-");
  EXPECT_THAT(Read({folder.path()}).notes, ElementsAre(broken + ": no rank; left out"));
  EXPECT_THAT(Read({broken}).errors, ElementsAre(broken + ": no rank"));
}

TEST(ReadFilesTest, KindsAreUnique) {
  std::set<std::string> kinds;
  for (const Importer& importer : Importers()) {
    EXPECT_TRUE(kinds.insert(importer.kind).second) << importer.kind;
    EXPECT_EQ(importer.recognise(""), 0) << importer.kind;
  }
  EXPECT_GT(kinds.size(), 5u);
}

TEST(ReadFilesTest, AsOverridesWhatTheContentSays) {
  const TempDir folder;
  const std::string path = folder.Write("x", "words");
  EXPECT_THAT(Read({path}, "toy").errors, ElementsAre(path + ": no rank"));
  EXPECT_THAT(Read({path}, "tyo").errors, ElementsAre("no kind \"tyo\"; there are: toy, guess"));
}

TEST(ReadFilesTest, ImporterThatRunsOutOfMemoryIsAnError) {
  const TempDir folder;
  EXPECT_THAT(Read({folder.Write("x", "toy throws")}).errors,
              ElementsAre(HasSubstr("x: cannot be read: ")));
}

TEST(ReadFilesTest, ImpossibleValuesDoNotPass) {
  const TempDir folder;
  const ReadFiles read = Read({folder.Write("x", "toy 2000000000")});
  ASSERT_THAT(read.fragments, SizeIs(1));
  EXPECT_THAT(read.fragments[0].ranks, IsEmpty());
  EXPECT_THAT(read.fragments[0].notes, ElementsAre("a rank with an impossible number left out"));
}

}  // namespace
}  // namespace flare::import
