// What a program that ran tells, as the JSON that it leaves behind and `--json` shows.
#pragma once

#include "cuda_file/cuda_file.hpp"

namespace ws::cuda_file {

// The names under which a program finds, in its environment, where to write its report and how to
// run. The emulator's own options are in WARPSMITH_EMULATOR.
inline constexpr const char* kReportVariable = "WARPSMITH_CUDA_FILE_REPORT";
inline constexpr const char* kProfileVariable = "WARPSMITH_CUDA_FILE_PROFILE";
inline constexpr const char* kMemoryVariable = "WARPSMITH_CUDA_FILE_MEMORY";

// Of a program that ends itself for a fault.
inline constexpr int kFaultCode = 86;

Json to_json(const FaultReport& fault);
Json to_json(const LaunchReport& launch);
Json to_json(const Profile& profile);
FaultReport fault_of(const Json& json);
LaunchReport launch_of(const Json& json);
Profile profile_of(const Json& json);

}  // namespace ws::cuda_file
