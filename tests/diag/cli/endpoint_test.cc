// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/endpoint.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "diag/cli/atomic_file.h"
#include "diag/cli/private_dir.h"
#include "tests/diag/cli/temporary_folder.h"

namespace flare::cli {
namespace {

class EndpointTest : public testing::Test {
 protected:
  Endpoint Mine(const std::string& job) {
    return {job, "name of " + job, "unix:/somewhere", *IdentifyProcess(getpid())};
  }
  std::string RunDirOf(const std::string& job) {
    const std::string path = RunDir(state_.path(), job);
    EXPECT_TRUE(MakePrivateDir(path).ok());
    return path;
  }
  TemporaryFolder state_;
};

TEST_F(EndpointTest, PublishedIsFoundUntilItGoes) {
  {
    const auto published = PublishedEndpoint::Publish(RunDirOf("j"), Mine("j"));
    ASSERT_TRUE(published.ok()) << published.status().message();
    const std::vector<Endpoint> found = RunningEndpoints(state_.path());
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].job, "j");
    EXPECT_EQ(found[0].name, "name of j");
    EXPECT_EQ(found[0].engine, "unix:/somewhere");
  }
  EXPECT_TRUE(RunningEndpoints(state_.path()).empty());
}

TEST_F(EndpointTest, RecordOfAReusedPidIsRemoved) {
  Endpoint endpoint = Mine("j");
  endpoint.owner.start_clock_ticks += 1;
  const std::string run_dir = RunDirOf("j");
  const auto published = PublishedEndpoint::Publish(run_dir, endpoint);
  ASSERT_TRUE(published.ok());
  EXPECT_TRUE(RunningEndpoints(state_.path()).empty());
  EXPECT_FALSE(std::filesystem::exists(run_dir));
}

TEST_F(EndpointTest, RecordOfAnotherBootOrMachineIsIgnoredAndKept) {
  const std::string run_dir = RunDirOf("j");
  ASSERT_TRUE(WriteFileAtomically(run_dir + "/endpoint.json",
                                  R"({"job":"j","engine":"unix:/x","pid":1,"start_clock_ticks":1,
                                      "boot":"00000000-0000-0000-0000-000000000000"})",
                                  0600)
                  .ok());
  EXPECT_TRUE(RunningEndpoints(state_.path()).empty());
  EXPECT_TRUE(std::filesystem::exists(run_dir));
}

TEST_F(EndpointTest, GarbageIsIgnored) {
  for (const char* text : {"", "{", "[]", "{\"pid\":\"x\"}", "null"}) {
    ASSERT_TRUE(WriteFileAtomically(RunDirOf("j") + "/endpoint.json", text, 0600).ok());
    EXPECT_TRUE(RunningEndpoints(state_.path()).empty());
  }
}

TEST_F(EndpointTest, AdvertisedEngineIsTheFirstLine) {
  EXPECT_FALSE(AdvertisedEngine(state_.path()));
  ASSERT_TRUE(WriteFileAtomically(state_ / "engine.addr", "127.0.0.1:7707\n", 0600).ok());
  EXPECT_EQ(AdvertisedEngine(state_.path()), "127.0.0.1:7707");
}

TEST_F(EndpointTest, AcceptsTellsAListenerFromALeftover) {
  const std::string path = state_ / "socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_TRUE(Accepts("unix:" + path, 1000));
  close(fd);
  EXPECT_FALSE(Accepts("unix:" + path, 1000));
  EXPECT_FALSE(Accepts("127.0.0.1:1", 1000));
  EXPECT_FALSE(Accepts("nonsense", 1000));
}

TEST_F(EndpointTest, SocketPathStaysWithinTheLimitOfSockets) {
  const std::string deep = state_ / std::string(120, 'd');
  const Result<std::string> path = SocketPath(deep, "flare-test-job");
  ASSERT_TRUE(path.ok());
  EXPECT_LE(path->size(), 107u);
  RemoveTree(path->substr(0, path->rfind('/')));
}

}  // namespace
}  // namespace flare::cli
