// SPDX-License-Identifier: Apache-2.0
#include "diag/import/json_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

struct Split {
  std::vector<std::string> names;
  std::map<std::string, std::string, std::less<>> members;
  std::vector<std::string> notes;
  bool any_array = false;
};

Split SplitText(std::string text, std::set<std::string, std::less<>> wanted = {}) {
  const std::unique_ptr<Input> input = Input::FromMemory("t", std::move(text));
  JsonEvents events(input.get(), std::move(wanted));
  Split split;
  JsonEvent event;
  while (events.Next(&event)) split.names.emplace_back(event.Text("name"));
  split.members = events.members();
  split.notes = events.Notes();
  split.any_array = events.any_array();
  return split;
}

TEST(JsonEventsTest, ReadsABareArray) {
  const Split split = SplitText(R"([{"name":"a"}, {"name":"b","args":{"x":[1,{"y":"}"}]}}])");
  EXPECT_THAT(split.names, ElementsAre("a", "b"));
  EXPECT_THAT(split.notes, IsEmpty());
}

TEST(JsonEventsTest, KeepsWantedMembersBeforeAndAfterTheEvents) {
  const Split split = SplitText(
      R"({"first":{"traceEvents":[{"name":"not one"}]},"skipped":"[{]","traceEvents":[{"name":"a"}],)"
      R"("last": 17 })",
      {"first", "last"});
  EXPECT_THAT(split.names, ElementsAre("a"));
  EXPECT_THAT(split.members, UnorderedElementsAre(
                                 testing::Pair("first", R"({"traceEvents":[{"name":"not one"}]})"),
                                 testing::Pair("last", "17")));
}

// The same document whole, and with its bytes across every border of what is read at once.
TEST(JsonEventsTest, EventsMayLieAcrossTheBordersOfPieces) {
  std::string text = "[";
  size_t count = 0;
  while (text.size() < 3 * Input::kChunkBytes + Input::kHeadBytes) {
    text += R"({"name":"n)" + std::to_string(count) + R"(","args":{"s":"\\\"{[","pad":")" +
            std::string(count % 701, 'x') + "\"}},\n";
    ++count;
  }
  text += "{}]";
  const Split split = SplitText(text);
  ASSERT_EQ(split.names.size(), count + 1);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(split.names[i], "n" + std::to_string(i));
  EXPECT_THAT(split.notes, IsEmpty());
}

TEST(JsonEventsTest, AnyCutKeepsTheEventsBeforeIt) {
  const std::string text =
      R"({"traceEvents":[{"name":"a","ts":1},{"name":"b","args":{"s":"q\""}}],"x":{"y":[1,2]}})";
  for (size_t length = 0; length < text.size(); ++length) {
    const Split split = SplitText(text.substr(0, length));
    EXPECT_LE(split.names.size(), 2u);
    if (length > text.find(",{\"name\":\"b")) {
      EXPECT_EQ(split.names[0], "a");
    }
    if (length > text.find("],\"x\"")) {
      EXPECT_EQ(split.names.size(), 2u);
    }
    if (length > 1) {
      EXPECT_THAT(split.notes, ElementsAre(HasSubstr("cut off"))) << length;
    }
  }
}

TEST(JsonEventsTest, WhatIsNoObjectIsLeftOutAndCounted) {
  const Split split =
      SplitText(R"([null, 3, "text", [1,{"name":"in a list"}], {"name" 5}, {"name":"a"}])");
  EXPECT_THAT(split.names, ElementsAre("a"));
  EXPECT_THAT(split.notes, ElementsAre(HasSubstr("5 events left out")));
}

TEST(JsonEventsTest, DeepNestingAndHugeEventsAreLeftOut) {
  const std::string deep =
      R"({"name":"deep","args":)" + std::string(100, '[') + std::string(100, ']') + "}";
  const std::string huge = R"({"name":"huge","pad":")" + std::string(2 << 20, 'x') + "\"}";
  const Split split = SplitText("[" + deep + "," + huge + R"(,{"name":"a"}])");
  EXPECT_THAT(split.names, ElementsAre("a"));
  EXPECT_THAT(split.notes, ElementsAre(HasSubstr("nested more than"), HasSubstr("larger than")));
}

