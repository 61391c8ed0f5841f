// Places in the file of instructions that say nothing of it: by their address in the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emulator/place.hpp"

namespace ws::cuda_file {

// Of the access whose hook returns to `address`: the innermost line that is not of these headers or
// the system's. Two instructions on one line have two columns, which count them.
emulator::Place place_of_access(const void* address);
// ... which stands in the emulator's own code: the headers of its instructions.
bool is_in_emulator(emulator::Place place);

// Where a thread was when a signal came: its instruction, then who had called it.
struct CallStack {
  std::array<uintptr_t, 128> addresses{};
  size_t count = 0;
};
// In the signal's handler, of the instruction at `address`: allocates nothing and takes no lock,
// but for the first call.
CallStack call_stack_at(uintptr_t address);
// The line of the file's code that leads there.
emulator::Place place_of(const CallStack& stack);

}  // namespace ws::cuda_file
