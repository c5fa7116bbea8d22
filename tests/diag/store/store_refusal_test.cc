// SPDX-License-Identifier: Apache-2.0
// Files that the store must refuse, in words, and leave as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "diag/store/schema.h"
#include "diag/store/store.h"
#include "tests/diag/store/store_values.h"
#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

using testing::HasSubstr;

class StoreRefusalTest : public testing::Test {
 protected:
  std::string path() const { return dir_ / "flare.db"; }

  std::string Bytes() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  void Execute(const std::string& sql) {
    const Result<std::unique_ptr<Database>> db = Database::Open(path(), OpenMode::kReadWrite);
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)->Execute(sql).ok());
  }

  void ExpectRefusal(OpenMode mode, const std::string& words) {
    const std::string before = Bytes();
    const Result<std::unique_ptr<Store>> store = Store::Open(path(), mode);
    ASSERT_FALSE(store.ok());
    EXPECT_THAT(store.status().message(), HasSubstr(words));
    EXPECT_THAT(store.status().message(), HasSubstr(path()));
    EXPECT_TRUE(Bytes() == before) << "the file was changed";
  }

  TempDir dir_;
};

TEST_F(StoreRefusalTest, NewerSchema) {
  { ASSERT_TRUE(Store::Open(path(), OpenMode::kReadWrite).ok()); }
  Execute("PRAGMA user_version = 99");
  ExpectRefusal(OpenMode::kReadWrite, "newer FLARE (schema 99");
  ExpectRefusal(OpenMode::kReadOnly, "newer FLARE (schema 99");
}

TEST_F(StoreRefusalTest, DatabaseOfAnotherProgram) {
  Execute("CREATE TABLE theirs(x)");
  ExpectRefusal(OpenMode::kReadWrite, "another program");
  ExpectRefusal(OpenMode::kReadOnly, "another program");
}

TEST_F(StoreRefusalTest, FileThatIsNoDatabase) {
  std::ofstream(path()) << std::string(10'000, 'x');
  ExpectRefusal(OpenMode::kReadWrite, "not a FLARE database");
  ExpectRefusal(OpenMode::kReadOnly, "not a FLARE database");
}

TEST_F(StoreRefusalTest, DamagedPages) {
  {
    StoreWrites writes;
    for (int64_t key = 1; key <= 500; ++key) Add(&writes, MakeJob(key, "job"));
    ASSERT_TRUE((*Store::Open(path(), OpenMode::kReadWrite))->Apply(writes).ok());
  }
  const size_t size = Bytes().size();
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(size - 4096, '\x5a');
  }
  const std::string before = Bytes();
  std::string words;
  const Result<std::unique_ptr<Store>> store = Store::Open(path(), OpenMode::kReadOnly);
  if (store.ok()) {
    words = (*store)->ListJobs().status().message();
  } else {
    words = store.status().message();
  }
  EXPECT_THAT(words, HasSubstr("damaged"));
  EXPECT_THAT(words, HasSubstr("left as it is"));
  EXPECT_TRUE(Bytes() == before);
}

TEST_F(StoreRefusalTest, MissingFileForAReader) {
  const Result<std::unique_ptr<Store>> store = Store::Open(path(), OpenMode::kReadOnly);
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.status().message(), HasSubstr("there is none"));
}

TEST_F(StoreRefusalTest, EmptyFileForAReaderIsOlder) {
  Execute("PRAGMA application_id = " + std::to_string(kApplicationId));
  ExpectRefusal(OpenMode::kReadOnly, "older FLARE");
}

TEST(MigrateTest, OnlyWhatIsMissingRuns) {
  const TempDir dir;
  const std::unique_ptr<Database> db =
      std::move(*Database::Open(dir / "x.db", OpenMode::kReadWrite));
  const char* const first[] = {"CREATE TABLE a(x); INSERT INTO a VALUES(1);"};
  const char* const both[] = {first[0], "ALTER TABLE a ADD COLUMN y DEFAULT 5;"};
  ASSERT_TRUE(Migrate(*db, first).ok());
  EXPECT_FALSE(CheckVersion(*db, both).ok());
  ASSERT_TRUE(Migrate(*db, both).ok());
  ASSERT_TRUE(Migrate(*db, both).ok());
  EXPECT_TRUE(CheckVersion(*db, both).ok());
  EXPECT_EQ(*db->Integer("SELECT y FROM a"), 5);
  EXPECT_EQ(*db->Integer("PRAGMA user_version"), 2);
}

TEST(MigrateTest, FailedStepLeavesTheVersionBefore) {
  const TempDir dir;
  const std::unique_ptr<Database> db =
      std::move(*Database::Open(dir / "x.db", OpenMode::kReadWrite));
  const char* const steps[] = {"CREATE TABLE a(x);", "CREATE TABLE b(x); SELECT nonsense;"};
  const Status status = Migrate(*db, steps);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("schema 2"));
  EXPECT_EQ(*db->Integer("PRAGMA user_version"), 1);
  EXPECT_EQ(*db->Integer("SELECT count(*) FROM sqlite_master WHERE name = 'b'"), 0);
}

}  // namespace
}  // namespace flare::diag
