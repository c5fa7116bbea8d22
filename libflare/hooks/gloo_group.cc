// SPDX-License-Identifier: Apache-2.0
#include "libflare/hooks/gloo_group.h"

#include <cstring>

#include "libflare/core/bounded_text.h"
#include "libflare/glibc_compat.h"
#include "libflare/hooks/gloo_object.h"
#include "libflare/hooks/real.h"
#include "libflare/recorder.h"
#include "libflare/recorder_state.h"

namespace flare {
namespace {

constexpr int kMaxPrefixes = 8;
constexpr uint32_t kMaxGroups = 256;

// A std::string of libstdc++'s current ABI, made and read by hand. Returned through memory, as the
// real class is: the copy constructor, which nothing calls, tells the compiler so.
struct StringRef {
  char* text;
  uint64_t length;
  union {
    char local[16];
    uint64_t capacity;
  };
  StringRef() : text(local), length(0), local{} {}
  StringRef(const StringRef&);
};

struct StoreFunctions {
  const void* prefix_store_vtable = nullptr;
  StringRef (*join_key)(void* store, const StringRef* key) = nullptr;
  ObjectRef (*underlying_store)(void* store) = nullptr;
  void (*operator_delete)(void* memory) = nullptr;

  bool complete() const {
    return prefix_store_vtable != nullptr && join_key != nullptr && underlying_store != nullptr &&
           operator_delete != nullptr;
  }
};

template <typename Function>
void Find(const void* caller, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(FindSymbol(caller, name));
}

StoreFunctions FindStoreFunctions(const void* caller) {
  StoreFunctions functions;
  Find(caller, "_ZTVN4c10d11PrefixStoreE", &functions.prefix_store_vtable);
  Find(caller,
       "_ZN4c10d11PrefixStore7joinKeyERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
       &functions.join_key);
  Find(caller, "_ZN4c10d11PrefixStore18getUnderlyingStoreEv", &functions.underlying_store);
  // The one that the program uses comes first: it may be that of another allocator.
  functions.operator_delete =
      reinterpret_cast<void (*)(void*)>(dlsym == nullptr ? nullptr : dlsym(RTLD_DEFAULT, "_ZdlPv"));
  if (functions.operator_delete == nullptr) Find(caller, "_ZdlPv", &functions.operator_delete);
  return functions;
}

bool IsPrefixStore(const StoreFunctions& functions, const void* store) {
  // An object's first word points behind the two leading entries of its class's table.
  const char* table = *static_cast<const char* const*>(store);
  return table == static_cast<const char*>(functions.prefix_store_vtable) + 2 * sizeof(void*);
}

// Copies the prefix, without the separator that joining puts behind it.
void ReadPrefix(const StoreFunctions& functions, void* store, char (&prefix)[kNameBytes]) {
  const StringRef empty_key;
  StringRef joined = functions.join_key(store, &empty_key);
  BoundedText text(prefix);
  for (uint64_t i = 0; i < joined.length; ++i) text.AddChar(joined.text[i]);
  size_t length = text.length();
  while (length > 0 && prefix[length - 1] == '/') prefix[--length] = '\0';
  if (joined.text != joined.local) functions.operator_delete(joined.text);
}

// The store under a prefix store, without keeping a reference to it. The prefix store holds one of
// its own all the while, so ours is never the last and giving it back is a plain decrement. All
// versions of PyTorch keep the count of owners in the low half of the word behind the vtable.
void* UnderlyingStore(const StoreFunctions& functions, void* store) {
  ObjectRef reference = functions.underlying_store(store);
  if (reference.object == nullptr) return nullptr;
  auto* owners = reinterpret_cast<std::atomic<uint32_t>*>(static_cast<char*>(reference.object) +
                                                          sizeof(void*));
  // Fewer than two would mean that this is not the count: then we rather keep the reference.
  if (owners->load(std::memory_order_relaxed) >= 2) owners->fetch_sub(1, std::memory_order_acq_rel);
  return reference.object;
}

uint64_t Hash(uint64_t hash, const char* text) {
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3ull;
  }
  return (hash ^ '/') * 0x100000001b3ull;
}

uint64_t Finish(uint64_t hash, uint32_t size) {
  hash ^= size;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
  hash ^= hash >> 31;
  return hash == 0 ? 1 : hash;
}

constexpr uint64_t kHashStart = 0xcbf29ce484222325ull;

struct GroupPlace {
  std::atomic<uint64_t> key{0};
  GlooGroup group;
};
constinit GroupPlace g_groups[kMaxGroups];
constinit std::atomic<uint32_t> g_groups_lock{0};
constinit std::atomic<uint32_t> g_groups_made{0};

uint32_t Home(uint64_t key) {
  return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15ull) >> 48) % kMaxGroups;
}

}  // namespace

GroupIdentity IdentifyGroup(const void* caller, void* store, uint32_t size) {
  GroupIdentity identity = {};
  const uint32_t order = g_groups_made.fetch_add(1, std::memory_order_relaxed);
  const StoreFunctions functions = FindStoreFunctions(caller);
  char prefixes[kMaxPrefixes][kNameBytes];
  int count = 0;
  if (functions.complete() && store != nullptr) {
    while (count < kMaxPrefixes && store != nullptr && IsPrefixStore(functions, store)) {
      ReadPrefix(functions, store, prefixes[count++]);
      store = UnderlyingStore(functions, store);
    }
  }
  uint64_t hash = kHashStart;
  char chain[kMaxPrefixes * kNameBytes];
  BoundedText text(chain);
  for (int i = count - 1; i >= 0; --i) {
    hash = Hash(hash, prefixes[i]);
    text.Add(prefixes[i]);
    if (i > 0) text.AddChar('/');
  }
  if (count == 0) {
    text.Add("group ").AddNumber(order);
    hash = Hash(hash, chain);
  }
  identity.comm = Finish(hash, size);
  const size_t kept = sizeof(identity.name) - 1;
  BoundedText(identity.name).Add(text.length() > kept ? chain + text.length() - kept : chain);
  return identity;
}

void AddGroup(const void* process_group, const GlooGroup& group) {
  SlowLock lock(&g_groups_lock);
  const uint64_t key = reinterpret_cast<uintptr_t>(process_group);
  const uint32_t home = Home(key);
  GroupPlace* place = &g_groups[home];  // given up when all others are taken
  for (uint32_t i = 0; i < kMaxGroups; ++i) {
    GroupPlace* candidate = &g_groups[(home + i) % kMaxGroups];
    const uint64_t holder = candidate->key.load(std::memory_order_relaxed);
    if (holder != key && holder != 0) continue;
    place = candidate;
    break;
  }
  place->key.store(1, std::memory_order_release);
  place->group = group;
  place->key.store(key, std::memory_order_release);
}

GlooGroup FindGroup(const void* process_group) {
  const uint64_t key = reinterpret_cast<uintptr_t>(process_group);
  const uint32_t home = Home(key);
  for (uint32_t i = 0; i < kMaxGroups; ++i) {
    const GroupPlace& place = g_groups[(home + i) % kMaxGroups];
    const uint64_t holder = place.key.load(std::memory_order_acquire);
    if (holder == key) return place.group;
    if (holder == 0) break;
  }
  return {};
}

}  // namespace flare
