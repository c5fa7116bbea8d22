// SPDX-License-Identifier: Apache-2.0
#include "diag/import/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace flare::import {
namespace {

using testing::HasSubstr;

// Bytes with zeros in them.
#define BYTES(text) std::string_view(text, sizeof(text) - 1)

Value Load(std::string_view bytes, ValueStore* store) {
  const Result<Pickle> pickle = ReadPickle(bytes, store);
  EXPECT_TRUE(pickle.ok()) << pickle.status().message();
  if (!pickle.ok()) return Value();
  EXPECT_TRUE(pickle->cut_off.ok()) << pickle->cut_off.message();
  return pickle->root;
}

std::string Refusal(std::string_view bytes) {
  ValueStore store;
  return ReadPickle(bytes, &store).status().message();
}

// {"a": [1, -2, None, True], "b": (2.5, "x"), "a again": the same list}, by protocols 0 to 5.
const std::string_view kSame[] = {
    BYTES("(dp0\nVa\np1\n(lp2\nI1\naI-2\naNaI01\nasVb\np3\n(F2.5\nVx\np4\ntp5\nsVa "
          "again\np6\ng2\ns."),
    BYTES("}q\x00(X\x01\x00\x00\x00"
          "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffNI01\neX\x01\x00\x00\x00"
          "bq\x03(G@\x04\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00xq\x04tq\x05X\x07\x00\x00\x00"
          "a againq\x06h\x02u."),
    BYTES("\x80\x02}q\x00(X\x01\x00\x00\x00"
          "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffN\x88"
          "eX\x01\x00\x00\x00"
          "bq\x03G@\x04\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00xq\x04\x86q\x05X\x07\x00\x00\x00"
          "a againq\x06h\x02u."),
    BYTES("\x80\x04\x95\x38\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
          "a\x94]\x94(K\x01J\xfe\xff\xff\xffN\x88"
          "e\x8c\x01"
          "b\x94G@\x04\x00\x00\x00\x00\x00\x00\x8c\x01x\x94\x86\x94\x8c\x07"
          "a again\x94h\x02u."),
};

TEST(PickleTest, AllProtocolsGiveTheSameValues) {
  for (const std::string_view bytes : kSame) {
    ValueStore store;
    const Value root = Load(bytes, &store);
    const std::span<const Value> list = root["a"].items();
    ASSERT_EQ(list.size(), 4u);
    EXPECT_EQ(list[0].integer(), 1);
    EXPECT_EQ(list[1].integer(), -2);
    EXPECT_TRUE(list[2].is_none());
    EXPECT_TRUE(list[3].is_true());
    ASSERT_EQ(root["b"].items().size(), 2u);
    EXPECT_EQ(root["b"].items()[0].number(), 2.5);
    EXPECT_EQ(root["b"].items()[1].text(), "x");
    EXPECT_EQ(root["a again"].items().data(), list.data());
  }
}

TEST(PickleTest, WholeNumbersOfAnySize) {
  ValueStore store;
  const Value list =
      Load(BYTES("\x80\x02](\x8a\x00\x8a\x01\xff\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"
                 "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"
                 "\x8b\x02\x00\x00\x00\xff\x7fL-12L\nI9223372036854775808\ne."),
           &store);
  ASSERT_EQ(list.items().size(), 7u);
  EXPECT_EQ(list.items()[0].integer(), 0);
  EXPECT_EQ(list.items()[1].integer(), -1);
  EXPECT_EQ(list.items()[2].integer(), INT64_MIN);
  EXPECT_EQ(list.items()[3].integer(), std::nullopt);  // 2^63 is a real
  EXPECT_EQ(list.items()[3].number(), 0x1p63);
  EXPECT_EQ(list.items()[4].integer(), 32767);
  EXPECT_EQ(list.items()[5].integer(), -12);
  EXPECT_EQ(list.items()[6].number(), 0x1p63);
}

TEST(PickleTest, TextsOfProtocolZeroAreUnescaped) {
  ValueStore store;
  const Value list =
      Load(BYTES("(lS'it\\'s \\x41\\n'\naV\\u00e9\\U0001f600 plain\naS\"\"\na."), &store);
  ASSERT_EQ(list.items().size(), 3u);
  EXPECT_EQ(list.items()[0].text(), "it's A\n");
  EXPECT_EQ(list.items()[1].text(), "\xc3\xa9\xf0\x9f\x98\x80 plain");
  EXPECT_EQ(list.items()[2].text(), "");
}

TEST(PickleTest, SetsAndBytesAreLists) {
  ValueStore store;
  const Value list =
      Load(BYTES("\x80\x05]\x8f(K\x01K\x02\x90"
                 "a(K\x03\x91"
                 "aC\x02xyaB\x01\x00\x00\x00za\x96\x01\x00\x00\x00\x00\x00\x00\x00wa."),
           &store);
  ASSERT_EQ(list.items().size(), 5u);
  EXPECT_EQ(list.items()[0].items().size(), 2u);
  EXPECT_EQ(list.items()[1].items()[0].integer(), 3);
  EXPECT_EQ(list.items()[2].text(), "xy");
  EXPECT_EQ(list.items()[3].text(), "z");
  EXPECT_EQ(list.items()[4].text(), "w");
}

// Each would run a command, or could, when loaded by Python.
TEST(PickleTest, EveryInstructionThatCouldRunCodeIsRefused) {
  const std::pair<std::string_view, const char*> kHostile[] = {
      {BYTES("cos\nsystem\n(S'echo 1'\ntR."), "GLOBAL"},
      {BYTES("(S'echo 1'\nios\nsystem\n."), "INST"},
      {BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x06"
             "echo 1\x85R."),
       "STACK_GLOBAL"},
      {BYTES("(lp0\n(dR."), "REDUCE"},
      {BYTES("\x80\x02(NNo."), "OBJ"},
      {BYTES("\x80\x02N)\x81."), "NEWOBJ"},
      {BYTES("\x80\x04N)}\x92."), "NEWOBJ_EX"},
      {BYTES("}}b."), "BUILD"},
      {BYTES("\x80\x02\x82\x01."), "EXT1"},
      {BYTES("\x80\x02\x83\x01\x00."), "EXT2"},
      {BYTES("\x80\x02\x84\x01\x00\x00\x00."), "EXT4"},
      {BYTES("Pfile\n."), "PERSID"},
      {BYTES("\x80\x02NQ."), "BINPERSID"},
      {BYTES("\x80\x05\x97."), "NEXT_BUFFER"},
      {BYTES("\x80\x05N\x98."), "READONLY_BUFFER"},
  };
  for (const auto& [bytes, name] : kHostile) {
    EXPECT_THAT(Refusal(bytes), HasSubstr(std::string("instruction ") + name + " would")) << name;
  }
  EXPECT_THAT(Refusal(BYTES("\x80\x02](K\x01"
                            "cposix\nsystem\n")),
              HasSubstr("byte 6: "));
}

