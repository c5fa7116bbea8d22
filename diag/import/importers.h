// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/import/importer.h"

// The importers, each in the file of its name. importer_list.cc puts them in the table.
namespace flare::import {

// Stacks of processes.
int RecognisePySpy(std::string_view head);
Status ReadPySpy(Input* input, Fragment* fragment);
int RecognisePySpyJson(std::string_view head);
Status ReadPySpyJson(Input* input, Fragment* fragment);
int RecogniseFaulthandler(std::string_view head);
Status ReadFaulthandler(Input* input, Fragment* fragment);
int RecogniseGdbBacktrace(std::string_view head);
Status ReadGdbBacktrace(Input* input, Fragment* fragment);
int RecogniseStackSvg(std::string_view head);
Status ReadStackSvg(Input* input, Fragment* fragment);

// What the host and its devices say.
int RecogniseKernelLog(std::string_view head);
Status ReadKernelLog(Input* input, Fragment* fragment);
int RecogniseFabricManager(std::string_view head);
Status ReadFabricManager(Input* input, Fragment* fragment);
int RecogniseNvidiaSmi(std::string_view head);
Status ReadNvidiaSmi(Input* input, Fragment* fragment);
int RecogniseInfiniband(std::string_view head);
Status ReadInfiniband(Input* input, Fragment* fragment);
int RecogniseInfinibandSysfs(std::string_view head);
Status ReadInfinibandSysfs(Input* input, Fragment* fragment);
int RecogniseDcgm(std::string_view head);
Status ReadDcgm(Input* input, Fragment* fragment);
int RecogniseDcgmJson(std::string_view head);
Status ReadDcgmJson(Input* input, Fragment* fragment);
int RecognisePrometheus(std::string_view head);
Status ReadPrometheus(Input* input, Fragment* fragment);
int RecogniseFlightRecorder(std::string_view head);
Status ReadFlightRecorder(Input* input, Fragment* fragment);
int RecogniseKineto(std::string_view head);
Status ReadKineto(Input* input, Fragment* fragment);

int RecogniseOperationTimeline(std::string_view head);
Status ReadOperationTimeline(Input* input, Fragment* fragment);
int RecogniseNcclRas(std::string_view head);
Status ReadNcclRas(Input* input, Fragment* fragment);
int RecogniseNcclInspector(std::string_view head);
Status ReadNcclInspector(Input* input, Fragment* fragment);
int RecogniseNsight(std::string_view head);
Status ReadNsight(Input* input, Fragment* fragment);
int RecogniseStepTable(std::string_view head);
Status ReadStepTable(Input* input, Fragment* fragment);
int RecogniseJobOutput(std::string_view head);
Status ReadJobOutput(Input* input, Fragment* fragment);

// What `flare trace` wrote.
int RecogniseFlareTrace(std::string_view head);
Status ReadFlareTrace(Input* input, Fragment* fragment);
int RecognisePerfettoTrace(std::string_view head);
Status ReadPerfettoTrace(Input* input, Fragment* fragment);

}  // namespace flare::import
