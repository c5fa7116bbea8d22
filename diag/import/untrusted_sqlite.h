// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libflare/core/status.h"

struct sqlite3;
struct sqlite3_stmt;

// A SQLite file of somebody else, read and nothing more.
//
// It is opened read-only and immutable: no journal or lock file is made or honoured. Views,
// triggers, functions in the schema and virtual tables are switched off (defensive, untrusted
// schema); names of tables and columns in queries are the caller's constants, never the file's.
// Texts beyond kLongestText, and queries that take longer than kMostWork, fail. One thread.
namespace flare::import {

class UntrustedSqlite {
 public:
  static constexpr int kLongestText = 1 << 20;
  static constexpr int64_t kMostWork = int64_t{1} << 37;  // instructions of its virtual machine

  static Result<std::unique_ptr<UntrustedSqlite>> Open(const std::string& path);
  ~UntrustedSqlite();

  // A real table (no view, no virtual table) of this name.
  bool HasTable(const char* table) const;
  bool HasColumn(const char* table, const char* column) const;

  // One row of a query; columns count from 0. Valid within the callback.
  class Row {
   public:
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
    // Nothing for NULL, and for what is no whole number.
    std::optional<int64_t> Int(int column) const;
    std::string_view Text(int column) const;  // empty for NULL and numbers

   private:
    sqlite3_stmt* statement_;
  };

  // All columns of the rows of one table, in no order; a column that the table lacks is NULL. False
  // from `row` stops. Rows before a broken page are given, then the error.
  Status ForEachRow(const char* table, const std::vector<const char*>& columns,
                    const std::function<bool(const Row&)>& row);

 private:
  explicit UntrustedSqlite(sqlite3* database) : database_(database) {}
  static int CountWork(void* self);

  sqlite3* const database_;
  int64_t work_ = 0;
};

}  // namespace flare::import
