// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/api_list.h"

#include <string.h>

namespace flare::python {

namespace {

constexpr WrapperKind kDataLoad = {EventKind::kDataLoad, Role::kSpan, nullptr};
constexpr WrapperKind kBackward = {EventKind::kBackward, Role::kSpan, nullptr};
constexpr WrapperKind kCheckpoint = {EventKind::kCheckpoint, Role::kSpan, nullptr};
constexpr WrapperKind kReady = {EventKind::kNone, Role::kOptimizerReady, nullptr};

// A function that a package shows under two names is listed under both: callers use either.
constexpr Target kOwnTargets[] = {
    {"gc", "", Action::kGcCallback, {}},
    {"torch", "", Action::kTorchFacts, {}},
    {"torch.optim.optimizer", "Optimizer@__init__", Action::kOptimizers, kReady},
    {"torch.optim.optimizer", "Optimizer@__setstate__", Action::kWrap, kReady},
    {"torch.utils.data.dataloader", "_BaseDataLoaderIter@__next__", Action::kWrapWithSubclasses,
     kDataLoad},
    {"torch.autograd", "backward", Action::kWrap, kBackward},
    {"torch.serialization", "save", Action::kWrap, kCheckpoint},
    {"torch", "save", Action::kWrap, kCheckpoint},
    {"torch.distributed.checkpoint.state_dict_saver", "save", Action::kWrap, kCheckpoint},
    {"torch.distributed.checkpoint", "save", Action::kWrap, kCheckpoint},
    {"torch.distributed.checkpoint.state_dict_saver", "async_save", Action::kWrap, kCheckpoint},
    {"torch.distributed.checkpoint", "async_save", Action::kWrap, kCheckpoint},
    {"torch.distributed.checkpoint.state_dict_saver", "save_state_dict", Action::kWrap,
     kCheckpoint},
    {"torch.distributed.checkpoint", "save_state_dict", Action::kWrap, kCheckpoint},
    {"torch.distributed._shard.checkpoint.state_dict_saver", "save_state_dict", Action::kWrap,
     kCheckpoint},
    {"torch.distributed._shard.checkpoint", "save_state_dict", Action::kWrap, kCheckpoint},
};
constexpr int kOwnCount = sizeof(kOwnTargets) / sizeof(kOwnTargets[0]);

char g_paths[kUserTextBytes];  // entries, cut at the module's end
char g_names[kUserTextBytes];  // the same entries as "module.Class.function"
constinit Target g_user_targets[kMaxUserTargets] = {};
int g_user_count = 0;

bool HasEmptyPart(const char* text, size_t length) {
  for (size_t i = 0; i <= length; ++i) {
    const bool ends = i == length || text[i] == '@';
    if (ends && (i == 0 || text[i - 1] == '@')) return true;
  }
  return false;
}

// Adds the entry at `offset` of both copies.
void AddEntry(size_t offset, size_t length) {
  char* entry = g_paths + offset;
  char* name = g_names + offset;
  entry[length] = '\0';
  name[length] = '\0';
  char* at = strchr(entry, '@');
  if (at == nullptr || HasEmptyPart(entry, length) || g_user_count == kMaxUserTargets) return;
  for (size_t i = 0; i < length; ++i) {
    if (name[i] == '@') name[i] = '.';
  }
  *at = '\0';
  g_user_targets[g_user_count++] = {
      entry, at + 1, Action::kWrap, {EventKind::kUserCall, Role::kSpan, name}};
}

}  // namespace

void ReadUserTargets(const char* text) {
  if (text == nullptr) return;
  const size_t length = strlen(text);
  size_t begin = 0;
  while (begin < length) {
    const size_t end = begin + strcspn(text + begin, ", ");
    if (end >= kUserTextBytes) return;
    memcpy(g_paths + begin, text + begin, end - begin);
    memcpy(g_names + begin, text + begin, end - begin);
    AddEntry(begin, end - begin);
    begin = end + 1;
  }
}

int TargetCount() { return kOwnCount + g_user_count; }

const Target& TargetAt(int index) {
  return index < kOwnCount ? kOwnTargets[index] : g_user_targets[index - kOwnCount];
}

}  // namespace flare::python
