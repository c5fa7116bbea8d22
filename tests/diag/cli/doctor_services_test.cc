// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "diag/cli/doctor_check.h"
#include "flare/v1/query.grpc.pb.h"
#include "tests/diag/cli/temporary_folder.h"

namespace flare::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// An engine that knows its version, or is too old to know the question.
class FakeQuery : public v1::Query::Service {
 public:
  explicit FakeQuery(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  grpc::Status ListVersions(grpc::ServerContext*, const v1::ListVersionsRequest*,
                            v1::ListVersionsResponse* response) override {
    if (too_old) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
    *response = versions;
    return grpc::Status::OK;
  }
  bool too_old = false;
  v1::ListVersionsResponse versions;

 private:
  std::unique_ptr<grpc::Server> server_;
};

class DoctorServicesTest : public testing::Test {
 protected:
  Check Find(const std::string& name) {
    const std::vector<Check> checks = CheckServices({state_.path(), address_}, state_.path());
    const auto found = std::find_if(checks.begin(), checks.end(),
                                    [&](const Check& check) { return check.name == name; });
    return found == checks.end() ? Check{} : *found;
  }
  // As a flared that runs leaves it.
  void Serve(const std::string& lock_text) {
    const std::string path = state_ / "flared.lock";
    std::ofstream(path) << lock_text;
    lock_fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(flock(lock_fd_, LOCK_EX), 0);
  }
  ~DoctorServicesTest() override {
    if (lock_fd_ >= 0) close(lock_fd_);
  }

  TemporaryFolder state_;
  std::string address_ = "unix:" + (state_ / "engine.sock");
  int lock_fd_ = -1;
};

TEST_F(DoctorServicesTest, EngineOfOurReleaseIsFine) {
  FakeQuery engine(address_);
  engine.versions.set_engine_version(FLARE_VERSION);
  engine.versions.add_daemons()->set_version(FLARE_VERSION);
  EXPECT_EQ(Find("engine").level, CheckLevel::kOk);
  EXPECT_THAT(Find("engine").text, HasSubstr("version " FLARE_VERSION));
  EXPECT_THAT(Find("engine").remedy, IsEmpty());
  EXPECT_THAT(Find("remote_daemon").name, IsEmpty());
}

TEST_F(DoctorServicesTest, EngineOfAnotherReleaseComesWithARemedy) {
  FakeQuery engine(address_);
  engine.versions.set_engine_version("0.0.1\x1b[2J");
  const Check check = Find("engine");
  EXPECT_EQ(check.level, CheckLevel::kWarning);
  EXPECT_THAT(check.text, HasSubstr("version 0.0.1"));
  EXPECT_THAT(check.text, HasSubstr("this is flare " FLARE_VERSION));
  EXPECT_THAT(check.text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(check.remedy, HasSubstr("flare-engine of this release"));
}

TEST_F(DoctorServicesTest, EngineThatDoesNotKnowTheQuestionIsOlder) {
  FakeQuery engine(address_);
  engine.too_old = true;
  EXPECT_EQ(Find("engine").level, CheckLevel::kWarning);
  EXPECT_THAT(Find("engine").text, HasSubstr("too old to tell its version"));
}

TEST_F(DoctorServicesTest, DaemonsOfOtherNodesAreComparedToo) {
  FakeQuery engine(address_);
  engine.versions.set_engine_version(FLARE_VERSION);
  engine.versions.add_daemons()->set_version(FLARE_VERSION);
  v1::DaemonVersion* other = engine.versions.add_daemons();
  other->set_node("node-b");
  other->set_version("0.0.1");
  EXPECT_EQ(Find("remote_daemon").level, CheckLevel::kWarning);
  EXPECT_THAT(Find("remote_daemon").text, HasSubstr("node-b, version 0.0.1"));
}

TEST_F(DoctorServicesTest, DaemonIsComparedByWhatItsLockSays) {
  Serve(FLARE_VERSION "\n");
  EXPECT_EQ(Find("daemon").level, CheckLevel::kOk);
  EXPECT_THAT(Find("daemon").text, HasSubstr("version " FLARE_VERSION));
}

TEST_F(DoctorServicesTest, DaemonOfAnotherReleaseComesWithARemedy) {
  Serve("9.9.9\n");
  EXPECT_EQ(Find("daemon").level, CheckLevel::kWarning);
  EXPECT_THAT(Find("daemon").text, HasSubstr("version 9.9.9"));
  EXPECT_THAT(Find("daemon").remedy, HasSubstr("flared of this release"));
}

TEST_F(DoctorServicesTest, DaemonThatLeftNoVersionIsOlder) {
  Serve("");
  EXPECT_THAT(Find("daemon").text, HasSubstr("too old to tell its version"));
}

TEST_F(DoctorServicesTest, LockThatNobodyHoldsIsNoDaemon) {
  std::ofstream(state_ / "flared.lock") << "9.9.9\n";
  EXPECT_EQ(Find("daemon").level, CheckLevel::kOk);
  EXPECT_THAT(Find("daemon").text, HasSubstr("no flared serves"));
}

}  // namespace
}  // namespace flare::cli
