// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "libflare/core/status.h"

// The folder in which an engine keeps its database, and what tells engines apart that share it.
//
//   flare.db          the store
//   engine.lock       locked while an advertised engine runs: there is at most one
//   engine.addr       its address, one line; gone when it ends
//   owner-<id>.lock   locked while the engine <id> runs; jobs remember the id of their engine
//
// `flare run` brings an engine of its own, so several may share a folder; a job whose engine is
// gone is continued by the next advertised one. Locks are flock() and vanish with the process.
namespace flare::diag {

class StateDir {
 public:
  // Creates the folder (mode 0700) when it is not there.
  static Result<std::unique_ptr<StateDir>> Open(const std::string& path, bool advertise);
  // Gives the locks back and removes what it wrote.
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  // Writes engine.addr; does nothing when not advertised.
  Status Advertise(const std::string& address);
  // True when no living engine has this id. An id that cannot be one counts as gone.
  bool OwnerIsGone(const std::string& owner) const;

  const std::string& owner() const { return owner_; }
  std::string database() const { return path_ + "/flare.db"; }

 private:
  StateDir(std::string path, bool advertise) : path_(std::move(path)), advertise_(advertise) {}
  Status LockAll();
  std::string OwnerLock(const std::string& owner) const {
    return path_ + "/owner-" + owner + ".lock";
  }
  void RemoveStaleLocks() const;

  const std::string path_;
  const bool advertise_;
  std::string owner_;
  int engine_lock_ = -1;
  int owner_lock_ = -1;
  bool advertised_ = false;
};

// $XDG_STATE_HOME/flare, else ~/.local/state/flare.
std::string DefaultStateDir();

}  // namespace flare::diag
