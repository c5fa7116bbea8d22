// SPDX-License-Identifier: Apache-2.0
#include "diag/import/pickle.h"

#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "diag/import/python_text.h"

namespace flare::import {
namespace {

// Why an instruction is refused: it names something outside the file, or does something with it.
const char* RefusedName(unsigned char opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x81:
      return "NEWOBJ";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x93:
      return "STACK_GLOBAL";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return nullptr;
  }
}

class Machine {
 public:
  Machine(std::string_view bytes, ValueStore* store, const PickleLimits& limits)
      : bytes_(bytes), store_(store), limits_(limits) {}

  Result<Pickle> Run() {
    while (status_.ok() && !stopped_) {
      start_ = at_;
      if (at_ == bytes_.size()) {
        short_ = true;
      } else {
        Step(static_cast<unsigned char>(bytes_[at_++]));
      }
      if (short_) return CloseOpen();
    }
    if (!status_.ok()) return status_;
    return Pickle{stack_.back(), Status::Ok()};
  }

 private:
  void Fail(const std::string& why) {
    if (status_.ok())
      status_ = Status::Error("pickle, byte " + std::to_string(start_) + ": " + why);
  }

  // ---- Reading. What reaches beyond the end sets short_ and gives nothing.

  std::string_view Take(uint64_t size) {
    if (size > bytes_.size() - at_) {
      short_ = true;
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  uint64_t TakeUnsigned(size_t size) {
    uint64_t number = 0;
    const std::string_view raw = Take(size);
    for (size_t i = raw.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(raw[i]);
    return number;
  }

  std::string_view TakeLine() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      short_ = true;
      return {};
    }
    const std::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
  }

  // ---- The stack.

  void Push(Value value) {
    if (short_) return;
    if (++pushed_ > limits_.max_values) return Fail("holds more values than a reader can keep");
    stack_.push_back(value);
  }

  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  bool Has(size_t count) {
    if (stack_.size() - Floor() >= count) return true;
    Fail("takes more values than there are");
    return false;
  }

  Value Pop() {
    if (!Has(1)) return Value();
    const Value top = stack_.back();
    stack_.pop_back();
    return top;
  }

  // The values since the last mark, which is taken away.
  std::vector<Value> PopToMark() {
    if (marks_.empty()) {
      Fail("ends a container that was not begun");
      return {};
    }
    std::vector<Value> values(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  void PushList(std::vector<Value> items) {
    const Value list = store_->NewList();
    *store_->List(list) = std::move(items);
    Push(list);
  }

  bool AppendTo(const Value& list, const std::vector<Value>& items) {
    std::vector<Value>* target = store_->List(list);
    if (target) target->insert(target->end(), items.begin(), items.end());
    return target != nullptr;
  }

  bool PutInto(const Value& table, const std::vector<Value>& pairs) {
    std::vector<Value::Member>* target = store_->Table(table);
    if (!target) return false;
    target->reserve(target->size() + pairs.size() / 2);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) target->push_back({pairs[i], pairs[i + 1]});
    return true;
  }

  void AppendItems(const std::vector<Value>& items) {
    if (!status_.ok() || !Has(1)) return;
    if (!AppendTo(stack_.back(), items)) Fail("adds to something that is no list");
  }

  void SetItems(const std::vector<Value>& pairs) {
    if (!status_.ok() || !Has(1)) return;
    if (pairs.size() % 2 != 0) return Fail("a key without a value");
    if (!PutInto(stack_.back(), pairs)) Fail("sets a key of something that is no dictionary");
  }

  void PushTuple(size_t count) {
    if (!Has(count)) return;
    std::vector<Value> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    PushList(std::move(items));
  }

  // ---- The memo. Writers count up; a number that runs far ahead would only take memory.

  void Remember(uint64_t number) {
    constexpr uint64_t kAhead = 1024;
    if (short_ || !Has(1)) return;
    if (number > remembered_ + kAhead) {
      return Fail("memo " + std::to_string(number) + " is out of order");
    }
    if (number >= memo_.size()) memo_.resize(number + 1);
    if (!memo_[number].known) ++remembered_;
    memo_[number] = {stack_.back(), true};
  }

  void Recall(uint64_t number) {
    if (short_) return;
    if (number >= memo_.size() || !memo_[number].known) {
      return Fail("memo " + std::to_string(number) + " was never set");
    }
    Push(memo_[number].value);
  }

  uint64_t LineNumber() {
    const std::string_view line = TakeLine();
    uint64_t number = 0;
    const char* const end = line.data() + line.size();
    const auto parsed = std::from_chars(line.data(), end, number);
    if (!short_ && (parsed.ec != std::errc() || parsed.ptr != end)) Fail("a memo without a number");
    return number;
  }

  // ---- Numbers.

  void PushDecimal(std::string_view digits) {
    if (short_) return;
    int64_t number = 0;
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) return Push(Value::Integer(number));
    PushReal(digits);
  }

  void PushReal(std::string_view digits) {
    if (short_) return;
    double number = 0;
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, number);
    const bool whole = parsed.ptr == end && !digits.empty();
    if (!whole || (parsed.ec != std::errc() && parsed.ec != std::errc::result_out_of_range)) {
      return Fail("not a number");
    }
    Push(Value::Real(number));
  }

