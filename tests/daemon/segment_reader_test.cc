// SPDX-License-Identifier: Apache-2.0
#include "daemon/segment_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <functional>

#include "tests/daemon/segment_fixture.h"

namespace flare::daemon {
namespace {

using ::testing::HasSubstr;

class SegmentReaderTest : public ::testing::Test {
 protected:
  SegmentReaderTest() : directory_fd_(open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY)) {}
  ~SegmentReaderTest() override { close(directory_fd_); }

  Result<std::unique_ptr<SegmentReader>> OpenFile(const std::string& name) {
    return SegmentReader::Open(directory_fd_, name, getuid());
  }
  std::unique_ptr<SegmentReader> MustOpen(const SegmentFixture& fixture) {
    auto reader = OpenFile(fixture.file_name());
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    return reader.ok() ? std::move(reader).value() : nullptr;
  }

  TemporaryDirectory directory_;
  int directory_fd_;
};

TEST_F(SegmentReaderTest, ReadsWhatTheProcessWrote) {
  SegmentFixture fixture(directory_.path(), {.job = "train", .rank = 1, .world_size = 4});
  strncpy(fixture.header()->framework, "torch 2.13", 63);
  fixture.header()->step.store(9);
  fixture.SetName(3, "evaluate");
  auto reader = MustOpen(fixture);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->identity().job, "train");
  EXPECT_EQ(reader->identity().rank, 1u);
  EXPECT_EQ(reader->identity().world_size, 4u);
  EXPECT_EQ(reader->Name(3), "evaluate");
  EXPECT_EQ(reader->Name(kMaxNames), "");
  auto facts = reader->ReadFacts();
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->framework, "torch 2.13");
  EXPECT_EQ(facts->steps, 9u);
}

TEST_F(SegmentReaderTest, SegmentThatIsNotReadyIsNoError) {
  SegmentFixture fixture(directory_.path());
  fixture.header()->ready.store(0);
  auto reader = OpenFile(fixture.file_name());
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader.value(), nullptr);
}

TEST_F(SegmentReaderTest, EveryMangledHeaderFieldIsRefusedWithAReason) {
  struct Case {
    const char* reason;
    std::function<void(SegmentHeader*)> mangle;
  };
  const std::vector<Case> cases = {
      {"not a segment", [](SegmentHeader* h) { h->magic ^= 1; }},
      {"layout 2, want 1", [](SegmentHeader* h) { h->version = 2; }},
      {"header size", [](SegmentHeader* h) { h->header_bytes = 64; }},
      {"thread slots", [](SegmentHeader* h) { h->thread_count = 0; }},
      {"thread slots", [](SegmentHeader* h) { h->thread_count = kMaxThreadSlots + 1; }},
      {"ring size", [](SegmentHeader* h) { h->ring_events = 0; }},
      {"ring size", [](SegmentHeader* h) { h->ring_events = 63; }},
      {"ring size", [](SegmentHeader* h) { h->ring_events = kMaxRingEvents * 2; }},
      {"geometry", [](SegmentHeader* h) { h->names_offset += 64; }},
      {"geometry", [](SegmentHeader* h) { h->comms_offset = 0; }},
      {"geometry", [](SegmentHeader* h) { h->threads_offset = ~0ull; }},
      {"geometry", [](SegmentHeader* h) { h->rings_offset -= 4096; }},
      {"geometry", [](SegmentHeader* h) { h->total_bytes = 1; }},
      {"geometry", [](SegmentHeader* h) { h->thread_count = 5; }},
      {"geometry", [](SegmentHeader* h) { h->ring_events = 128; }},
      {"tick source", [](SegmentHeader* h) { h->tick_source = 9; }},
      {"no source id", [](SegmentHeader* h) { h->source_id = 0; }},
      {"no pid", [](SegmentHeader* h) { h->pid = -1; }},
      {"no job", [](SegmentHeader* h) { h->job[0] = 0; }},
      {"rank 7 of 2", [](SegmentHeader* h) { h->rank = 7; }},
      {"rank 0 of 0", [](SegmentHeader* h) { h->world_size = 0; }},
  };
  uint64_t source = 1;
  for (const Case& c : cases) {
    SegmentFixture fixture(directory_.path(), {.source = source++});
    c.mangle(fixture.header());
    auto reader = OpenFile(fixture.file_name());
    ASSERT_FALSE(reader.ok()) << c.reason;
    EXPECT_THAT(reader.status().message(), HasSubstr(c.reason));
  }
}

TEST_F(SegmentReaderTest, FileShorterThanItsHeaderSaysIsRefused) {
  SegmentFixture fixture(directory_.path());
  ASSERT_EQ(truncate(fixture.path().c_str(), 8192), 0);
  EXPECT_THAT(OpenFile(fixture.file_name()).status().message(), HasSubstr("shorter"));
}

TEST_F(SegmentReaderTest, FileThatShrinksWhileOpenGivesErrorsAndIsNotGrownAgain) {
  SegmentFixture fixture(directory_.path());
  auto reader = MustOpen(fixture);
  ASSERT_EQ(ftruncate(fixture.fd(), 100), 0);
  EXPECT_FALSE(reader->ReadFacts().ok());
  EXPECT_FALSE(reader->ReadOpenCalls().ok());
  EXPECT_FALSE(reader->ReadCommunicators(true).ok());
  EXPECT_FALSE(reader->WriteTail(0, 1));
  EXPECT_FALSE(reader->WriteEnabled(false));
  struct stat st;
  ASSERT_EQ(fstat(fixture.fd(), &st), 0);
  EXPECT_EQ(st.st_size, 100);
}

