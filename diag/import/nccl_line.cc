// SPDX-License-Identifier: Apache-2.0
#include "diag/import/nccl_line.h"

#include <algorithm>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

// The last word of `text`, which loses it.
std::string_view TakeLastWord(std::string_view* text) {
  *text = Trim(*text);
  const size_t space = text->find_last_of(" \t");
  const std::string_view word = space == std::string_view::npos ? *text : text->substr(space + 1);
  text->remove_suffix(word.size());
  return word;
}

bool IsSourcePlace(std::string_view word) {
  const size_t colon = word.rfind(':');
  return colon != std::string_view::npos && Has(word.substr(0, colon), ".") &&
         WholeNumber<uint32_t>(word.substr(colon + 1)).has_value();
}

uint64_t Hex(std::string_view word) {
  if (word.starts_with("0x")) word.remove_prefix(2);
  return WholeNumber<uint64_t>(word, 16).value_or(0);
}

}  // namespace

std::optional<NcclLine> ParseNcclLine(std::string_view line) {
  constexpr std::string_view kInfo = " NCCL INFO ", kWarn = " NCCL WARN ";
  NcclLine parsed;
  size_t at = line.find(kInfo);
  if (at == std::string_view::npos) {
    at = line.find(kWarn);
    parsed.warning = true;
  }
  if (at == std::string_view::npos) return std::nullopt;
  parsed.message = Trim(line.substr(at + kInfo.size()));
  std::string_view before = line.substr(0, at);
  std::string_view word = TakeLastWord(&before);
  if (IsSourcePlace(word)) {
    parsed.place = word;
    word = TakeLastWord(&before);
  }
  if (word.size() < 3 || word.front() != '[' || word.back() != ']') return std::nullopt;
  parsed.device = WholeNumber(word.substr(1, word.size() - 2)).value_or(-1);
  // host:pid:tid
  word = TakeLastWord(&before);
  const size_t second = word.rfind(':');
  if (second == std::string_view::npos || second == 0) return std::nullopt;
  const size_t first = word.rfind(':', second - 1);
  if (first == std::string_view::npos || first == 0) return std::nullopt;
  const auto pid = WholeNumber(word.substr(first + 1, second - first - 1));
  if (!pid || *pid < 0) return std::nullopt;
  parsed.host = word.substr(0, first);
  parsed.pid = *pid;
  return parsed;
}

std::optional<NcclComm> ParseNcclComm(std::string_view message) {
  size_t at = message.find("comm 0x");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = message.substr(at);
  const size_t dash = rest.find(" - ");
  NcclComm comm;
  if (dash != std::string_view::npos) {
    comm.what = Trim(rest.substr(dash + 3));
    rest = rest.substr(0, dash);
  }
  bool rank = false, ranks = false;
  while (!rest.empty()) {
    const std::string_view key = TakeWord(&rest);
    const std::string_view value = TakeWord(&rest);
    if (key == "comm") comm.pointer = Hex(value);
    if (key == "commId") comm.id = Hex(value);
    if (key == "busId") comm.bus_id = value;
    if (key == "cudaDev") comm.device = WholeNumber(value).value_or(-1);
    if (key == "rank") {
      const auto number = WholeNumber<uint32_t>(value);
      rank = number.has_value();
      comm.rank = number.value_or(0);
    }
    if (key == "nranks") {
      const auto number = WholeNumber<uint32_t>(value);
      ranks = number.has_value();
      comm.ranks = number.value_or(0);
    }
  }
  if (!rank || !ranks || comm.rank >= comm.ranks) return std::nullopt;
  return comm;
}

std::optional<NcclTransport> ParseNcclTransport(std::string_view message) {
  const bool channel = message.starts_with("Channel ") || message.starts_with("Ring ") ||
                       message.starts_with("CollNet ");
  const size_t via = message.find(" via ");
  if (!channel || via == std::string_view::npos || !Has(message, " -> ")) {
    return std::nullopt;
  }
  NcclTransport transport;
  std::string_view name = message.substr(via + 5);
  name = name.substr(0, name.find(' '));
  transport.network = name.starts_with("NET/");
  transport.gpu_direct = Has(name, "/GDRDMA");
  if (name == "direct") name = "SHM";  // "direct shared memory"
  // The kind, and of networks which.
  const size_t slash = name.find('/');
  const size_t end = transport.network ? name.find('/', slash + 1) : slash;
  transport.name = name.substr(0, end);
  return transport;
}

}  // namespace flare::import
