// Prefetches of boxes of a tensor (PTX ISA, "cp.async.bulk.prefetch.tensor"), beside tensor.hpp's
// of more dimensions.
#pragma once

#include "warpsmith/ptx/tensor_map.hpp"

namespace ws::ptx {

// cp.async.bulk.prefetch.tensor.2d.L2: brings the box at (x, y) to the L2; nobody is told when. It
// reads for nobody, so that a launch with Grid::overlaps may ask before it waits.
__device__ __forceinline__ void tensor_prefetch_2d([[maybe_unused]] const TensorMap& map,
                                                   [[maybe_unused]] int x, [[maybe_unused]] int y) {
#ifndef WS_EMULATED
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map),
               "r"(x), "r"(y)
               : "memory");
#endif
}

}  // namespace ws::ptx
