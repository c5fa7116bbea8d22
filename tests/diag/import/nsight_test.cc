// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/diag/import/import_testing.h"

namespace flare::import {
namespace {

using diag::DeviceStep;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The bytes of a database made by these statements.
std::string DatabaseOf(const std::string& sql) {
  std::string path = testing::TempDir() + "/nsight-test-XXXXXX";
  close(mkstemp(path.data()));
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  char* message = nullptr;
  sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &message);
  EXPECT_EQ(message, nullptr) << message;
  sqlite3_close(database);
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::filesystem::remove(path);
  return bytes.str();
}

constexpr char kKernels[] =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, "
    "streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT);";
constexpr char kNames[] =
    "CREATE TABLE StringIds (id INT, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn'),"
    "(2, 'ncclDevKernel_AllReduce_Sum_f16_RING_LL'), (3, 'cudaLaunchKernel_v7000'),"
    "(4, 'elementwise_kernel');";

// Two processes on a device each, with two steps of 1 ms: a matrix product, then an all-reduce that
// lasts twice as long on the first.
std::string TwoProcesses() {
  std::string sql = std::string("BEGIN;") + kKernels + kNames +
                    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, "
                    "correlationId INT, nameId INT);"
                    "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, "
                    "globalTid INT);"
                    "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT);"
                    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);"
                    "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT);"
                    "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100'), (1, 'NVIDIA H100');";
  for (int64_t p = 0; p < 2; ++p) {
    const int64_t global = (int64_t{1} << 48) + ((100 + p) << 24);
    for (int64_t s = 0; s < 2; ++s) {
      const int64_t at = 1'000'000 * (s + 1);
      const auto row = [&](int64_t begin, int64_t end, int64_t correlation, int64_t name) {
        sql += "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + std::to_string(begin) + "," +
               std::to_string(end) + "," + std::to_string(p) + ",1,7," +
               std::to_string(correlation) + "," + std::to_string(global) + "," +
               std::to_string(name) + "," + std::to_string(name) + ");";
        sql += "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + std::to_string(begin - 10'000) +
               "," + std::to_string(begin - 9'000) + "," + std::to_string(global + 5) + "," +
               std::to_string(correlation) + ",3);";
      };
      row(at + 100'000, at + 400'000, 2 * s + 1, 1);
      row(at + (p == 0 ? 500'000 : 600'000), at + 700'000, 2 * s + 2, 2);
      sql += "INSERT INTO NVTX_EVENTS VALUES (" + std::to_string(at) + "," +
             std::to_string(at + 990'000) + ",59,'step " + std::to_string(40 + s) + "'," +
             std::to_string(global + 5) + ");";
    }
  }
  return DatabaseOf(sql + "COMMIT;");
}

TEST(NsightTest, ProcessesStepsKernelsAndLaunchesAreRead) {
  const Fragment fragment = Import({"t.sqlite", TwoProcesses()});
  ASSERT_EQ(fragment.ranks.size(), 2u);
  EXPECT_TRUE(fragment.absolute_time);
  for (size_t p = 0; p < 2; ++p) {
    const diag::RankRecord& record = fragment.ranks[p].record;
    EXPECT_EQ(record.pid, static_cast<int64_t>(100 + p));
    ASSERT_EQ(record.steps.size(), 2u);
    EXPECT_EQ(record.steps[0].step.value, 40u);
    EXPECT_EQ(record.steps[0].start_unix_ns, 1'700'000'000'001'000'000u);
    ASSERT_TRUE(record.recording);
    const DeviceStep& device = *record.recording;
    EXPECT_EQ(device.kernels, 4u);
    EXPECT_EQ(device.communication_kernels, 2u);
    EXPECT_EQ(device.compute_ns, 600'000u);
    EXPECT_EQ(device.communication_ns, p == 0 ? 400'000u : 200'000u);
    EXPECT_NEAR(device.compute_issue_latency.mean(), 10'000, 150);
    EXPECT_THAT(device.devices, ElementsAre("NVIDIA H100"));
  }
}

TEST(NsightTest, KernelsAloneAreEnough) {
  const Fragment fragment = Import(
      {"t.sqlite", DatabaseOf(std::string(kKernels) + kNames +
                              "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
                              "(10, 20, 0, 1, 7, 1, 0, 1, 1), (30, 50, 0, 1, 7, 2, 0, 4, 4);")});
  ASSERT_EQ(fragment.ranks.size(), 1u);
  ASSERT_TRUE(fragment.ranks[0].record.recording);
  EXPECT_EQ(fragment.ranks[0].record.recording->busy_ns, 30u);
  EXPECT_FALSE(fragment.absolute_time);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("no steps are marked")));
}

TEST(NsightTest, ImpossibleRowsAreLeftOutAndCounted) {
  const Fragment fragment = Import(
      {"t.sqlite",
       DatabaseOf(std::string(kKernels) + kNames +
                  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
                  "(10, 20, 0, 1, 7, 1, 0, 1, 1), (50, 40, 0, 1, 7, 2, 0, 4, 4),"
                  "(-5, 10, 0, 1, 7, 3, 0, 4, 4), (1, 9223372036854775807, 0, 1, 7, 4, 0, 1, 1),"
                  "('x', NULL, 'y', 1, 7, 5, 0, 1, 1), (60, 70, -1, 1, -7, -6, -1, 99, 99);")});
  EXPECT_THAT(fragment.notes, Contains("4 rows with impossible times left out"));
}

TEST(NsightTest, ViewsAndVirtualTablesAreNotRead) {
  const std::string view = DatabaseOf(
      std::string(kNames) +
      "CREATE TABLE ANALYSIS_DETAILS (a INT);"
      "CREATE TABLE k (start INT, end INT); INSERT INTO k VALUES (1, 2);"
      "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT start, end, 0 AS deviceId, 0 AS streamId, "
      "0 AS correlationId, 0 AS globalPid, 1 AS demangledName, 1 AS shortName FROM k;");
  EXPECT_THAT(ImportError({"t.sqlite", view}), HasSubstr("without device work"));
  // A recursion without end, had it been run.
  const std::string endless = DatabaseOf(
      std::string(kKernels) +
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 1, 7, 1, 0, 1, 1);"
      "CREATE VIEW StringIds AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
      "SELECT id, 'x' AS value FROM n;");
  EXPECT_THAT(ImportError({"t.sqlite", endless}), HasSubstr("no export of Nsight Systems"));
}

TEST(NsightTest, GiantTextsAndOddNamesDoNoHarm) {
  const std::string bytes = DatabaseOf(
      std::string(kKernels) +
      "CREATE TABLE StringIds (id INT, value TEXT);"
      "INSERT INTO StringIds VALUES (1, printf('%.900000c', 'k')), (2, 'a''; DROP TABLE x; --'),"
      "(3, char(0) || 'x'), (4, x'ff00fe'), (NULL, 'none');"
      "CREATE TABLE \"x\"\"; DROP TABLE StringIds; --\" (\"a\"\"b\" INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 1, 7, 1, 0, 1, 1),"
      "(30, 40, 0, 1, 7, 2, 0, 2, 2), (50, 60, 0, 1, 7, 3, 0, 3, 3), (70, 80, 0, 1, 7, 4, 0, 4, "
      "4);");
  const Fragment fragment = Import({"t.sqlite", bytes});
  ASSERT_EQ(fragment.ranks.size(), 1u);
  EXPECT_EQ(fragment.ranks[0].record.recording->kernels, 4u);
}

TEST(NsightTest, BrokenFilesGiveAPartOrAReason) {
  const std::string whole = TwoProcesses();
  for (size_t size : {size_t{16}, size_t{100}, size_t{4096}, whole.size() / 2, whole.size() - 1}) {
    const std::unique_ptr<Input> input = Input::FromMemory("t.sqlite", whole.substr(0, size));
    Fragment fragment;
    const Result<const Importer*> importer = ChooseImporter(*input, "nsight");
    ASSERT_TRUE(importer.ok());
    const Result<Fragment> read = ReadWith(**importer, input.get());
    EXPECT_TRUE(read.ok() || !read.status().message().empty());
  }
  for (size_t at = 100; at < whole.size(); at += 97) {
    std::string broken = whole;
    for (size_t i = at; i < std::min(at + 9, broken.size()); ++i) broken[i] ^= '\x5a';
    const std::unique_ptr<Input> input = Input::FromMemory("t.sqlite", broken);
    const Result<const Importer*> importer = ChooseImporter(*input, "nsight");
    const Result<Fragment> read = ReadWith(**importer, input.get());
    EXPECT_TRUE(read.ok() || !read.status().message().empty());
  }
}

TEST(NsightTest, OtherDatabasesAreRefused) {
  EXPECT_THAT(ImportError({"t.sqlite", DatabaseOf("CREATE TABLE a (b INT);")}),
              HasSubstr("no export of Nsight Systems"));
}

// Stated by the origin's guide to reading a diff of the two.
TEST(NsightTest, RecordedRunsBeforeAndAfterAChangeHaveTheStatedTimes) {
  struct Case {
    const char* file;
    size_t send_receive;
    double communication_ms, kernel_ms, span_ms;
  };
  for (const Case& c : {Case{"mfu_2gpu_before", 66, 25.40, 535.20, 598.52},
                        Case{"mfu_2gpu_after", 62, 33.74, 488.84, 598.46}}) {
    FLARE_TRACE_FILES(files, "nsys-ai", c.file);
    const Fragment fragment = Import(files[0]);
    ASSERT_EQ(fragment.ranks.size(), 2u) << c.file;
    size_t kernels = 0;
    double communication_ms = 0, exposed_ms = 0, kernel_ms = 0, span_ms = 0;
    for (const RankFragment& rank : fragment.ranks) {
      ASSERT_TRUE(rank.record.recording);
      const DeviceStep& device = *rank.record.recording;
      kernels += device.communication_kernels;
      communication_ms += static_cast<double>(device.communication_ns) * 1e-6;
      exposed_ms += static_cast<double>(device.communication_ns - device.overlap_ns) * 1e-6;
      for (const diag::KernelTotals& totals : device.classes) {
        if (totals.kernel_class == KernelClass::kMemory) continue;  // no kernels in the guide
        kernel_ms += static_cast<double>(totals.total_ns) * 1e-6;
      }
      span_ms += static_cast<double>(device.span_ns) * 1e-6;
    }
    EXPECT_EQ(kernels, c.send_receive) << c.file;
    EXPECT_NEAR(communication_ms, c.communication_ms, 0.01) << c.file;
    // "Exposed" there is all communication; ours is what no compute kernel runs beside.
    EXPECT_LE(exposed_ms, c.communication_ms + 0.01) << c.file;
    EXPECT_NEAR(kernel_ms, c.kernel_ms, 0.01) << c.file;
    // The step of the guide is first kernel to last, of both devices together; our span holds
    // copies and fills as well.
    EXPECT_NEAR(span_ms, c.span_ms, 0.02 * c.span_ms) << c.file;
  }
}

}  // namespace
}  // namespace flare::import
