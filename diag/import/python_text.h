// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace flare::import {

// What Python means by a text that is written with escapes: \n \\ \' \x41 \u00e9 \U0001f600. The
// result is UTF-8; what is no escape stays as it is.
std::string UnescapePython(std::string_view text);

}  // namespace flare::import
