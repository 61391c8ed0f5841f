// How most rungs here are launched: a block for each Kernel::kPerBlock elements.
#pragma once

#include "kernels/lessons/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::lessons {

template <class Kernel>
struct LaunchEach {
  static void run(const Call& call, const Context& context) {
    launch<Kernel>(
        {.blocks = divide_up(call.count, Kernel::kPerBlock), .threads = Kernel::kThreads},
        context.stream, call);
  }
};

}  // namespace ws::lessons
