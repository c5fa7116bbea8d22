// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "diag/store/sqlite.h"
#include "libflare/core/status.h"

// The tables of the store and how older ones become newer ones.
//
// PRAGMA user_version counts the migrations a file has been through; PRAGMA application_id says
// that it is ours. A file that is newer than this program, or somebody else's, is refused and left
// alone.
namespace flare::diag {

inline constexpr int64_t kApplicationId = 0x464c5245;  // "FLRE"

// Migration i turns version i into version i + 1. Never edit one that has been released: append.
std::span<const char* const> Migrations();

// For writers, before they change anything: Ok when the file is empty or ours and not too new.
Status CheckWritable(Database& database, std::span<const char* const> migrations);

// Brings the file to version migrations.size(), each step in a transaction of its own.
Status Migrate(Database& database, std::span<const char* const> migrations);

// For readers: Ok when the file is ours and exactly of this version.
Status CheckVersion(Database& database, std::span<const char* const> migrations);

}  // namespace flare::diag
