// SPDX-License-Identifier: Apache-2.0
#include "daemon/stacks/python_lines.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace flare::daemon {
namespace {

using Lines = PythonLayout::Lines;

TEST(PythonLinesTest, LocationTableOf311) {
  // Two units on the first line (no columns), one unit two lines on, one without a location.
  const std::vector<uint8_t> table = {0x80 | 13 << 3 | 1, 0x00, 0x80 | 12 << 3, 1, 2,
                                      0x80 | 15 << 3};
  EXPECT_EQ(LineOfInstruction(Lines::kTable311, table, 10, 0), 10u);
  EXPECT_EQ(LineOfInstruction(Lines::kTable311, table, 10, 2), 10u);
  EXPECT_EQ(LineOfInstruction(Lines::kTable311, table, 10, 4), 12u);
  EXPECT_EQ(LineOfInstruction(Lines::kTable311, table, 10, 6), 0u);
  EXPECT_EQ(LineOfInstruction(Lines::kTable311, table, 10, 100), 0u);
}

TEST(PythonLinesTest, PairsOf310AndBefore) {
  const std::vector<uint8_t> pairs310 = {4, 0, 2, 1, 2, 0x80, 6, 0xff};
  EXPECT_EQ(LineOfInstruction(Lines::kTable310, pairs310, 5, 2), 5u);
  EXPECT_EQ(LineOfInstruction(Lines::kTable310, pairs310, 5, 4), 6u);
  EXPECT_EQ(LineOfInstruction(Lines::kTable310, pairs310, 5, 6), 0u);
  EXPECT_EQ(LineOfInstruction(Lines::kTable310, pairs310, 5, 8), 5u);
  const std::vector<uint8_t> lnotab = {4, 1, 6, 2};
  EXPECT_EQ(LineOfInstruction(Lines::kLnotab, lnotab, 5, 3), 5u);
  EXPECT_EQ(LineOfInstruction(Lines::kLnotab, lnotab, 5, 4), 6u);
  EXPECT_EQ(LineOfInstruction(Lines::kLnotab, lnotab, 5, 10), 8u);
}

TEST(PythonLinesTest, AnyBytesAreSafe) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> table(random() % 40);
    for (uint8_t& byte : table) byte = static_cast<uint8_t>(random());
    for (const Lines format : {Lines::kTable311, Lines::kTable310, Lines::kLnotab}) {
      EXPECT_LE(LineOfInstruction(format, table, static_cast<int32_t>(random()), random() % 100),
                10'000'000u);
    }
  }
}

}  // namespace
}  // namespace flare::daemon