  // Two's complement, least byte first.
  void PushLong(uint64_t size) {
    const std::string_view raw = Take(size);
    if (short_) return;
    if (raw.empty()) return Push(Value::Integer(0));
    const bool negative = (static_cast<unsigned char>(raw.back()) & 0x80) != 0;
    if (raw.size() <= 8) {
      uint64_t bits = negative ? ~uint64_t{0} : 0;
      for (size_t i = raw.size(); i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(raw[i]);
      return Push(Value::Integer(static_cast<int64_t>(bits)));
    }
    double number = 0;
    for (size_t i = raw.size(); i-- > 0;) {
      const unsigned char byte = static_cast<unsigned char>(raw[i]);
      number = number * 256 + (negative ? static_cast<double>(byte) - 255 : byte);
    }
    Push(Value::Real(negative ? number - 1 : number));
  }

  // ---- Texts.

  void PushText(uint64_t size) {
    const std::string_view text = Take(size);
    if (text.size() > UINT32_MAX) return Fail("a text of more than 4 GiB");
    Push(Value::Text(text));
  }

  void PushEscaped(std::string_view text) {
    if (short_) return;
    if (text.find('\\') == std::string_view::npos) return Push(Value::Text(text));
    Push(store_->Keep(UnescapePython(text)));
  }

  void PushQuoted() {
    const std::string_view line = TakeLine();
    if (short_) return;
    if (line.size() < 2 || line.front() != line.back() || (line[0] != '\'' && line[0] != '"')) {
      return Fail("a text without quotes");
    }
    PushEscaped(line.substr(1, line.size() - 2));
  }

  // ---- Instructions.

  void Step(unsigned char opcode) {
    if (const char* name = RefusedName(opcode)) {
      return Fail(std::string("the instruction ") + name +
                  " would name or call something of Python; refused, nothing was executed");
    }
    switch (opcode) {
      case '(':
        if (marks_.size() >= limits_.max_marks) return Fail("nested too deeply");
        return marks_.push_back(stack_.size());
      case '.':
        stopped_ = Has(1);
        return;
      case '0':
        // POP takes a mark when nothing lies above it.
        if (!marks_.empty() && stack_.size() == marks_.back()) return marks_.pop_back();
        Pop();
        return;
      case '1':
        PopToMark();
        return;
      case '2':
        return Has(1) ? Push(stack_.back()) : void();

      case 'N':
        return Push(Value());
      case 0x88:
        return Push(Value::Bool(true));
      case 0x89:
        return Push(Value::Bool(false));
      case 'J':
        return Push(Value::Integer(static_cast<int32_t>(TakeUnsigned(4))));
      case 'K':
        return Push(Value::Integer(static_cast<int64_t>(TakeUnsigned(1))));
      case 'M':
        return Push(Value::Integer(static_cast<int64_t>(TakeUnsigned(2))));
      case 'I': {
        const std::string_view line = TakeLine();
        if (line == "00" || line == "01") return Push(Value::Bool(line == "01"));
        return PushDecimal(line);
      }
      case 'L': {
        const std::string_view line = TakeLine();
        return PushDecimal(line.ends_with('L') ? line.substr(0, line.size() - 1) : line);
      }
      case 0x8a:
        return PushLong(TakeUnsigned(1));
      case 0x8b:
        return PushLong(TakeUnsigned(4));
      case 'F':
        return PushReal(TakeLine());
      case 'G': {  // the one number with its greatest byte first
        uint64_t bits = 0;
        for (const char c : Take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
        return Push(Value::Real(std::bit_cast<double>(bits)));
      }

      case 'S':
        return PushQuoted();
      case 'V':
        return PushEscaped(TakeLine());
      case 'U':
      case 'C':
      case 0x8c:
        return PushText(TakeUnsigned(1));
      case 'T':
      case 'B':
      case 'X':
        return PushText(TakeUnsigned(4));
      case 0x8d:
      case 0x8e:
      case 0x96:
        return PushText(TakeUnsigned(8));

      case ']':
      case ')':
      case 0x8f:
        return Push(store_->NewList());
      case 'l':
      case 't':
      case 0x91:
        return PushList(PopToMark());
      case 0x85:
        return PushTuple(1);
      case 0x86:
        return PushTuple(2);
      case 0x87:
        return PushTuple(3);
      case 'a':
        return Has(2) ? AppendItems({Pop()}) : void();
      case 'e':
      case 0x90:
        return AppendItems(PopToMark());
      case '}':
        return Push(store_->NewTable());
      case 'd': {
        const std::vector<Value> pairs = PopToMark();
        Push(store_->NewTable());
        return SetItems(pairs);
      }
      case 's': {
        if (!Has(3)) return;
        const Value value = Pop(), key = Pop();
        return SetItems({key, value});
      }
      case 'u':
        return SetItems(PopToMark());

      case 'p':
        return Remember(LineNumber());
      case 'q':
        return Remember(TakeUnsigned(1));
      case 'r':
        return Remember(TakeUnsigned(4));
      case 0x94:
        return Remember(remembered_);
      case 'g':
        return Recall(LineNumber());
      case 'h':
        return Recall(TakeUnsigned(1));
      case 'j':
        return Recall(TakeUnsigned(4));

      case 0x80:
        if (const uint64_t protocol = TakeUnsigned(1); protocol > 5) {
          Fail("protocol " + std::to_string(protocol) + " is not known");
        }
        return;
      case 0x95:
        Take(8);
        return;  // FRAME: only a hint for readers of streams
      default: {
        char text[64];
        std::snprintf(text, sizeof text, "0x%02x is no instruction of a pickle", opcode);
        return Fail(text);
      }
    }
  }

  // Values that lie above a mark belong to the container below it.
  Result<Pickle> CloseOpen() {
    if (stack_.empty()) return Status::Error("pickle: ends before anything was said");
    while (!marks_.empty()) {
      const std::vector<Value> values = PopToMark();
      if (stack_.empty()) break;
      if (!AppendTo(stack_.back(), values)) PutInto(stack_.back(), values);
    }
    if (stack_.empty()) return Status::Error("pickle: ends before anything was complete");
    return Pickle{stack_.front(),
                  Status::Error("the pickle is cut off at byte " + std::to_string(bytes_.size()))};
  }

  const std::string_view bytes_;
  ValueStore* const store_;
  const PickleLimits limits_;
  size_t at_ = 0;
  size_t start_ = 0;  // of the instruction being done
  bool short_ = false, stopped_ = false;
  Status status_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  struct Memo {
    Value value;
    bool known = false;
  };
  std::vector<Memo> memo_;
  uint64_t remembered_ = 0;  // numbers in use
  size_t pushed_ = 0;
};

}  // namespace

Result<Pickle> ReadPickle(std::string_view bytes, ValueStore* store, const PickleLimits& limits) {
  return Machine(bytes, store, limits).Run();
}

}  // namespace flare::import
