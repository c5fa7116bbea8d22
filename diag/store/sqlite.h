// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "libflare/core/status.h"

struct sqlite3;
struct sqlite3_stmt;

// SQLite as the store uses it: errors are Status with a sentence that names the file and says what
// to do, never codes. One thread at a time per Database and its Statements. Nothing here deletes or
// rewrites a file that SQLite refuses.
namespace flare::diag {

enum class OpenMode : uint8_t { kReadOnly, kReadWrite };

// A prepared statement. Parameters and columns count from 0. A failed bind shows up at Step().
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3_stmt* statement, class Database* database);

  void Bind(int index, int64_t value);
  void Bind(int index, uint64_t value) { Bind(index, static_cast<int64_t>(value)); }
  void Bind(int index, uint32_t value) { Bind(index, static_cast<int64_t>(value)); }
  void Bind(int index, int32_t value) { Bind(index, static_cast<int64_t>(value)); }
  void Bind(int index, double value);
  // Text and blobs are not copied: they must live until the statement is reset.
  void BindText(int index, std::string_view value);
  void BindBlob(int index, std::string_view value);

  // True when a row is there to be read, false at the end.
  Result<bool> Step();
  // Runs a statement that returns no rows, then makes it ready for the next values.
  Status Run();
  void Reset();

  int64_t Int(int column) const;
  uint64_t Unsigned(int column) const { return static_cast<uint64_t>(Int(column)); }
  uint32_t Unsigned32(int column) const { return static_cast<uint32_t>(Int(column)); }
  double Real(int column) const;
  std::string Bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* s) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  Database* database_ = nullptr;
  int bind_error_ = 0;
};

class Database {
 public:
  static Result<std::unique_ptr<Database>> Open(const std::string& path, OpenMode mode);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status Execute(const std::string& sql);
  Result<Statement> Prepare(std::string_view sql);
  Result<int64_t> Integer(const std::string& sql);  // first column of the first row
  int64_t rows_changed() const;                     // by the last statement
  // The last error in words, with the path and the remedy.
  Status Error() const;
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  Database(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace flare::diag
