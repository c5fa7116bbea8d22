// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "diag/import/json_args.h"
#include "diag/import/json_events.h"
#include "diag/import/kineto_collectives.h"
#include "diag/import/profile_builder.h"

// Sorts the events of one PyTorch trace to the processes they belong to.
//
// Nearly all files show one process. When the host events show several that launch device work, the
// devices are told apart by their launches (DeviceOwners), and the file is read a second time.
namespace flare::import {

struct KinetoProcess {
  std::string pid;
  ProfileBuilder builder;
  KinetoCollectives collectives;
  bool works = false;  // steps, collectives or device work, not only host calls
};

class KinetoReader {
 public:
  static constexpr size_t kMaxProcesses = 256;

  // Process ids by device; empty: all devices belong to the first process.
  explicit KinetoReader(std::map<uint32_t, std::string> owners = {});

  void Read(JsonEvents* events);

  bool several() const;  // processes that launch device work
  std::map<uint32_t, std::string> DeviceOwners() const;

  std::vector<std::unique_ptr<KinetoProcess>>& processes() { return processes_; }
  const std::set<uint32_t>& devices() const { return devices_; }
  // Of the device times as written, before any base time.
  int64_t latest_ns() const { return latest_ns_; }

 private:
  enum class Category : uint8_t {
    kIgnored,
    kKernel,
    kMemoryOperation,
    kRuntime,
    kOperator,
    kAnnotation,
    kPython,
  };
  static Category CategoryOf(std::string_view cat);

  void Take(const JsonEvent& event);
  void TakeDevice(const JsonEvent& event, Category category, int64_t begin, int64_t duration);
  void TakeRuntime(const JsonEvent& event, int64_t begin, int64_t duration);
  void TakeOperator(const JsonEvent& event, int64_t begin, int64_t duration);
  void TakeAnnotation(const JsonEvent& event, std::string_view name, bool user, int64_t begin,
                      int64_t duration);
  uint32_t GemmOf(KinetoProcess* process, std::string_view name);
  KinetoProcess* NewProcess();
  KinetoProcess& Host(const JsonEvent& event);
  KinetoProcess& OfDevice(uint32_t device);

  const std::map<uint32_t, std::string> owners_;
  KinetoGroups groups_;
  std::vector<std::unique_ptr<KinetoProcess>> processes_;
  std::map<std::string, size_t, std::less<>> by_pid_;
  std::string last_pid_;
  KinetoProcess* last_ = nullptr;
  std::set<uint32_t> devices_;
  std::unordered_map<uint64_t, uint32_t> gemms_;  // by external id of the operator
  JsonArgs args_;
  int64_t latest_ns_ = INT64_MIN;
};

}  // namespace flare::import
