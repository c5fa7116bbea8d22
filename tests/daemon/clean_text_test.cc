// SPDX-License-Identifier: Apache-2.0
#include "daemon/clean_text.h"

#include <gtest/gtest.h>

namespace flare::daemon {
namespace {

std::string Clean(const std::string& text) { return CleanText(text.data(), text.size()); }

TEST(CleanTextTest, PrintableTextStays) {
  EXPECT_EQ(Clean("Zürich 東京 🙂"), "Zürich 東京 🙂");
}

TEST(CleanTextTest, StopsAtTheFirstZero) { EXPECT_EQ(Clean(std::string("ab\0cd", 5)), "ab"); }

TEST(CleanTextTest, ControlsAndBrokenSequencesBecomeQuestionMarks) {
  EXPECT_EQ(Clean("\x1b[2J\n\x7f"), "?[2J??");
  EXPECT_EQ(Clean("\xc0\xaf"), "??");       // overlong
  EXPECT_EQ(Clean("\xed\xa0\x80"), "???");  // surrogate
  EXPECT_EQ(Clean("\xf5\x80\x80\x80"), "????");
  EXPECT_EQ(Clean("a\xe6\x9d"), "a??");  // cut
  EXPECT_EQ(Clean("\xc2\x9b"), "??");    // C1 control
}

}  // namespace
}  // namespace flare::daemon
