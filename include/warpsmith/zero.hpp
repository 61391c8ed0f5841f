// Counters that a kernel wants to find at zero, set by a kernel that it need not wait for to begin.
#pragma once

#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/griddepcontrol.hpp"
#include "warpsmith/thread/memory.hpp"

#if defined(WS_EMULATED) || defined(__CUDACC__)
namespace ws {

// A kernel launched early (Grid::early) behind this one starts at once, and finds the word at zero
// after its griddepcontrol_wait(). set_zero() does the same for all other kernels, which begin
// about 2 us later.
struct ZeroCounter {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    uint64_t* counter;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_launch_dependents();
    if (thread_index() == 0) thread::store(a.counter, uint64_t{0});
  }
};

}  // namespace ws
#endif
