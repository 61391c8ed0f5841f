// Parts: an output whose elements are shared out among several blocks, which all leave a partial
// result; the block that comes last adds them up.
//
// Whichever block that is, it merges the same partials in the same order: the bits do not depend on
// who came when, and one launch does it all.
#pragma once

#include "catalogue/catalogue.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {

// Of each of `groups` groups of outputs that blocks share. Lies in the workspace: a counter a
// group, zero before and after, then the partials.
struct PartsPlan {
  int64_t groups = 1;
  int parts = 1;
  int64_t partials = 1;  // of a part: what a block leaves
  size_t partial_bytes = 4;

  size_t counter_bytes() const {
    return parts == 1 ? 0 : round_up(static_cast<size_t>(groups) * sizeof(uint32_t), size_t{256});
  }
  Workspace workspace() const {
    if (parts == 1) return {};
    const int64_t count = groups * parts * partials;
    return {.bytes = counter_bytes() + static_cast<size_t>(count) * partial_bytes,
            .zeroed = counter_bytes()};
  }
};

#if WS_DEVICE_CODE

template <class Accumulator>
struct Parts {
  int parts = 1;
  uint32_t* arrived = nullptr;
  Accumulator* partials = nullptr;

  Parts() = default;
  Parts(const PartsPlan& plan, void* workspace)
      : parts(plan.parts),
        arrived(static_cast<uint32_t*>(workspace)),
        partials(reinterpret_cast<Accumulator*>(static_cast<std::byte*>(workspace) +
                                                plan.counter_bytes())) {}

  __device__ __forceinline__ void leave(int64_t at, const Accumulator& partial) const {
    thread::store(partials + at, Vec<Accumulator, 1>{{partial}});
  }
  __device__ __forceinline__ Accumulator take(int64_t at) const {
    return thread::load(partials + at);
  }

  // Whether this block is the last of its group, told to all its threads; then all partials are
  // there to be read. All threads call, after the block's have left theirs.
  __device__ __forceinline__ bool came_last(int64_t group, SharedArray<uint32_t, 1>& order) const {
    ptx::barrier_sync();
    if (thread_index() == 0) {
      ptx::fence_acq_rel<ptx::Scope::kGpu>();
      const uint32_t before = ptx::atom_global_add(arrived + group, 1U);
      const bool last = before + 1 == static_cast<uint32_t>(parts);
      if (last) {
        ptx::fence_acq_rel<ptx::Scope::kGpu>();
        thread::store(arrived + group, 0U);  // for the next call
      }
      order[0] = last ? 1U : 0U;
    }
    ptx::barrier_sync();
    const uint32_t last = order[0];
    return last != 0;
  }
};

#endif

}  // namespace ws
