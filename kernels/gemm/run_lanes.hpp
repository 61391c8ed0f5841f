// Who copies what of the runs of matrices: a group of a block's lanes, as many as a run has work
// for, takes a piece of one.
#pragma once

#include <algorithm>

#include "warpsmith/launch.hpp"

namespace ws::gemm {

// A lane takes kEach elements of a piece; a group has at least kLeast lanes, whose accesses beside
// each other are then whole sectors.
template <int kThreads, int kEach, int kLeast>
struct RunLanes {
  int shift = 0;       // a group has 1 << shift lanes
  int64_t pieces = 1;  // of a run
  int64_t groups = 1;  // blocks of a piece of all runs of a matrix

  struct Place {
    int64_t matrix;
    int64_t run;    // may be beyond the last
    int64_t first;  // element of the run
  };

  RunLanes() = default;
  RunLanes(int64_t runs, int64_t length) {
    const int64_t wanted =
        std::clamp(divide_up(length, int64_t{kEach}), int64_t{kLeast}, int64_t{kThreads});
    while ((int64_t{1} << shift) < wanted) ++shift;
    pieces = std::max<int64_t>(1, divide_up(length, int64_t{kEach} << shift));
    groups = divide_up(runs, int64_t{kThreads} >> shift);
  }

  int64_t blocks(int64_t matrices) const { return matrices * groups * pieces; }
  // Elements from one of a lane's accesses of `width` to the next.
  __host__ __device__ int step(int width) const { return width << shift; }
  // Where a lane of a block begins.
  __host__ __device__ Place at(int64_t block, int thread, int width) const {
    const int64_t of_matrix = block / pieces;
    const int64_t piece = block % pieces * kEach << shift;
    const int lane = thread & ((1 << shift) - 1);
    return {of_matrix / groups, of_matrix % groups * (kThreads >> shift) + (thread >> shift),
            piece + lane * width};
  }
};

}  // namespace ws::gemm
