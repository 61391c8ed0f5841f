// Places in the file of instructions that say nothing of it: by their address in the program.
#pragma once

#include <cstdint>

#include "emulator/place.hpp"

namespace ws::cuda_file {

// Of the access whose hook returns to `address`: the innermost line that is not of these headers or
// the system's. Two instructions on one line have two columns, which count them.
emulator::Place place_of_access(const void* address);
// ... which stands in the emulator's own code: the headers of its instructions.
bool is_in_emulator(emulator::Place place);
// The line of the file's code that leads to `address`, where a signal has come.
emulator::Place place_in_stack(const void* address);

}  // namespace ws::cuda_file
