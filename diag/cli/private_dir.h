// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libflare/core/status.h"

// Folders that only this user may enter, and where FLARE puts them.
namespace flare::cli {

// Makes `path` (and what is above it) with mode 0700. Refuses a last component that is a symbolic
// link, belongs to another user or lets others in.
Status MakePrivateDir(const std::string& path);

// Removes a folder of ours with everything in it, without following symbolic links.
void RemoveTree(const std::string& path);

// $XDG_STATE_HOME/flare, else ~/.local/state/flare.
std::string DefaultStateDir();

// Where libflare and a standalone flared meet: $FLARE_DIR, else /dev/shm/flare-<uid>.
std::string DefaultSegmentDir();

// Where one `flare run` keeps its socket and the record that leads to it: <state>/runs/<name>.
std::string RunDir(const std::string& state_dir, const std::string& name);

// Those folders that exist.
std::vector<std::string> RunDirs(const std::string& state_dir);

// A path for the socket of an embedded engine, short enough for a socket address (107 bytes): in
// `run_dir`, else in $XDG_RUNTIME_DIR, else in /tmp. Its folder is made.
Result<std::string> SocketPath(const std::string& run_dir, const std::string& name);

// Removes such a socket, given as unix:PATH, and its folder when nothing else is in it.
void RemoveSocket(const std::string& address);

// A standalone flared holds the lock of this segment folder.
bool StandaloneDaemonServes(const std::string& segment_dir);

// Which release that flared is of; empty when it does not say. Untrusted text.
std::string StandaloneDaemonVersion(const std::string& segment_dir);

}  // namespace flare::cli
