// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diag/model/job.h"

// The words in which verdicts speak, so that all detectors say the same thing the same way.
namespace flare::diag {

std::string DurationText(uint64_t duration_ns);             // "350 ms", "4.2 s", "38 s", "12 min"
std::string BytesText(uint64_t bytes);                      // "4 B", "25.0 MiB"
std::string OperationText(Operation operation);             // "all-reduce"
std::string DataTypeText(DataType type);                    // "float32"; empty when unknown
std::string RankText(const Job& job, Rank rank);            // "rank 2 on node a"
std::string RanksText(const std::vector<Rank>& ranks);      // "rank 2", "ranks 0, 1 and 3-7"
std::string CountText(size_t count, const char* singular);  // "1 rank", "3 ranks"
std::string FrameText(const StackFrame& frame);             // "train_step (train.py:41)"
std::string Capitalized(std::string text);

// "all-reduce #118 of 4 B float32".
std::string CollectiveText(Operation operation, DataType type, uint64_t bytes, uint64_t sequence);

// The call in words: "all-reduce #118", "recv from group rank 1", "process group creation".
std::string CallText(const OpenCall& call);

}  // namespace flare::diag
