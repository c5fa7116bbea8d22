// SPDX-License-Identifier: Apache-2.0
#pragma once

// The version that the library tells programs and writes into segments.
namespace flare {

inline constexpr char kLibraryVersion[] = FLARE_VERSION;

}  // namespace flare