TEST(JsonEventsTest, EndlessNestingWithoutEndIsReadInConstantMemory) {
  const Split split = SplitText("{\"traceEvents\":" + std::string(8 << 20, '['));
  EXPECT_THAT(split.names, IsEmpty());
  const Split object = SplitText("{\"a\":" + std::string(8 << 20, '{'));
  EXPECT_THAT(object.notes, ElementsAre(HasSubstr("cut off")));
}

TEST(JsonEventsTest, RubbishIsNoTrace) {
  for (const char* text :
       {"", "   ", "x", "\"", "{", "[", "]", "}", "{]", "[}", "{\"a\"}", "{\"a\":}", "[,,,]", "[:]",
        "[}}]", "\xef\xbb\xbf[]", "{,}", "{\"traceEvents\":5}"}) {
    EXPECT_THAT(SplitText(text).names, IsEmpty()) << text;
  }
  EXPECT_FALSE(SplitText("{\"traceEvents\":5}").any_array);
}

TEST(JsonEventsTest, FieldsAreTextAndValuesThatWereLeftOutAreEmpty) {
  const auto input = Input::FromMemory(
      "t", R"([{"name":"a \"b\" \\ \/c\u0041","n": -1.5e3 ,"o":{"k":1},"none": ,"l":true}])");
  JsonEvents events(input.get(), {});
  JsonEvent event;
  ASSERT_TRUE(events.Next(&event));
  EXPECT_EQ(event.String("name"), R"(a "b" \ /c\u0041)");
  EXPECT_EQ(event.Text("n"), "-1.5e3");
  EXPECT_EQ(event.String("n"), "");
  EXPECT_EQ(event.Raw("o"), R"({"k":1})");
  EXPECT_EQ(event.Text("o"), "");
  EXPECT_EQ(event.Raw("none"), "");
  EXPECT_EQ(event.Raw("l"), "true");
  EXPECT_EQ(event.Raw("absent"), "");
  EXPECT_EQ(event.Nanoseconds("n"), -1'500'000);
}

TEST(MicrosecondsToNanosecondsTest, IsExactWhereADoubleIsNot) {
  EXPECT_EQ(MicrosecondsToNanoseconds("1706850122862403.217"), 1'706'850'122'862'403'217);
  EXPECT_EQ(MicrosecondsToNanoseconds("4203669604595.407"), 4'203'669'604'595'407);
  EXPECT_EQ(MicrosecondsToNanoseconds("9223372036854775.807"), INT64_MAX);
  EXPECT_EQ(MicrosecondsToNanoseconds("2688330.4119110107"), 2'688'330'412);
}

TEST(MicrosecondsToNanosecondsTest, RoundsAndScales) {
  EXPECT_EQ(MicrosecondsToNanoseconds("0"), 0);
  EXPECT_EQ(MicrosecondsToNanoseconds("000.0005"), 1);
  EXPECT_EQ(MicrosecondsToNanoseconds("0.00049"), 0);
  EXPECT_EQ(MicrosecondsToNanoseconds("-0.0015"), -2);
  EXPECT_EQ(MicrosecondsToNanoseconds("1.5e3"), 1'500'000);
  EXPECT_EQ(MicrosecondsToNanoseconds("15E-1"), 1'500);
  EXPECT_EQ(MicrosecondsToNanoseconds("1e-400"), 0);
  EXPECT_EQ(MicrosecondsToNanoseconds("0e999"), 0);
  EXPECT_EQ(MicrosecondsToNanoseconds("0." + std::string(5000, '0') + "1"), 0);
}

TEST(MicrosecondsToNanosecondsTest, WhatIsNoNumberOrDoesNotFitIsNothing) {
  for (const char* text :
       {"", "-", ".", "x", "1x", "1.2.3", "NaN", "Infinity", "-inf", "1e", "1e+", "0x10", " 1",
        "9223372036854775.808", "9223372036854775808", "18446744073709551616", "1e300",
        "99999999999999999999999999999999999999999999999999"}) {
    EXPECT_EQ(MicrosecondsToNanoseconds(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace flare::import
