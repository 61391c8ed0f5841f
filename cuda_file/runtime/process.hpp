// The process that a CUDA file has become: what it tells at its end, and how it ends.
#pragma once

#include <string>

#include "cuda_file/cuda_file.hpp"
#include "emulator/emulator.hpp"

namespace ws::cuda_file {

// Ends the process for a fault of the file.
[[noreturn]] void end_with(FaultReport fault);
// ... with a place, and who runs now, put in.
[[noreturn]] void end_with(const std::string& kind, const std::string& message,
                           emulator::Place place);

// An error that the API has given and that nobody has asked about yet; `what` says more than CUDA.
void remember_error(int error, const std::string& what, emulator::Place place);
int last_error(bool forget);

void add_launch(const LaunchReport& launch);
void times_were_asked();

}  // namespace ws::cuda_file
