// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/segment_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

namespace flare {
namespace {

struct SegmentWriterTest : testing::Test {
  void SetUp() override {
    folder = testing::TempDir() + "flare-segment-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    directory = folder + "/segments";
  }
  void TearDown() override {
    DiscardSegment(&segment);
    std::filesystem::remove_all(folder);
  }
  SegmentError Create(uint32_t threads = 8, uint32_t ring_events = 64) {
    return CreateSegment(directory.c_str(), "job.0.1.a.seg", threads, ring_events, &segment);
  }
  // True in a child process when `body` is; resource limits and mounts stay in the child.
  bool InChild(const std::function<bool()>& body) {
    const pid_t pid = fork();
    if (pid == 0) _exit(body() ? 0 : 1);
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::string folder;
  std::string directory;
  Segment segment;
};

TEST_F(SegmentWriterTest, AppearsUnderItsNameOnlyWhenPublished) {
  ASSERT_EQ(Create(), SegmentError::kNone);
  const std::string path = directory + "/job.0.1.a.seg";
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_EQ(PublishSegment(&segment), SegmentError::kNone);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(segment.header()->ready.load(), 1u);
  EXPECT_EQ(segment.header()->magic, kSegmentMagic);
}

TEST_F(SegmentWriterTest, FileIsPrivateAndAllocatedInFull) {
  ASSERT_EQ(Create(), SegmentError::kNone);
  struct stat status;
  ASSERT_EQ(fstat(segment.fd, &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), segment.bytes);
  EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, segment.bytes);
  ASSERT_EQ(stat(directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(SegmentWriterTest, DescriptorIsHighAndClosedByExec) {
  ASSERT_EQ(Create(), SegmentError::kNone);
  EXPECT_GE(segment.fd, 200);
  EXPECT_EQ(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(SegmentWriterTest, OtherProcessesSeeTheLock) {
  ASSERT_EQ(Create(), SegmentError::kNone);
  ASSERT_TRUE(segment.locked);
  ASSERT_EQ(PublishSegment(&segment), SegmentError::kNone);
  const pid_t owner = getpid();
  EXPECT_TRUE(InChild([&] {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_len = 1;
    const int fd = open(segment.path, O_RDWR);
    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == owner;
  }));
}

TEST_F(SegmentWriterTest, RefusesADirectoryThatIsALink) {
  std::filesystem::create_directory(folder + "/elsewhere");
  std::filesystem::create_directory_symlink(folder + "/elsewhere", directory);
  EXPECT_EQ(Create(), SegmentError::kDirectory);
}

TEST_F(SegmentWriterTest, RefusesADirectoryOthersCanWriteTo) {
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
  EXPECT_EQ(Create(), SegmentError::kDirectory);
}

TEST_F(SegmentWriterTest, DoesNotFollowAFilePutInItsWay) {
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  std::filesystem::create_symlink("/nowhere", directory + "/.job.0.1.a.seg.new");
  EXPECT_EQ(Create(), SegmentError::kCreate);
  EXPECT_EQ(segment.fd, -1);
}

TEST_F(SegmentWriterTest, HalvesTheRingsUnderAFileSizeLimit) {
  EXPECT_TRUE(InChild([&] {
    const rlim_t bytes = ComputeGeometry(8, 256).total;
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    return Create(8, 4096) == SegmentError::kNone && segment.ring_events == 256 &&
           segment.thread_count == 8;
  }));
}

TEST_F(SegmentWriterTest, GivesUpWithoutALeftoverWhenNothingFits) {
  EXPECT_TRUE(InChild([&] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    return Create(32, 4096) == SegmentError::kSpace && segment.fd == -1;
  }));
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST_F(SegmentWriterTest, ShrinksOnASmallTmpfs) {
  bool mounted = false;
  const bool fine = InChild([&] {
    // Own mount table; without the right to have one there is nothing to test.
    mkdir(directory.c_str(), 0700);
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", directory.c_str(), "tmpfs", 0, "size=512k,mode=700") != 0) {
      return false;
    }
    return Create(8, 4096) == SegmentError::kNone && segment.ring_events < 4096 &&
           segment.bytes <= 512 * 1024;
  });
  mounted = geteuid() == 0;
  if (!fine && !mounted) GTEST_SKIP() << "mounting a tmpfs needs root";
  EXPECT_TRUE(fine);
}

TEST_F(SegmentWriterTest, DiscardRemovesTheFile) {
  ASSERT_EQ(Create(), SegmentError::kNone);
  ASSERT_EQ(PublishSegment(&segment), SegmentError::kNone);
  DiscardSegment(&segment);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

}  // namespace
}  // namespace flare
