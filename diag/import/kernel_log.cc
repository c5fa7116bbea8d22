// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>

#include "diag/import/importers.h"
#include "diag/import/kernel_line.h"
#include "diag/import/line_reader.h"
#include "diag/import/link_history.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

// Kernel and system logs in all their forms (kernel_line.h): what they say about GPUs, NVSwitches,
// links, PCIe, memory and crashed processes. Most lines say nothing of the kind and are passed
// over.
namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;

class KernelLog {
 public:
  void Take(std::string_view raw, uint64_t number) {
    const KernelLine line = ParseKernelLine(raw);
    local_time_ = local_time_ || line.local_time;
    const size_t before = found_;
    Look(line, number);
    if (found_ > before && line.at_unix_ns == 0) ++untimed_;
  }

  void MoveTo(Fragment* fragment) {
    links_.AddTo(&signals_, "kernel log");
    signals_.MoveTo(fragment);
    if (untimed_ > 0) {
      fragment->notes.push_back(Counted(untimed_, "statement") +
                                " without a date: their times are left out");
    }
    if (local_time_ && found_ > 0) {
      fragment->notes.push_back("times without a time zone are taken as UTC");
    }
    if (broken_ > 0) {
      fragment->notes.push_back(Counted(broken_, "Xid line") +
                                " without a readable number left out");
    }
  }

 private:
  void Look(const KernelLine& line, uint64_t number) {
    const std::string_view text = line.message;
    if (Has(text, "Xid (")) {
      TakeXid(line, number);
    } else if (Has(text, "lost carrier") || Has(text, "Lost carrier")) {
      links_.Down(line.node, text.substr(0, text.find(':')), true, line.at_unix_ns, raw_text(line));
      ++found_;
    } else if (Has(text, "ained carrier")) {
      links_.Up(line.node, text.substr(0, text.find(':')));
    } else if (const size_t link = text.find(": Link "); link != std::string_view::npos) {
      TakeLink(line, text.substr(0, link), text.substr(link + 7));
    } else if (Has(text, "AER: ") || Has(text, "PCIe Bus Error: ")) {
      TakePcie(line, number);
    } else if (Has(text, "oom") || Has(text, "ut of memory")) {
      TakeOutOfMemory(line, number);
    } else if (Has(text, "segfault at ") || Has(text, "general protection fault")) {
      TakeCrash(line, number);
    } else if (text.starts_with("nvidia-peermem ") && Has(text, "ERROR")) {
      // Said when a process ends before its registered memory: no fault, but worth showing.
      Add(line, number, SignalKind::kUnknown, "nvidia-peermem");
    } else if (Has(text, "NVRM: ") &&
               (Has(text, "RmInitAdapter failed") || Has(text, "GPU is lost") ||
                Has(text, "fallen off the bus"))) {
      Add(line, number, SignalKind::kGpuLost, PciAddress(text));
    } else {
      LookForNode(line, number);
    }
  }

  // Statements about the node as a whole: text, kind, name.
  void LookForNode(const KernelLine& line, uint64_t number) {
    const std::string_view text = line.message;
    if (Has(text, "file-max limit ") && Has(text, "reached")) {
      Add(line, number, SignalKind::kNodeFault, "file handles");
    } else if (Has(text, "blocked for more than ")) {
      const auto seconds = Between(text, "blocked for more than ", " ");
      Add(line, number, SignalKind::kFileSystemStall, TaskName(text, "task "), {},
          seconds ? LeadingDecimal(*seconds) : std::nullopt);
    } else if (text.starts_with("nfs: server ") && Has(text, "not responding")) {
      Add(line, number, SignalKind::kFileSystemStall,
          std::string(Between(text, "nfs: server ", " ").value_or("")));
    } else if (Has(text, "soft lockup") || Has(text, "hard LOCKUP")) {
      Add(line, number, SignalKind::kNodeFault, "processor lockup");
    } else if (Has(text, "[Hardware Error]") && Has(text, "ncorrected")) {
      Add(line, number, SignalKind::kNodeFault, "machine check");
    } else if (text.starts_with("Kernel panic")) {
      Add(line, number, SignalKind::kNodeFault, "kernel");
    }
  }

  // "NVRM: Xid (PCI:0000:19:00): 48, pid=.., name=.., text" and
  // "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 text".
  void TakeXid(const KernelLine& line, uint64_t number) {
    const bool is_switch = Has(line.message, "SXid (");
    if (!is_switch && !Has(line.message, "NVRM: Xid (")) return;
    const auto rest = Between(line.message, "Xid (", "");
    const size_t end = rest->find("): ");
    const auto code =
        end == std::string_view::npos ? std::nullopt : LeadingNumber(rest->substr(end + 3));
    if (!code || *code < 0 || *code > 99'999) {
      ++broken_;
      return;
    }
    std::string_view device = rest->substr(0, end);
    if (device.starts_with("PCI:")) device.remove_prefix(4);
    const std::string_view words = rest->substr(end + 3);
    // A second line with the registers belongs to the one before.
    if (is_switch && (Has(words, ", Data {") || Has(words, ", Severity "))) return;
    std::optional<double> fatal;
    if (Has(words, "Non-fatal") || Has(words, "Nonfatal")) {
      fatal = 0;
    } else if (Has(words, "Fatal")) {
      fatal = 1;
    }
    Add(line, number, is_switch ? SignalKind::kSxid : SignalKind::kXid, device, code, fatal);
  }

