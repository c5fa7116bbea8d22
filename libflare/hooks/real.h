// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

// The pointer to the function that a hook stands in for.
//
// Python loads libraries with local scope, where RTLD_NEXT does not look. So the search starts at
// the library that called the hook: it goes through that library and what it depends on, which is
// where the call would have gone without us. Any thread; the search is done once and may take the
// loader's lock, afterwards Get is one load.
namespace flare {

class RealFunction {
 public:
  constexpr explicit RealFunction(const char* name) : name_(name) {}

  // `caller` is __builtin_return_address(0) of the hook. Null when no such function exists, which
  // the hook's having been called nearly rules out.
  void* Get(const void* caller) {
    void* pointer = pointer_.load(std::memory_order_acquire);
    return __builtin_expect(pointer != nullptr, 1) ? pointer : Find(caller);
  }

 private:
  void* Find(const void* caller);

  const char* name_;
  std::atomic<void*> pointer_{nullptr};
};

// Start of the exported function that `address` lies in; null when it lies in none.
// `in_this_library` says whether the address is ours. The answer is remembered for a few addresses,
// which are to be those of call sites; the first answer takes about a millisecond in a large
// library.
struct CodePlace {
  const void* function;
  bool in_this_library;
};
CodePlace LocateCode(const void* address);

// The same search for any symbol, functions of ours excluded. Null when not found.
void* FindSymbol(const void* caller, const char* name);

}  // namespace flare