TEST_F(SegmentReaderTest, LinksPipesAndForeignFilesAreRefused) {
  SegmentFixture fixture(directory_.path());
  ASSERT_EQ(symlink(fixture.path().c_str(), (directory_.path() + "/link.seg").c_str()), 0);
  ASSERT_EQ(mkfifo((directory_.path() + "/fifo.seg").c_str(), 0600), 0);
  EXPECT_FALSE(OpenFile("link.seg").ok());
  EXPECT_THAT(OpenFile("fifo.seg").status().message(), HasSubstr("regular"));
  if (getuid() != 0) GTEST_SKIP() << "a file of another user needs root";
  ASSERT_EQ(chown(fixture.path().c_str(), 12345, 12345), 0);
  EXPECT_THAT(OpenFile(fixture.file_name()).status().message(), HasSubstr("uid 12345"));
}

TEST_F(SegmentReaderTest, TextIsCutAndCleaned) {
  SegmentFixture fixture(directory_.path());
  memset(fixture.header()->framework, 'x', sizeof(fixture.header()->framework));
  memcpy(fixture.header()->framework, "a\x1b[1m\xff\xc3\xa9", 8);
  auto reader = MustOpen(fixture);
  const std::string framework = reader->ReadFacts()->framework;
  EXPECT_EQ(framework.substr(0, 8), "a?[1m?\xc3\xa9");
  EXPECT_EQ(framework.size(), 64u);
}

TEST_F(SegmentReaderTest, OpenCallsOfLiveThreadsAreListedAndTornOnesAreNot) {
  SegmentFixture fixture(directory_.path());
  ThreadSlot* slot = fixture.thread(1);
  slot->tid.store(42);
  slot->depth.store(3);
  for (int d = 0; d < 3; ++d) {
    slot->open[d].kind = EventKind::kCollective;
    slot->open[d].sequence = static_cast<uint64_t>(d);
    slot->open[d].operation = static_cast<Operation>(200);
  }
  slot->open[1].version.store(7);                   // being written
  slot->open[2].kind = static_cast<EventKind>(99);  // impossible
  auto calls = MustOpen(fixture)->ReadOpenCalls();
  ASSERT_TRUE(calls.ok());
  ASSERT_EQ(calls->size(), 1u);
  EXPECT_EQ((*calls)[0].tid, 42u);
  EXPECT_EQ((*calls)[0].operation, Operation::kUnknown);
}

TEST_F(SegmentReaderTest, HostileDepthReadsNothingBeyondTheSlots) {
  SegmentFixture fixture(directory_.path());
  fixture.thread(0)->tid.store(1);
  fixture.thread(0)->depth.store(0xffffffff);
  for (OpenCall& call : fixture.thread(0)->open) call.kind = EventKind::kGc;
  auto calls = MustOpen(fixture)->ReadOpenCalls();
  ASSERT_TRUE(calls.ok());
  EXPECT_EQ(calls->size(), size_t{kMaxOpenCalls});
}

TEST_F(SegmentReaderTest, RecentCollectivesComeOldestFirstAndOnlyWhereTheSequenceFits) {
  SegmentFixture fixture(directory_.path());
  CommSlot* comm = fixture.comm(2);
  comm->comm.store(0xabc);
  comm->launched.store(70);
  comm->completed.store(69);
  for (uint64_t s = 6; s < 70; ++s) comm->recent[s % kRecentCollectives].sequence = s;
  comm->recent[10].sequence = 999;  // overwritten while we copy
  auto comms = MustOpen(fixture)->ReadCommunicators(true);
  ASSERT_TRUE(comms.ok());
  ASSERT_EQ(comms->size(), 1u);
  const auto& recent = (*comms)[0].recent;
  ASSERT_EQ(recent.size(), 63u);
  EXPECT_EQ(recent.front().sequence, 6u);
  EXPECT_EQ(recent.back().sequence, 69u);
}

TEST_F(SegmentReaderTest, LaunchedCountWithoutEndDoesNotLoopForLong) {
  SegmentFixture fixture(directory_.path());
  fixture.comm(0)->comm.store(1);
  fixture.comm(0)->launched.store(~0ull);
  auto comms = MustOpen(fixture)->ReadCommunicators(true);
  ASSERT_TRUE(comms.ok());
  EXPECT_TRUE((*comms)[0].recent.empty());
}

TEST_F(SegmentReaderTest, LockOfAnotherProcessIsSeenWithItsPid) {
  SegmentFixture fixture(directory_.path());
  auto reader = MustOpen(fixture);
  EXPECT_EQ(reader->LockHolder(), 0);
  int to_parent[2], to_child[2];
  ASSERT_EQ(pipe(to_parent), 0);
  ASSERT_EQ(pipe(to_child), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(fixture.path().c_str(), O_RDWR);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_len = 1;
    char byte = fcntl(fd, F_SETLK, &lock) == 0 ? 'y' : 'n';
    if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(to_parent[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_EQ(reader->LockHolder(), child);
  ASSERT_EQ(write(to_child[1], "x", 1), 1);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(reader->LockHolder(), 0);
  for (const int fd : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) close(fd);
}

}  // namespace
}  // namespace flare::daemon
