// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "diag/report/report_text.h"

// How the parts of a text report are laid out: styles and tables. Texts have passed Printable().
// Pure, any thread.
namespace flare::diag {

// Escape sequences of the few styles in use; each resets at its end.
std::string Paint(const TextOptions& options, const char* code, const std::string& text);
std::string Bold(const TextOptions& options, const std::string& text);
std::string Dim(const TextOptions& options, const std::string& text);

size_t Width(const TextOptions& options);

// The first row is the head. The last column takes what is left of the line.
std::string Table(const std::vector<std::vector<std::string>>& rows, const TextOptions& options);

}  // namespace flare::diag
