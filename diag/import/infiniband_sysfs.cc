// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/infiniband_ports.h"
#include "diag/import/text_scan.h"

// A tar of /sys/class/infiniband: one small file for each field and counter of each port,
// ".../mlx5_0/ports/1/counters/symbol_error". Counters count since the driver was loaded: how fast
// they grow, one look cannot say.
namespace flare::import {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kMostFileBytes = 4096;

// Of an error on the wire or a message that had to be sent again.
constexpr std::array<std::string_view, 12> kErrorCounters = {"symbol_error",
                                                             "link_error_recovery",
                                                             "link_downed",
                                                             "port_rcv_errors",
                                                             "local_link_integrity_errors",
                                                             "excessive_buffer_overrun_errors",
                                                             "port_rcv_remote_physical_errors",
                                                             "packet_seq_err",
                                                             "local_ack_timeout_err",
                                                             "out_of_sequence",
                                                             "rnr_nak_retry_err",
                                                             "implied_nak_seq_err"};

// The entries of a tar, from pieces of any size. Only small regular files are kept.
class TarReader {
 public:
  template <typename Function>
  bool Take(std::string_view piece, Function file) {
    while (!piece.empty()) {
      if (skip_ > 0) {
        const size_t count = std::min<uint64_t>(skip_, piece.size());
        skip_ -= count;
        piece.remove_prefix(count);
        continue;
      }
      const size_t wanted = in_file_ ? padded_ : kBlock;
      const size_t count = std::min(wanted - buffer_.size(), piece.size());
      buffer_.append(piece.substr(0, count));
      piece.remove_prefix(count);
      if (buffer_.size() < wanted) return true;
      if (in_file_) {
        file(std::string_view(name_), std::string_view(buffer_).substr(0, size_));
        in_file_ = false;
      } else if (!ReadHeader()) {
        return false;
      }
      buffer_.clear();
    }
    return true;
  }

 private:
  // False at something that is no header.
  bool ReadHeader() {
    const std::string_view header = buffer_;
    if (header.find_first_not_of('\0') == std::string_view::npos) return true;  // the end
    if (header.substr(257, 5) != "ustar") return false;
    const auto field = [&](size_t at, size_t length) {
      const std::string_view text = header.substr(at, length);
      return text.substr(0, text.find('\0'));
    };
    const auto size = WholeNumber<uint64_t>(Trim(field(124, 12)), 8);
    if (!size || *size > (uint64_t{1} << 40)) return false;
    const char type = header[156];
    padded_ = (*size + kBlock - 1) / kBlock * kBlock;
    if ((type == '0' || type == '\0') && *size > 0 && *size <= kMostFileBytes) {
      name_ = std::string(field(345, 155));
      if (!name_.empty()) name_ += '/';
      name_ += field(0, 100);
      size_ = *size;
      in_file_ = true;
    } else {
      skip_ = padded_;
    }
    return true;
  }

  std::string buffer_, name_;
  uint64_t skip_ = 0;
  size_t size_ = 0, padded_ = 0;
  bool in_file_ = false;
};

struct SysfsPort {
  AdapterPort port;
  std::map<std::string, uint64_t> errors;
};

class SysfsReader {
 public:
  void Take(std::string_view path, std::string_view content) {
    std::vector<std::string_view> parts;
    while (!path.empty()) {
      const size_t slash = path.find('/');
      parts.push_back(path.substr(0, slash));
      path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    }
    const auto ports = std::find(parts.begin(), parts.end(), "ports");
    content = Trim(content.substr(0, content.find('\n')));
    if (ports == parts.end()) {
      if (parts.size() >= 2 && parts.back() == "hca_type" && models_.size() < kMostPorts) {
        models_[std::string(parts[parts.size() - 2])] = content;
      }
      return;
    }
    if (ports == parts.begin() || parts.end() - ports < 3) return;
    const std::string device(*(ports - 1)), number(*(ports + 1));
    if (!ports_.contains({device, number}) && ports_.size() >= kMostPorts) return;
    SysfsPort& entry = ports_[{device, number}];
    const std::string_view name = parts.back();
    // "4: ACTIVE", "5: LinkUp"
    const size_t colon = content.find(": ");
    const std::string_view value =
        colon == std::string_view::npos ? content : content.substr(colon + 2);
    if (name == "state") entry.port.state = value;
    if (name == "phys_state") entry.port.physical = value;
    if (name == "link_layer") entry.port.layer = value;
    if (std::find(kErrorCounters.begin(), kErrorCounters.end(), name) == kErrorCounters.end()) {
      return;
    }
    const auto count = WholeNumber<uint64_t>(content);
    if (count && *count > 0) entry.errors[std::string(name)] = *count;
  }

  void AddTo(SignalList* signals) {
    std::vector<AdapterPort> listed;
    for (auto& [key, entry] : ports_) {
      entry.port.device = key.first.substr(0, 80);
      entry.port.number = key.second.substr(0, 20);
      const auto model = models_.find(key.first);
      if (model != models_.end()) entry.port.model = model->second;
      listed.push_back(entry.port);
      uint64_t sum = 0;
      std::string words;
      for (const auto& [name, count] : entry.errors) {
        sum += std::min(count, UINT64_MAX - sum);
        words += (words.empty() ? "" : ", ") + name + " " + std::to_string(count);
      }
      if (sum == 0) continue;
      diag::HostSignal signal;
      signal.kind = diag::SignalKind::kLinkErrors;
      signal.device = entry.port.device + " port " + entry.port.number;
      signal.value = static_cast<double>(sum);
      signal.text = words + " since the driver was loaded";
      signal.source = "sysfs counters";
      signals->Add(std::move(signal));
    }
    AddPortsDown(listed, "sysfs", signals);
  }

  size_t size() const { return ports_.size(); }

 private:
  std::map<std::string, std::string> models_;
  std::map<std::pair<std::string, std::string>, SysfsPort> ports_;
};

}  // namespace

int RecogniseInfinibandSysfs(std::string_view head) {
  if (head.size() < 2 * kBlock || head.substr(257, 5) != "ustar") return 0;
  return Has(head, "/ports/") && Has(head, "/counters/") ? 90 : 0;
}

Status ReadInfinibandSysfs(Input* input, Fragment* fragment) {
  SysfsReader reader;
  TarReader tar;
  for (;;) {
    const Result<std::string_view> piece = input->Next();
    if (!piece.ok() || piece->empty()) {
      if (!piece.ok()) {
        fragment->notes.push_back("only the part before this was used: " +
                                  piece.status().message());
      }
      break;
    }
    if (!tar.Take(*piece, [&](std::string_view path, std::string_view content) {
          reader.Take(path, content);
        })) {
      fragment->notes.push_back("the archive is broken; only the part before that was used");
      break;
    }
  }
  if (reader.size() == 0) return Status::Error("an archive without ports of adapters");
  SignalList signals;
  reader.AddTo(&signals);
  signals.MoveTo(fragment);
  return Status::Ok();
}

}  // namespace flare::import
