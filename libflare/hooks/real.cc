// SPDX-License-Identifier: Apache-2.0
#include "libflare/hooks/real.h"

#include <link.h>

#include "libflare/glibc_compat.h"
#include "libflare/recorder_state.h"

namespace flare {
namespace {

// Address of something in this library, to tell our own symbols from others.
bool IsOurs(const void* address) {
  Dl_info here, there;
  return dladdr(reinterpret_cast<const void*>(&FindSymbol), &here) != 0 &&
         dladdr(address, &there) != 0 && here.dli_fbase == there.dli_fbase;
}

// A symbol of the loaded library `path` or of what it depends on. The handle is not closed: the
// library must not go away while we hold a pointer into it.
void* FindIn(const char* path, const char* name) {
  void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* symbol = dlsym(handle, name);
  return symbol != nullptr && !IsOurs(symbol) ? symbol : nullptr;
}

constexpr uint32_t kRememberedPlaces = 64;

struct RememberedPlace {
  std::atomic<const void*> address{nullptr};
  CodePlace place{};
};
constinit RememberedPlace g_places[kRememberedPlaces];
constinit std::atomic<uint32_t> g_places_lock{0};

CodePlace AskLoader(const void* address) {
  if (dladdr == nullptr) return {nullptr, false};
  Dl_info info;
  if (dladdr(address, &info) == 0) return {nullptr, false};
  return {info.dli_saddr, IsOurs(address)};
}

struct Search {
  const char* name;
  void* symbol;
};

int VisitLibrary(dl_phdr_info* library, size_t, void* argument) {
  Search* search = static_cast<Search*>(argument);
  if (library->dlpi_name == nullptr || library->dlpi_name[0] == '\0') return 0;
  search->symbol = FindIn(library->dlpi_name, search->name);
  return search->symbol != nullptr;
}

}  // namespace

CodePlace LocateCode(const void* address) {
  for (const RememberedPlace& known : g_places) {
    const void* held = known.address.load(std::memory_order_acquire);
    if (held == address) return known.place;
    if (held == nullptr) break;
  }
  const CodePlace place = AskLoader(address);
  SlowLock lock(&g_places_lock);
  for (RememberedPlace& free : g_places) {
    if (free.address.load(std::memory_order_relaxed) != nullptr) continue;
    free.place = place;
    free.address.store(address, std::memory_order_release);
    break;
  }
  return place;
}

void* FindSymbol(const void* caller, const char* name) {
  if (dlsym == nullptr || dlopen == nullptr || dladdr == nullptr) return nullptr;
  Dl_info info;
  if (dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
    void* symbol = FindIn(info.dli_fname, name);
    if (symbol != nullptr) return symbol;
  }
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol != nullptr) return symbol;
  Search search{name, nullptr};
  dl_iterate_phdr(VisitLibrary, &search);
  return search.symbol;
}

void* RealFunction::Find(const void* caller) {
  ErrnoKeeper keep;
  void* pointer = FindSymbol(caller, name_);
  if (pointer != nullptr) pointer_.store(pointer, std::memory_order_release);
  return pointer;
}

}  // namespace flare
