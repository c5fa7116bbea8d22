// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Builds Flight Recorder dumps as PyTorch writes them, for tests: as JSON text and as pickles.
namespace flare::import {

struct TestEntry {
  std::string group = "0";
  std::string description = "default_pg";
  std::string name = "nccl:all_reduce";
  uint64_t sequence = 1;
  std::string state = "scheduled";
  std::string sizes = "[[1024]]";
  std::string type = "Float";
  uint64_t created_ms = 0;  // after the beginning of the test's time
  bool point_to_point = false;
  bool retired = false;
  std::string frames;  // JSON, empty: none
};

struct TestGroup {
  std::string name, description, ranks;
};

struct TestDump {
  std::vector<TestGroup> groups = {{"0", "default_pg", "[0, 1, 2, 3]"}};
  std::vector<TestEntry> entries;
  std::string status;  // members of pg_status, as JSON
  std::string version = "2.10";

  // `count` finished all-reduces of the default group, from sequence 1 on.
  TestDump& History(uint64_t count);
  TestDump& Add(TestEntry entry);
  std::string Json() const;
};

// A JSON document as a pickle of protocol 2, in the way of PyTorch's own pickler.
std::string PickleOfJson(const std::string& json);

}  // namespace flare::import
