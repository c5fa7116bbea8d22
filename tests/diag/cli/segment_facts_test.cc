// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/segment_facts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>

#include "diag/cli/atomic_file.h"
#include "libflare/core/segment_layout.h"
#include "tests/diag/cli/temporary_folder.h"

namespace flare::cli {
namespace {

class SegmentFactsTest : public testing::Test {
 protected:
  SegmentFactsTest() {
    header_->magic = kSegmentMagic;
    header_->version = kSegmentVersion;
    header_->rank = 3;
    header_->world_size = 4;
    header_->pid = 4711;
    header_->enabled = 1;
    std::strcpy(header_->job, "demo");
    std::strcpy(header_->library_version, "0.1.0");
    header_->part_state[0] = static_cast<uint32_t>(PartState::kActive);
  }
  SegmentFacts Facts() {
    const std::string bytes(reinterpret_cast<const char*>(header_.get()), sizeof(*header_));
    EXPECT_TRUE(WriteFileAtomically(folder_ / "a.seg", bytes, 0600).ok());
    return ReadSegmentFacts(folder_ / "a.seg");
  }
  TemporaryFolder folder_;
  std::unique_ptr<SegmentHeader> header_ = std::make_unique<SegmentHeader>();
};

TEST_F(SegmentFactsTest, ReadsTheHeader) {
  const SegmentFacts facts = Facts();
  EXPECT_TRUE(facts.problem.ok());
  EXPECT_EQ(facts.job, "demo");
  EXPECT_EQ(facts.rank, 3u);
  EXPECT_EQ(facts.pid, 4711);
  EXPECT_TRUE(facts.enabled);
  EXPECT_FALSE(facts.owner_lives);
  EXPECT_EQ(facts.parts[0], "gloo active");
}

TEST_F(SegmentFactsTest, UnterminatedTextStaysInItsField) {
  std::memset(header_->job, 'x', sizeof(header_->job));
  EXPECT_EQ(Facts().job, std::string(64, 'x'));
}

TEST_F(SegmentFactsTest, ForeignAndOlderFilesAreRefusedInWords) {
  header_->version = kSegmentVersion + 1;
  EXPECT_EQ(Facts().problem.message(), "layout version 2, this program knows 1");
  header_->magic = 0;
  EXPECT_EQ(Facts().problem.message(), "not a segment of FLARE");
  ASSERT_TRUE(WriteFileAtomically(folder_ / "b.seg", "short", 0600).ok());
  EXPECT_EQ(ReadSegmentFacts(folder_ / "b.seg").problem.message(), "cut short");
}

TEST_F(SegmentFactsTest, FindsThoseOfRunsTooAndBlocksOnNoFifo) {
  Facts();
  ASSERT_EQ(mkdir((folder_ / "run-x").c_str(), 0700), 0);
  ASSERT_EQ(mkfifo((folder_ / "run-x/f.seg").c_str(), 0600), 0);
  EXPECT_EQ(FindSegments(folder_.path()).size(), 2u);
}

}  // namespace
}  // namespace flare::cli
