// SPDX-License-Identifier: Apache-2.0
#include "daemon/uplink/spool.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "daemon/uplink/crc32c.h"
#include "tests/daemon/segment_fixture.h"

namespace flare::daemon {
namespace {

namespace fs = std::filesystem;

class SpoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<Spool> MustOpen(const std::string& path, Spool::Options options = {}) {
    auto spool = Spool::Open(path, options);
    EXPECT_TRUE(spool.ok()) << spool.status().message();
    return spool.ok() ? std::move(spool).value() : nullptr;
  }
  static std::vector<std::string> Contents(Spool* spool) {
    std::vector<std::string> payloads;
    uint64_t at = spool->acknowledged();
    while (spool->HasAfter(at)) {
      auto record = spool->ReadAfter(at);
      if (!record.ok()) break;
      payloads.push_back(record->payload);
      at = record->sequence;
    }
    return payloads;
  }
  static std::vector<fs::path> Files(const std::string& directory) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() == ".spool") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  TemporaryDirectory directory_;
};

TEST(Crc32cTest, KnownAnswer) { EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u); }

TEST_F(SpoolTest, RecordsAndIdentitySurviveARestart) {
  std::string id;
  {
    auto spool = MustOpen(directory_.path());
    id = spool->daemon_id();
    EXPECT_EQ(spool->Append("one").value(), 1u);
    EXPECT_EQ(spool->Append("two").value(), 2u);
    spool->Acknowledge(1);
  }
  auto spool = MustOpen(directory_.path());
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(spool->daemon_id(), id);
  EXPECT_EQ(Contents(spool.get()), std::vector<std::string>{"two"});
  EXPECT_EQ(spool->Append("three").value(), 3u);
}

TEST_F(SpoolTest, SequencesAreNotGivenTwiceWhenEverythingIsAcknowledged) {
  for (uint64_t round = 1; round <= 3; ++round) {
    auto spool = MustOpen(directory_.path());
    EXPECT_EQ(spool->Append("x").value(), round);
    spool->Acknowledge(round);
  }
  fs::remove(directory_.path() + "/acknowledged");  // it may lag, or be lost
  EXPECT_EQ(MustOpen(directory_.path())->next_sequence(), 4u);
}

TEST_F(SpoolTest, OneUserAtATime) {
  auto spool = MustOpen(directory_.path());
  EXPECT_FALSE(Spool::Open(directory_.path()).ok());
}

// The process may be killed, or the machine lose power, after any byte.
TEST_F(SpoolTest, CutAtAnyByteKeepsEveryWholeRecordBeforeTheCut) {
  const std::string original = directory_.path() + "/original";
  std::vector<size_t> ends;
  {
    auto spool = MustOpen(original);
    size_t end = 0;
    for (int i = 0; i < 5; ++i) {
      const std::string payload(static_cast<size_t>(3 * i + 1), static_cast<char>('a' + i));
      ASSERT_TRUE(spool->Append(payload).ok());
      ends.push_back(end += 16 + payload.size());
    }
  }
  const fs::path file = Files(original).at(0);
  const size_t size = fs::file_size(file);
  ASSERT_EQ(size, ends.back());
  for (size_t cut = 0; cut <= size; ++cut) {
    const std::string copy = directory_.path() + "/copy";
    fs::remove_all(copy);
    fs::copy(original, copy);
    fs::resize_file(fs::path(copy) / file.filename(), cut);
    auto spool = MustOpen(copy);
    const auto whole = std::count_if(ends.begin(), ends.end(), [&](size_t e) { return e <= cut; });
    ASSERT_EQ(Contents(spool.get()).size(), static_cast<size_t>(whole)) << "cut at " << cut;
    ASSERT_EQ(spool->damaged_bytes(),
              cut - (whole == 0 ? 0 : ends[static_cast<size_t>(whole) - 1]));
    ASSERT_EQ(spool->Append("next").value(), static_cast<uint64_t>(whole) + 1);
  }
}

TEST_F(SpoolTest, AnyDamagedByteEndsTheFileThere) {
  const std::string original = directory_.path() + "/original";
  {
    auto spool = MustOpen(original);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(spool->Append("payload").ok());
  }
  const fs::path file = Files(original).at(0);
  const size_t size = fs::file_size(file);
  for (size_t at = 0; at < size; ++at) {
    const std::string copy = directory_.path() + "/copy";
    fs::remove_all(copy);
    fs::copy(original, copy);
    std::fstream stream(fs::path(copy) / file.filename(), std::ios::in | std::ios::out);
    stream.seekg(static_cast<std::streamoff>(at));
    const int byte = stream.get();
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(byte ^ 0x20));
    stream.close();
    auto spool = MustOpen(copy);
    ASSERT_EQ(Contents(spool.get()).size(), at / (size / 3)) << "byte " << at;
  }
}

TEST_F(SpoolTest, AcknowledgedFilesGo) {
  auto spool = MustOpen(directory_.path(), {.file_bytes = 64});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(spool->Append(std::string(40, 'x')).ok());
  EXPECT_EQ(Files(directory_.path()).size(), 10u);
  spool->Acknowledge(9);
  EXPECT_EQ(Files(directory_.path()).size(), 1u);
  EXPECT_EQ(Contents(spool.get()).size(), 1u);
}

TEST_F(SpoolTest, AtTheLimitTheOldestGoAndAreHandedBackForCounting) {
  auto spool = MustOpen(directory_.path(), {.max_bytes = 400, .file_bytes = 100});
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(spool->Append(std::to_string(i) + std::string(50, '.')).ok());
  }
  EXPECT_LE(spool->bytes(), 400u);
  const auto kept = Contents(spool.get());
  const auto lost = spool->TakeLost();
  EXPECT_EQ(kept.size() + lost.size(), 20u);
  EXPECT_EQ(lost.front().substr(0, 2), "0.");
  EXPECT_EQ(kept.back().substr(0, 2), "19");
  EXPECT_TRUE(spool->TakeLost().empty());
}

TEST_F(SpoolTest, AcknowledgementOfTheFutureIsTakenAsOfAllThereIs) {
  auto spool = MustOpen(directory_.path());
  ASSERT_TRUE(spool->Append("x").ok());
  spool->Acknowledge(1'000'000);
  EXPECT_EQ(spool->next_sequence(), 2u);
  EXPECT_TRUE(spool->empty());
  EXPECT_EQ(spool->Append("y").value(), 2u);
  EXPECT_EQ(Contents(spool.get()).size(), 1u);
}

TEST_F(SpoolTest, ForeignFilesInTheDirectoryAreLeftAlone) {
  std::ofstream(directory_.path() + "/notes.spool") << "mine";
  std::ofstream(directory_.path() + "/0.spool") << "mine";
  auto spool = MustOpen(directory_.path());
  EXPECT_TRUE(spool->empty());
  EXPECT_TRUE(fs::exists(directory_.path() + "/notes.spool"));
}

}  // namespace
}  // namespace flare::daemon
