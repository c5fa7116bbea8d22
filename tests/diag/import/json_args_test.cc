// SPDX-License-Identifier: Apache-2.0
#include "diag/import/json_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(JsonArgsTest, ReadsNumbersHoweverTheyAreWritten) {
  JsonArgs args;
  ASSERT_TRUE(args.Parse(R"({"a":7,"b":"8","c":9.0,"d":9.5,"e":"0x1f","f":-3,"g":true,"h":[1]})"));
  EXPECT_EQ(args.Int("a"), 7);
  EXPECT_EQ(args.Int("b"), 8);
  EXPECT_EQ(args.Int("c"), 9);
  EXPECT_EQ(args.Int("d"), std::nullopt);
  EXPECT_EQ(args.Int("e"), 31);
  EXPECT_EQ(args.Int("f"), -3);
  EXPECT_EQ(args.Int("g"), std::nullopt);
  EXPECT_EQ(args.Int("h"), std::nullopt);
  EXPECT_EQ(args.Int("absent"), std::nullopt);
}

TEST(JsonArgsTest, LargeIdentitiesStayDistinct) {
  JsonArgs args;
  ASSERT_TRUE(args.Parse(R"({"a":10159970886766084423,"b":10159970886766084424})"));
  EXPECT_EQ(static_cast<uint64_t>(*args.Int("a")), 10159970886766084423u);
  EXPECT_NE(args.Int("a"), args.Int("b"));
}

TEST(JsonArgsTest, MendsWhatAParserRefuses) {
  JsonArgs args;
  ASSERT_TRUE(
      args.Parse("{\"nan\": NaN, \"i\":-Infinity,\"none\": ,\"huge\":99999999999999999999999,"
                 "\"utf\":\"a\xff"
                 "b\",\"tab\":\"x\ty\",\"last\":5}"));
  EXPECT_EQ(args.Int("last"), 5);
  EXPECT_EQ(args.Int("nan"), std::nullopt);
  EXPECT_EQ(args.Int("huge"), std::nullopt);
  EXPECT_EQ(args.String("huge"), "99999999999999999999999");
  EXPECT_EQ(args.String("utf"), "a?b");
  EXPECT_EQ(args.String("tab"), "x y");
}

TEST(JsonArgsTest, WhatCannotBeMendedIsEmpty) {
  JsonArgs args;
  ASSERT_TRUE(args.Parse(R"({"a":1})"));
  for (const char* text : {"", "[1]", "5", "{", "{\"a\":[}", "{\"a\":1}}", "{'a':1}"}) {
    EXPECT_FALSE(args.Parse(text)) << text;
    EXPECT_EQ(args.Int("a"), std::nullopt);
  }
}

TEST(JsonArgsTest, ReadsShapes) {
  JsonArgs args;
  ASSERT_TRUE(
      args.Parse(R"({"Input Dims":[[2,3],[],[[4,5],[6]],7,["x",8]],"Input type":["float",3]})"));
  EXPECT_THAT(args.Dims("Input Dims"), ElementsAre(ElementsAre(2, 3), IsEmpty(), ElementsAre(4, 5),
                                                   IsEmpty(), ElementsAre(8)));
  EXPECT_THAT(args.Strings("Input type"), ElementsAre("float", ""));
  EXPECT_THAT(args.Dims("absent"), IsEmpty());
}

TEST(JsonArgsTest, ReadsListsOfRanksUnlessTheyWereShortened) {
  JsonArgs args;
  ASSERT_TRUE(
      args.Parse(R"({"a":"[0, 1, 14]","b":[3,4],"c":"[0, 1, ..., 1023]","d":"[]","e":"5"})"));
  EXPECT_THAT(args.Ints("a"), ElementsAre(0, 1, 14));
  EXPECT_THAT(args.Ints("b"), ElementsAre(3, 4));
  EXPECT_THAT(args.Ints("c"), IsEmpty());
  EXPECT_THAT(args.Ints("d"), IsEmpty());
  EXPECT_THAT(args.Ints("e"), IsEmpty());
}

TEST(JsonArgsTest, ObjectsOfAListAreParsedInTurn) {
  JsonArgs args;
  ASSERT_TRUE(args.Parse(R"({"list":[{"id":1},5,{"id":2,"l":[{"id":9}]}]})"));
  const std::vector<std::string> objects = args.Objects("list");
  ASSERT_EQ(objects.size(), 2u);
  JsonArgs inner;
  ASSERT_TRUE(inner.Parse(objects[1]));
  EXPECT_EQ(inner.Int("id"), 2);
}

}  // namespace
}  // namespace flare::import
