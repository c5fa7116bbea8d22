// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/import/importer.h"

// The importers, each in the file of its name. importer_list.cc puts them in the table.
namespace flare::import {

}  // namespace flare::import
