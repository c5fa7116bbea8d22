// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/xid_table.h"

#include <array>

namespace flare::diag {
namespace {

constexpr std::array kFacts = {
    XidFact{8, XidClass::kDevice, false, "the GPU stopped taking work"},
    XidFact{11, XidClass::kProgram, false, "the stream of commands was not valid"},
    XidFact{13, XidClass::kProgram, true,
            "a kernel of the program faulted (an address out of range, an illegal instruction)"},
    XidFact{14, XidClass::kNoFault, false, "unused"},
    XidFact{25, XidClass::kProgram, false, "the stream of commands was not valid"},
    XidFact{31, XidClass::kProgram, true, "the program used an address that is not mapped"},
    XidFact{32, XidClass::kProgram, false, "the stream of commands was corrupted"},
    XidFact{37, XidClass::kNoFault, false, "the driver's firmware refused a method"},
    XidFact{38, XidClass::kNoFault, false, "the driver's firmware was slow"},
    XidFact{39, XidClass::kDevice, false, "a copy engine faulted"},
    XidFact{40, XidClass::kDevice, false, "a copy engine faulted"},
    XidFact{41, XidClass::kDevice, false, "a copy engine faulted"},
    XidFact{43, XidClass::kProgram, true,
            "the program's work on the GPU was ended after a fault of its own"},
    XidFact{44, XidClass::kNoFault, false, "a fault while switching contexts"},
    XidFact{45, XidClass::kNoFault, false,
            "work was removed after another error, or because its process was ended"},
    XidFact{46, XidClass::kDevice, true, "the GPU stopped answering"},
    XidFact{48, XidClass::kMemory, true, "a memory error that could not be corrected"},
    XidFact{54, XidClass::kDevice, true, "its auxiliary power is not connected"},
    XidFact{62, XidClass::kDevice, true, "an internal controller halted"},
    XidFact{63, XidClass::kMemory, false, "bad memory was marked to be taken out of use"},
    XidFact{64, XidClass::kMemory, true, "bad memory could not be taken out of use"},
    XidFact{66, XidClass::kNoFault, false, "the driver was refused an access"},
    XidFact{67, XidClass::kNoFault, false, "the driver was refused an access"},
    XidFact{69, XidClass::kProgram, false, "a command was used on the wrong class of engine"},
    XidFact{70, XidClass::kDevice, false, "a copy engine faulted"},
    XidFact{71, XidClass::kDevice, false, "a copy engine faulted"},
    XidFact{72, XidClass::kDevice, false, "a copy engine faulted"},
    XidFact{74, XidClass::kLink, true, "an NVLink failed"},
    XidFact{79, XidClass::kLost, true, "the GPU has fallen off the bus"},
    XidFact{80, XidClass::kDevice, false, "data sent to the GPU arrived corrupted"},
    XidFact{92, XidClass::kMemory, false, "correctable memory errors come often"},
    XidFact{93, XidClass::kNoFault, false, "its board memory is written too often"},
    XidFact{94, XidClass::kMemory, true,
            "a memory error that hit one program only, which was ended"},
    XidFact{95, XidClass::kMemory, true, "a memory error that may have hit every program on it"},
    XidFact{106, XidClass::kNoFault, false, "a test message"},
    XidFact{107, XidClass::kNoFault, false, "a test message"},
    XidFact{109, XidClass::kDevice, true, "switching contexts ran into its time limit"},
    XidFact{110, XidClass::kDevice, true, "a security fault"},
    XidFact{119, XidClass::kDevice, true, "its system processor (GSP) does not answer the driver"},
    XidFact{120, XidClass::kDevice, true, "its system processor (GSP) reports an error"},
    XidFact{121, XidClass::kNoFault, false, "an error on the link to the CPU was corrected"},
    XidFact{136, XidClass::kLink, true, "an NVLink could not be trained"},
    XidFact{137, XidClass::kNoFault, false, "an NVLink access was refused"},
    XidFact{140, XidClass::kMemory, true, "a memory error that could not be recovered from"},
    XidFact{141, XidClass::kNoFault, false, "a fast path of CUDA failed"},
    XidFact{143, XidClass::kDevice, true, "the GPU could not be initialised"},
    XidFact{144, XidClass::kLink, false, "an NVLink error (SAW)"},
    XidFact{145, XidClass::kLink, false, "an NVLink error (RLW)"},
    XidFact{146, XidClass::kLink, false, "an NVLink error (TLW)"},
    XidFact{147, XidClass::kLink, false, "an NVLink error (TREX)"},
    XidFact{148, XidClass::kLink, false, "an NVLink error (NVLPW)"},
    XidFact{149, XidClass::kLink, false, "an NVLink error (NETIR)"},
    XidFact{150, XidClass::kLink, false, "an NVLink error (MSE)"},
    XidFact{154, XidClass::kNoFault, false, "what it needs to recover has changed"},
    XidFact{155, XidClass::kLink, false, "an NVLink error that software defines"},
    XidFact{156, XidClass::kMemory, false, "a bad resource was marked to be taken out of use"},
    XidFact{157, XidClass::kMemory, true, "a bad resource could not be taken out of use"},
    XidFact{158, XidClass::kDevice, true, "the GPU ran into a fatal time limit"},
    XidFact{162, XidClass::kNoFault, false, "power smoothing is on again"},
    XidFact{163, XidClass::kNoFault, false, "power smoothing is off"},
    XidFact{167, XidClass::kDevice, true, "PCIe ran into a fatal time limit"},
    XidFact{168, XidClass::kMemory, true, "part of its memory cannot be used any more"},
    XidFact{169, XidClass::kDevice, true, "an internal controller halted"},
    XidFact{171, XidClass::kMemory, true, "a memory error in its DRAM that was not corrected"},
    XidFact{172, XidClass::kMemory, true, "a memory error in its SRAM that was not corrected"},
};

constexpr XidFact kNotInTable = {0, XidClass::kUnknown, false, "an error that we do not know"};

}  // namespace

const XidFact& XidFactOf(int64_t number) {
  for (const XidFact& fact : kFacts) {
    if (fact.number == number) return fact;
  }
  return kNotInTable;
}

}  // namespace flare::diag
