// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "libflare/recorder.h"
#include "tests/libflare/rank_process.h"

namespace flare {
namespace {

TEST(RecorderTablesTest, SameTextSameId) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              const uint32_t a = InternName("a"), b = InternName("b");
              FLARE_REQUIRE(a != 0 && b != 0 && a != b);
              FLARE_REQUIRE(InternName("a") == a && InternName("b") == b);
              FLARE_REQUIRE(std::strcmp(g_state.names[a].text, "a") == 0);
              FLARE_REQUIRE(InternName("") == 0 && InternName(nullptr) == 0);
              return "";
            }),
            "");
}

TEST(RecorderTablesTest, FullNameTableIsCounted) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              for (uint32_t i = 1; i < kMaxNames; ++i) {
                FLARE_REQUIRE(InternName(std::to_string(i).c_str()) == i);
              }
              FLARE_REQUIRE(InternName("one more") == 0);
              FLARE_REQUIRE(Header()->drops[size_t(DropReason::kNameTable)].load() == 1);
              FLARE_REQUIRE(InternName("7") == 7);
              return "";
            }),
            "");
}

TEST(RecorderTablesTest, CommunicatorsAreFoundAgainAndTheirTableIsBounded) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              CommSlot* first = OpenCommunicator(11, "world", 2, 4);
              FLARE_REQUIRE(first != nullptr && first->group_rank == 2 && first->group_size == 4);
              FLARE_REQUIRE(OpenCommunicator(11, "world", 2, 4) == first);
              for (uint64_t comm = 100; comm < 100 + kMaxComms - 1; ++comm) {
                FLARE_REQUIRE(OpenCommunicator(comm, "more", 0, 2) != nullptr);
              }
              FLARE_REQUIRE(OpenCommunicator(999, "too many", 0, 2) == nullptr);
              FLARE_REQUIRE(Header()->drops[size_t(DropReason::kNoCommSlot)].load() == 1);
              return "";
            }),
            "");
}

TEST(RecorderTablesTest, ExceptionsAreCutToFit) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              RecordException("ValueError", std::string(1000, 'x').c_str());
              FLARE_REQUIRE(std::strcmp(Header()->exception_type, "ValueError") == 0);
              FLARE_REQUIRE(std::strlen(Header()->exception_text) == 191);
              FLARE_REQUIRE(Header()->exception_version.load() == 2);
              return "";
            }),
            "");
}

int g_notified = 0;

TEST(RecorderTablesTest, ListenerThatComesLateIsTold) {
  NotifyFramework();
  SetFrameworkListener([] { ++g_notified; });
  EXPECT_EQ(g_notified, 1);
  NotifyFramework();
  EXPECT_EQ(g_notified, 2);
  SetFrameworkListener(nullptr);
}

}  // namespace
}  // namespace flare
