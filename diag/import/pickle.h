// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "diag/import/value.h"
#include "libflare/core/status.h"

// Reads a Python pickle of plain data, protocols 0 to 5: None, truth values, numbers, texts and
// bytes, lists, tuples, sets and dictionaries, shared ones too.
//
// A pickle is a program. This machine knows only the instructions that make plain data; one that
// names a class, calls anything, or refers to things outside the file ends the reading with an
// error that says which instruction, at which byte. Nothing is looked up, let alone executed. Whole
// numbers beyond 64 bits become reals. Neither time nor memory nor stack depends on how values are
// nested.
namespace flare::import {

struct PickleLimits {
  size_t max_values = 32 << 20;  // pushed in all, 16 bytes each
  size_t max_marks = 10'000;     // containers begun and not yet ended
};

struct Pickle {
  Value root;
  // Not ok: the file ends before the pickle does. `root` then holds what came before: containers
  // that were still open are closed with what they have.
  Status cut_off;
};

// `bytes` and `store` must outlive the values.
Result<Pickle> ReadPickle(std::string_view bytes, ValueStore* store,
                          const PickleLimits& limits = {});

}  // namespace flare::import
