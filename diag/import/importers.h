// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/import/importer.h"

// The importers, each in the file of its name. importer_list.cc puts them in the table.
namespace flare::import {

int RecogniseKineto(std::string_view head);
Status ReadKineto(Input* input, Fragment* fragment);

int RecogniseOperationTimeline(std::string_view head);
Status ReadOperationTimeline(Input* input, Fragment* fragment);

}  // namespace flare::import
