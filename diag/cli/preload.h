// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "libflare/core/status.h"

// Finding libflare.so and making sure that preloading it does no harm before a job gets it.
namespace flare::cli {

// $FLARE_PRELOAD; else libflare.so beside this program, as installed and as built.
Result<std::string> FindLibrary();

// Value of LD_PRELOAD that adds `library` to what is there, or leaves it when it is there already.
std::string PreloadValue(const std::string& existing, const std::string& library);

// Runs `true` with LD_PRELOAD set to `value`: it must exit with 0 and print nothing, or fare
// exactly as without our addition.
Status TryPreload(const std::string& value);

// Wakes libflare in `true` in a folder of its own and looks at the segment it leaves.
Status TryWaking(const std::string& value);

}  // namespace flare::cli
