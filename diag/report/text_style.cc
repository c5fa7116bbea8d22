// SPDX-License-Identifier: Apache-2.0
#include "diag/report/text_style.h"

#include <algorithm>

#include "diag/report/plain_text.h"

namespace flare::diag {

std::string Paint(const TextOptions& options, const char* code, const std::string& text) {
  return options.color ? std::string("\x1b[") + code + "m" + text + "\x1b[0m" : text;
}

std::string Bold(const TextOptions& o, const std::string& text) { return Paint(o, "1", text); }
std::string Dim(const TextOptions& o, const std::string& text) { return Paint(o, "2", text); }

size_t Width(const TextOptions& options) { return std::max<size_t>(options.columns, 40); }

std::string Table(const std::vector<std::vector<std::string>>& rows, const TextOptions& options) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Columns(row[c]));
  }
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c + 1 < widths.size(); ++c) {
      line += rows[r][c] + std::string(widths[c] - Columns(rows[r][c]) + 2, ' ');
    }
    line = Shorten(line + rows[r].back(), Width(options));
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += (r == 0 ? Dim(options, line) : line) + "\n";
  }
  return out;
}

}  // namespace flare::diag
