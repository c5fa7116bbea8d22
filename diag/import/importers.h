// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/import/importer.h"

// The importers, each in the file of its name. importer_list.cc puts them in the table.
namespace flare::import {

int RecogniseFlightRecorder(std::string_view head);
Status ReadFlightRecorder(Input* input, Fragment* fragment);

}  // namespace flare::import
