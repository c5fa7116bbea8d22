// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What a job is called when nobody else names it.
namespace flare::cli {

// For people: the script or program of a command, such as "train" for
// `torchrun --nproc-per-node 4 train.py`. Never empty.
std::string NameOfCommand(const std::vector<std::string>& command);

// `name` as an id: other characters become "_", at most 63 of them, never empty.
std::string PlainId(const std::string& name);

// Unique and fit for a file name, at most 63 characters: "<name>-20260314-140322-5f3a9c".
std::string MakeJobId(const std::string& name, uint64_t unix_ns, uint32_t random);

// The id that this environment already gives to the job: $FLARE_JOB, else that of a Slurm step of
// several tasks, each of which may have a `flare run` of its own. As libflare would choose it;
// empty when there is none or it is unfit for a file name.
std::string InheritedJobId();

}  // namespace flare::cli
