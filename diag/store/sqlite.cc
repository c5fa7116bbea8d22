// SPDX-License-Identifier: Apache-2.0
#include "diag/store/sqlite.h"

#include <sqlite3.h>

#include <cmath>
#include <filesystem>

namespace flare::diag {
namespace {

constexpr int kBusyTimeoutMs = 5000;

// A database that was closed cleanly in a folder we may not write to: there is no write-ahead log
// to follow and no place to put one, so its file alone is the whole truth.
std::string ImmutableUri(const std::string& path) {
  std::string uri = "file:";
  for (char c : std::filesystem::absolute(path).string()) {
    if (c == '?' || c == '#' || c == '%') {
      constexpr char kHex[] = "0123456789abcdef";
      uri += {'%', kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

std::string Explain(const std::string& path, int code, const char* detail) {
  const std::string text = "database " + path + ": ";
  const std::string reason = std::string(" (") + detail + ")";
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return text + "not a FLARE database" + reason +
             "; it was left as it is: move it away, or choose another state directory";
    case SQLITE_CORRUPT:
      return text + "damaged" + reason +
             "; it was left as it is: move it away to start afresh, or recover it with "
             "`sqlite3 FILE .recover`";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return text + "in use by another program" + reason;
    case SQLITE_FULL:
      return text + "the disk is full" + reason;
    case SQLITE_CANTOPEN:
      return text + "cannot be opened" + reason;
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return text + "may not be written" + reason;
    default:
      return text + detail;
  }
}

}  // namespace

Statement::Statement(sqlite3_stmt* statement, Database* database)
    : statement_(statement), database_(database) {}

void Statement::Finalize::operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }

void Statement::Bind(int index, int64_t value) {
  bind_error_ |= sqlite3_bind_int64(statement_.get(), index + 1, value);
}

void Statement::Bind(int index, double value) {
  // SQLite turns a NaN into NULL, which no column of ours takes.
  bind_error_ |=
      sqlite3_bind_double(statement_.get(), index + 1, std::isfinite(value) ? value : 0.0);
}

// An empty string_view may carry a null pointer, which SQLite would take for NULL.
void Statement::BindText(int index, std::string_view value) {
  bind_error_ |= sqlite3_bind_text64(statement_.get(), index + 1, value.empty() ? "" : value.data(),
                                     value.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::BindBlob(int index, std::string_view value) {
  bind_error_ |= sqlite3_bind_blob64(statement_.get(), index + 1, value.empty() ? "" : value.data(),
                                     value.size(), SQLITE_STATIC);
}

Result<bool> Statement::Step() {
  if (bind_error_ != SQLITE_OK) return Status::Error("database: a value could not be bound");
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Status error = database_->Error();
  Reset();
  return error;
}

Status Statement::Run() {
  const Result<bool> row = Step();
  Reset();
  return row.ok() ? Status::Ok() : row.status();
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bind_error_ = SQLITE_OK;
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }

double Statement::Real(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::string Statement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes ? std::string(static_cast<const char*>(bytes), static_cast<size_t>(size)) : "";
}

void Database::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Result<std::unique_ptr<Database>> Database::Open(const std::string& path, OpenMode mode) {
  const bool read_only = mode == OpenMode::kReadOnly;
  std::error_code ignored;
  if (read_only && !std::filesystem::exists(path, ignored)) {
    return Status::Error("database " + path + ": there is none; has an engine run here?");
  }
  const int flags = read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> db(new Database(path, raw));
  if (code != SQLITE_OK) return db->Error();
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  sqlite3_extended_result_codes(raw, 1);
  // Opening is lazy: only the first read tells whether the file is a database at all.
  Result<int64_t> probe = db->Integer("PRAGMA schema_version");
  if (probe.ok()) return db;
  const int failure = sqlite3_errcode(raw) & 0xff;
  if (read_only && (failure == SQLITE_CANTOPEN || failure == SQLITE_READONLY) &&
      !std::filesystem::exists(path + "-wal", ignored)) {
    code = sqlite3_open_v2(ImmutableUri(path).c_str(), &raw,
                           flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, nullptr);
    db.reset(new Database(path, raw));
    if (code != SQLITE_OK) return db->Error();
    probe = db->Integer("PRAGMA schema_version");
    if (probe.ok()) return db;
  }
  return probe.status();
}

Status Database::Execute(const std::string& sql) {
  return sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK ? Status::Ok()
                                                                                      : Error();
}

Result<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr) !=
      SQLITE_OK) {
    return Error();
  }
  return Statement(raw, this);
}

Result<int64_t> Database::Integer(const std::string& sql) {
  Result<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const Result<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  return *row ? statement->Int(0) : 0;
}

int64_t Database::rows_changed() const { return sqlite3_changes(db_.get()); }

Status Database::Error() const {
  if (!db_) return Status::Error("database " + path_ + ": out of memory");
  return Status::Error(
      Explain(path_, sqlite3_extended_errcode(db_.get()), sqlite3_errmsg(db_.get())));
}

}  // namespace flare::diag
