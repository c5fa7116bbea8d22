// SPDX-License-Identifier: Apache-2.0
#include "diag/import/untrusted_sqlite.h"

#include <sqlite3.h>

#include <cstdio>

namespace flare::import {
namespace {

constexpr int kWorkStep = 1 << 16;  // instructions between two looks at the limit

// "file:" and the path, with what a URI gives a meaning of its own written as %XX.
std::string UriOf(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    if (plain) {
      uri.push_back(c);
      continue;
    }
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
    uri += code;
  }
  return uri + "?mode=ro&immutable=1";
}

class Statement {
 public:
  Statement(sqlite3* database, const std::string& sql) {
    sqlite3_prepare_v2(database, sql.c_str(), -1, &statement_, nullptr);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }
  sqlite3_stmt* get() const { return statement_; }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<UntrustedSqlite>> UntrustedSqlite::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(
      UriOf(path).c_str(), &database,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
      nullptr);
  std::unique_ptr<UntrustedSqlite> opened(new UntrustedSqlite(database));
  if (code != SQLITE_OK) {
    return Status::Error(database == nullptr ? "no memory for SQLite" : sqlite3_errmsg(database));
  }
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, kLongestText);
  sqlite3_limit(database, SQLITE_LIMIT_COLUMN, 512);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_progress_handler(database, kWorkStep, &UntrustedSqlite::CountWork, opened.get());
  for (const char* sql :
       {"PRAGMA query_only = 1", "PRAGMA cell_size_check = 1", "PRAGMA mmap_size = 0",
        "PRAGMA cache_size = -32768", "PRAGMA temp_store = 2"}) {
    sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
  }
  // The first look at the schema shows whether this is a database at all.
  const Statement schema(database, "SELECT count(*) FROM sqlite_master");
  if (schema.get() == nullptr || sqlite3_step(schema.get()) != SQLITE_ROW) {
    return Status::Error(sqlite3_errmsg(database));
  }
  return opened;
}

UntrustedSqlite::~UntrustedSqlite() { sqlite3_close(database_); }

int UntrustedSqlite::CountWork(void* self) {
  auto* database = static_cast<UntrustedSqlite*>(self);
  database->work_ += kWorkStep;
  return database->work_ > kMostWork ? 1 : 0;
}

bool UntrustedSqlite::HasTable(const char* table) const {
  const Statement look(database_,
                       "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?1");
  if (look.get() == nullptr) return false;
  sqlite3_bind_text(look.get(), 1, table, -1, SQLITE_STATIC);
  if (sqlite3_step(look.get()) != SQLITE_ROW) return false;
  const auto* sql = reinterpret_cast<const char*>(sqlite3_column_text(look.get(), 0));
  // A virtual table runs code of an extension.
  return sql != nullptr && sqlite3_strlike("CREATE VIRTUAL%", sql, 0) != 0;
}

bool UntrustedSqlite::HasColumn(const char* table, const char* column) const {
  return sqlite3_table_column_metadata(database_, "main", table, column, nullptr, nullptr, nullptr,
                                       nullptr, nullptr) == SQLITE_OK;
}

Status UntrustedSqlite::ForEachRow(const char* table, const std::vector<const char*>& columns,
                                   const std::function<bool(const Row&)>& row) {
  if (!HasTable(table)) return Status::Ok();
  std::string sql = "SELECT ";
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) sql += ", ";
    sql += HasColumn(table, columns[i]) ? "\"" + std::string(columns[i]) + "\"" : "NULL";
  }
  const Statement statement(database_, sql + " FROM main.\"" + table + "\"");
  if (statement.get() == nullptr) return Status::Error(sqlite3_errmsg(database_));
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    if (!row(Row(statement.get()))) return Status::Ok();
  }
  if (code == SQLITE_DONE) return Status::Ok();
  return Status::Error(std::string(table) + ": " +
                       (code == SQLITE_INTERRUPT ? "takes too long" : sqlite3_errmsg(database_)));
}

std::optional<int64_t> UntrustedSqlite::Row::Int(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_, column);
}

std::string_view UntrustedSqlite::Row::Text(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_TEXT) return {};
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (text == nullptr) return {};
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

}  // namespace flare::import