  // "mlx5_core 0000:9d:00.0 enp157s0f0np0: Link down", "tg3 ..: Link is up at 1000 Mbps".
  void TakeLink(const KernelLine& line, std::string_view device, std::string_view words) {
    if (words.starts_with("is ")) words.remove_prefix(3);
    const auto is = [&](std::string_view low, std::string_view high) {
      return words.starts_with(low) || words.starts_with(high);
    };
    if (is("up", "Up")) {
      links_.Up(line.node, device);
    } else if (is("down", "Down")) {
      links_.Down(line.node, device, false, line.at_unix_ns, raw_text(line));
      ++found_;
    }
  }

  void TakePcie(const KernelLine& line, uint64_t number) {
    const std::string_view text = line.message;
    std::optional<int64_t> severity;
    if (Has(text, "(Fatal)")) {
      severity = 2;
    } else if (Has(text, "(Non-Fatal)") || Has(text, "ncorrect")) {
      severity = 1;
    } else if (Has(text, "orrected") || Has(text, "orrectable")) {
      severity = 0;
    }
    if (!severity) return;  // "AER: enabled with IRQ 30"
    Add(line, number, SignalKind::kPcieErrors, PciAddress(text), severity);
  }

  // Several lines tell of one kill; those that name the process count.
  void TakeOutOfMemory(const KernelLine& line, uint64_t number) {
    const std::string_view text = line.message;
    std::string process;
    for (std::string_view words : {"Killed process ", "Kill process ", "reaped process "}) {
      if (!Has(text, words)) continue;
      const std::string_view rest = *Between(text, words, "");
      const auto pid = LeadingNumber<uint64_t>(rest);
      const auto name = Between(rest, "(", ")");
      if (pid) process = std::string(name.value_or("")) + "[" + std::to_string(*pid) + "]";
    }
    if (const auto task = Between(text, ",task=", ","); process.empty() && task) {
      const auto pid = Between(text, ",pid=", ",");
      process = std::string(*task) + "[" + std::string(pid.value_or("?")) + "]";
    }
    if (process.empty() && !Has(text, "oom-kill:") && !Has(text, "ut of memory: ") &&
        !Has(text, "invoked oom-killer")) {
      return;
    }
    Add(line, number, SignalKind::kOutOfMemory, process);
  }

  // "pt_main_thread[2536443]: segfault at 7f .. in libnccl.so.2[..]", "traps: python[1] general..".
  void TakeCrash(const KernelLine& line, uint64_t number) {
    std::string_view text = line.message;
    if (text.starts_with("traps: ")) text.remove_prefix(7);
    const size_t end = text.find(']');
    const bool named = end != std::string_view::npos && text.substr(0, end).find('[') < end;
    Add(line, number, SignalKind::kCrash, named ? text.substr(0, end + 1) : std::string_view());
  }

  // "INFO: task python:4242 blocked": "python[4242]".
  static std::string TaskName(std::string_view text, std::string_view before) {
    const auto word = Between(text, before, " ");
    if (!word) return "";
    const size_t colon = word->rfind(':');
    if (colon == std::string_view::npos) return std::string(*word);
    return std::string(word->substr(0, colon)) + "[" + std::string(word->substr(colon + 1)) + "]";
  }

  // The last thing of the form 0000:19:00 in the text: for AER the device, not the port above it.
  static std::string PciAddress(std::string_view text) {
    std::string address;
    for (size_t i = 0; i + 7 <= text.size(); ++i) {
      const auto is_hex = [&](size_t at) {
        const char c = text[at];
        return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      };
      if (i > 0 && (is_hex(i - 1) || text[i - 1] == ':')) continue;
      size_t end = i;
      while (end < text.size() && (is_hex(end) || text[end] == ':' || text[end] == '.')) ++end;
      const std::string_view word = text.substr(i, end - i);
      if (std::count(word.begin(), word.end(), ':') == 2 && word.size() >= 10 &&
          word.size() <= 16) {
        address = word;
      }
    }
    return address;
  }

  static std::string_view raw_text(const KernelLine& line) { return line.message.substr(0, 500); }

  void Add(const KernelLine& line, uint64_t number, SignalKind kind, std::string_view device,
           std::optional<int64_t> code = {}, std::optional<double> value = {}) {
    HostSignal signal;
    signal.kind = kind;
    signal.at_unix_ns = line.at_unix_ns;
    signal.node = line.node;
    signal.device = device;
    signal.code = code;
    signal.value = value;
    signal.text = raw_text(line);
    signal.source = "kernel log, line " + std::to_string(number);
    signals_.Add(std::move(signal));
    ++found_;
  }

  SignalList signals_;
  LinkHistory links_;
  size_t found_ = 0;
  uint64_t untimed_ = 0, broken_ = 0;
  bool local_time_ = false;
};

}  // namespace

int RecogniseKernelLog(std::string_view head) {
  size_t lines = 0, known = 0;
  bool gpu = false;
  ForEachLine(head, 300, [&](std::string_view line) {
    if (line.empty() || line.starts_with("-- ") || line.starts_with('#')) return true;
    ++lines;
    known += ParseKernelLine(line).recognised ? 1 : 0;
    gpu = gpu || Has(line, "NVRM: Xid (") || Has(line, "SXid (");
    return true;
  });
  if (known == 0 || known * 2 < lines) return 0;
  return gpu ? 80 : 65;
}

Status ReadKernelLog(Input* input, Fragment* fragment) {
  KernelLog log;
  LineReader lines(input);
  while (const auto line = lines.Next()) log.Take(*line, lines.number());
  log.MoveTo(fragment);
  lines.AddNotes(fragment);
  if (lines.number() == 0 && !lines.status().ok()) return lines.status();
  return Status::Ok();
}

}  // namespace flare::import
