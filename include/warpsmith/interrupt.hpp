// How a host thread ends the launch in the emulator that it waits for: Ctrl-C, for Python. On a GPU
// nobody asks.
#pragma once

#include <chrono>

namespace ws::runtime {

// Ends a launch, and comes out of it.
struct Interrupted {};

// What launches of this host thread call now and then while their kernels run; null: nothing. It
// may throw Interrupted. While it runs, `asking`, this thread launches nothing.
using Interruption = void (*)();
inline constinit thread_local Interruption interruption = nullptr;
inline constinit thread_local bool asking = false;

inline constexpr auto kBetweenQuestions = std::chrono::milliseconds(50);

}  // namespace ws::runtime
