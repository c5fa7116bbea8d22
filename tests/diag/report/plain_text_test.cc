// SPDX-License-Identifier: Apache-2.0
#include "diag/report/plain_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace flare::diag {
namespace {

TEST(PlainTextTest, TerminalControlsBecomeVisible) {
  EXPECT_EQ(Printable("a\x1b[31mb\x07\r\n\t"), "a\\x1b[31mb\\x07\\r\\n\\t");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // the one-character form of ESC [
}

TEST(PlainTextTest, TextThatReordersOrHidesBecomesVisible) {
  EXPECT_EQ(Printable("\u202egpj.exe"), "\\u202egpj.exe");
  EXPECT_EQ(Printable("\u2066x\u2069\u200b\u2028"), "\\u2066x\\u2069\\u200b\\u2028");
}

TEST(PlainTextTest, InvalidUtf8BecomesVisible) {
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("ab\xe2\x82"), "ab\\xe2\\x82");  // cut short
}

TEST(PlainTextTest, OrdinaryTextOfAnyLanguageStays) {
  EXPECT_EQ(Printable("Größe 大きさ 🔥"), "Größe 大きさ 🔥");
}

TEST(PlainTextTest, LongTextIsCut) {
  const std::string text = Printable(std::string(1 << 20, 'a'), 100);
  EXPECT_EQ(text, std::string(100, 'a') + "...");
}

TEST(PlainTextTest, ShortenCutsBetweenCharacters) {
  EXPECT_EQ(Shorten("Größenangabe", 20), "Größenangabe");
  EXPECT_EQ(Shorten("Größenangabe", 7), "Größ...");
  EXPECT_EQ(Shorten("abcdef", 2), "ab");
}

TEST(PlainTextTest, WrapBreaksAtSpacesAndInsideLongWords) {
  EXPECT_EQ(Wrap("one two three four", 9), (std::vector<std::string>{"one two", "three", "four"}));
  EXPECT_EQ(Wrap("abcdefghijkl", 8), (std::vector<std::string>{"abcdefgh", "ijkl"}));
  EXPECT_EQ(Wrap("12345678 9", 8), (std::vector<std::string>{"12345678", "9"}));
  EXPECT_EQ(Wrap("", 8), (std::vector<std::string>{""}));
}

TEST(PlainTextTest, RankListJoinsNeighbours) {
  EXPECT_EQ(RankList({}), "");
  EXPECT_EQ(RankList({5, 0, 2, 1}), "0-2, 5");
  EXPECT_EQ(RankList({3, 4}), "3, 4");
  EXPECT_EQ(RankList({7, 7}), "7");
  EXPECT_EQ(RankList({0, 2, 4, 6}, 2), "0, 2, ... (4 in all)");
}

TEST(PlainTextTest, DurationsUseTwoUnitsAtMost) {
  EXPECT_EQ(DurationWords(0), "0 ms");
  EXPECT_EQ(DurationWords(850'000'000), "850 ms");
  EXPECT_EQ(DurationWords(12'900'000'000), "12 s");
  EXPECT_EQ(DurationWords(200'000'000'000), "3 min 20 s");
  EXPECT_EQ(DurationWords(7'500'000'000'000), "2 h 5 min");
  EXPECT_EQ(DurationWords(3 * 86'400'000'000'000), "3 d");
}

TEST(PlainTextTest, TimesAreUtc) {
  EXPECT_EQ(UtcMillis(1'773'496'802'123'999'999), "2026-03-14T14:00:02.123Z");
  EXPECT_EQ(UtcSeconds(0), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(UtcMillis(UINT64_MAX), "2554-07-21T23:34:33.709Z");
}

TEST(PlainTextTest, NumbersAreShort) {
  EXPECT_EQ(Number(0.42), "0.42");
  EXPECT_EQ(Number(1234567), "1234567");
  EXPECT_EQ(Number(0), "0");
  EXPECT_EQ(Number(1e-9), "1e-09");
  EXPECT_EQ(Number(NAN), "unknown");
  EXPECT_EQ(StepTime(0.0123), "12.3 ms");
}

}  // namespace
}  // namespace flare::diag
