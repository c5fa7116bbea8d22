// SPDX-License-Identifier: Apache-2.0
#include "libflare/hooks/work_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace flare {
namespace {

struct WorkTableTest : testing::Test {
  static const void* Address(uint64_t number) {
    return reinterpret_cast<const void*>(0x7f0000000000 + number * 64);
  }
  static PendingWork Numbered(uint64_t number) {
    PendingWork work;
    work.call.sequence = number;
    work.call.bytes = ~number;
    return work;
  }
  std::unique_ptr<WorkTable> table = std::make_unique<WorkTable>();
  PendingWork out;
};

TEST_F(WorkTableTest, GivesBackWhatWasPutOnce) {
  ASSERT_TRUE(table->Put(Address(1), Numbered(1)));
  ASSERT_TRUE(table->Take(Address(1), &out));
  EXPECT_EQ(out.call.sequence, 1u);
  EXPECT_FALSE(table->Take(Address(1), &out));
  EXPECT_FALSE(table->Take(Address(2), &out));
}

TEST_F(WorkTableTest, SameAddressAgainReplacesAnEntryNobodyTook) {
  ASSERT_TRUE(table->Put(Address(1), Numbered(1)));
  ASSERT_TRUE(table->Put(Address(1), Numbered(2)));
  ASSERT_TRUE(table->Take(Address(1), &out));
  EXPECT_EQ(out.call.sequence, 2u);
  EXPECT_FALSE(table->Take(Address(1), &out));
}

TEST_F(WorkTableTest, RefusesWhenFullAndKeepsWhatItHas) {
  uint64_t accepted = 0, refused = 0;
  std::vector<uint64_t> in;
  for (uint64_t i = 0; i < 5000; ++i) {
    if (table->Put(Address(i), Numbered(i))) {
      in.push_back(i);
      ++accepted;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(accepted, 500u);
  for (uint64_t i : in) {
    ASSERT_TRUE(table->Take(Address(i), &out));
    EXPECT_EQ(out.call.sequence, i);
  }
}

TEST_F(WorkTableTest, ThreadsHandWorkOverWhole) {
  constexpr uint64_t kRounds = 20'000;
  constexpr int kPairs = 2;
  std::atomic<uint64_t> ready[kPairs] = {};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int pair = 0; pair < kPairs; ++pair) {
    threads.emplace_back([&, pair] {
      for (uint64_t i = 1; i <= kRounds; ++i) {
        if (!table->Put(Address(pair * 100 + i % 8), Numbered(i))) ++wrong;
        ready[pair].store(i);
        while (ready[pair].load() == i) std::this_thread::yield();
      }
    });
    threads.emplace_back([&, pair] {
      for (uint64_t i = 1; i <= kRounds; ++i) {
        while (ready[pair].load() != i) std::this_thread::yield();
        PendingWork work;
        if (!table->Take(Address(pair * 100 + i % 8), &work) || work.call.bytes != ~i) ++wrong;
        ready[pair].store(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace flare