TEST(PickleTest, MalformedPicklesAreErrors) {
  const std::pair<std::string_view, const char*> kBroken[] = {
      {BYTES("\x80\x06N."), "protocol 6"},
      {BYTES("\xff."), "0xff is no instruction"},
      {BYTES("."), "more values than there are"},
      {BYTES("0."), "more values than there are"},
      {BYTES("e."), "not begun"},
      {BYTES("N(K\x01"
             "e."),
       "no list"},
      {BYTES("](K\x01u."), "a key without a value"},
      {BYTES("](K\x01K\x02u."), "no dictionary"},
      {BYTES("h\x05."), "memo 5 was never set"},
      {BYTES("Nr\xff\xff\xff\x7f."), "out of order"},
      {BYTES("(K\x01\x86."), "more values than there are"},
      {BYTES("Snoquotes\n."), "without quotes"},
      {BYTES("I1x\n."), "not a number"},
      {BYTES("gx\n."), "without a number"},
  };
  for (const auto& [bytes, why] : kBroken) EXPECT_THAT(Refusal(bytes), HasSubstr(why)) << why;
}

TEST(PickleTest, LimitsHoldAgainstBombs) {
  ValueStore store;
  PickleLimits limits;
  limits.max_values = 100;
  EXPECT_FALSE(ReadPickle(std::string(101, 'N'), &store, limits).ok());
  EXPECT_THAT(ReadPickle(std::string(20'000, '('), &store).status().message(),
              HasSubstr("nested too deeply"));
  // A list in a list in a list, 100,000 deep, costs no stack.
  std::string deep(100'000, ']');
  deep += std::string(99'999, 'a') + '.';
  EXPECT_TRUE(ReadPickle(deep, &store).ok());
  // A length beyond the file is a file cut off, however large.
  const Result<Pickle> huge =
      ReadPickle(BYTES("\x80\x04N\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), &store);
  ASSERT_TRUE(huge.ok());
  EXPECT_FALSE(huge->cut_off.ok());
}

TEST(PickleTest, ListThatHoldsItselfIsHarmless) {
  ValueStore store;
  const Value list = Load(BYTES("\x80\x02]q\x00h\x00"
                                "a."),
                          &store);
  ASSERT_EQ(list.items().size(), 1u);
  EXPECT_EQ(list.items()[0].items().data(), list.items().data());
}

TEST(PickleTest, CutOffAnywhereGivesWhatCameBefore) {
  for (const std::string_view bytes : kSame) {
    size_t most = 0;
    for (size_t size = 0; size < bytes.size(); ++size) {
      ValueStore store;
      const Result<Pickle> pickle = ReadPickle(bytes.substr(0, size), &store);
      if (!pickle.ok()) continue;
      EXPECT_FALSE(pickle->cut_off.ok());
      EXPECT_GE(pickle->root.members().size(), most) << size;  // never less than with fewer bytes
      most = pickle->root.members().size();
    }
    EXPECT_EQ(most, 3u);
  }
}

}  // namespace
}  // namespace flare::import
