// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "diag/import/importer.h"
#include "diag/import/importers.h"

namespace flare::import {
namespace {

// In the order in which --help lists them. Of equally sure importers the first wins.
const std::vector<Importer>& Table() {
  static const std::vector<Importer> table = {};
  return table;
}

std::string KindList() {
  std::string list;
  for (const Importer& importer : Table()) {
    list += (list.empty() ? "" : ", ") + std::string(importer.kind);
  }
  return list;
}

// What the first bytes look like to a person.
std::string Impression(std::string_view head) {
  if (head.empty()) return "it is empty";
  const auto odd = std::count_if(head.begin(), head.end(), [](unsigned char c) {
    return c < 0x20 && c != '\n' && c != '\r' && c != '\t';
  });
  if (static_cast<size_t>(odd) * 20 > head.size()) return "it holds binary data of another kind";
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (head[first] == '{' || head[first] == '[')) {
    return "it holds JSON of another kind";
  }
  return "it holds text of another kind";
}

}  // namespace

std::span<const Importer> Importers() { return Table(); }

Result<const Importer*> ChooseImporter(const Input& input, const std::string& as) {
  if (!as.empty()) {
    for (const Importer& importer : Table()) {
      if (as == importer.kind) return &importer;
    }
    return Status::Error("no kind \"" + as + "\"; there are: " + KindList());
  }
  const Importer* surest = nullptr;
  int sure = 0;
  for (const Importer& importer : Table()) {
    const int here = importer.recognise(input.head());
    if (here > sure) {
      sure = here;
      surest = &importer;
    }
  }
  if (surest) return surest;
  return Status::Error(input.name() + ": not a kind of file that can be imported: " +
                       Impression(input.head()) + " (kinds: " + KindList() +
                       "; --as names one)");
}

Result<Fragment> ImportFile(const std::string& path, const std::string& as) {
  Result<std::unique_ptr<Input>> input = Input::Open(path);
  if (!input.ok()) return input.status();
  const Result<const Importer*> importer = ChooseImporter(**input, as);
  if (!importer.ok()) return importer.status();
  Fragment fragment;
  const Status status = (*importer)->read(input->get(), &fragment);
  if (!status.ok()) return status.message().starts_with(path) ? status : status.Prefixed(path);
  fragment.kind = (*importer)->kind;
  fragment.path = path;
  return fragment;
}

}  // namespace flare::import
