// A plan of tiles as kernels walk it.
#pragma once

#include "kernels/transpose/plan.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::transpose {

// Where an element is, from the start of what is asked about, in both tensors.
struct Offsets {
  int64_t x = 0;
  int64_t y = 0;
};

// Loops, innermost first: a number becomes an index for each, and offsets.
template <int kMost>
struct Walk {
  int loops = 0;
  thread::Divider extents[kMost];
  Offsets strides[kMost];

  template <class Loops>
  void set(const Loops& from, size_t count) {
    loops = static_cast<int>(count);
    for (size_t i = 0; i < count; ++i) {
      extents[i] = thread::Divider(from[i].extent);
      strides[i] = {from[i].strides[kX], from[i].strides[kY]};
    }
  }
  // visit(loop, index) for each.
  template <class Visit>
  __device__ __forceinline__ Offsets at(uint32_t number, const Visit& visit) const {
    Offsets offsets;
#pragma unroll
    for (int loop = 0; loop < kMost; ++loop) {
      if (loop == loops) break;
      const uint32_t outer = extents[loop].quotient(number);
      const uint32_t index = number - outer * extents[loop].divisor();
      offsets.x += index * strides[loop].x;
      offsets.y += index * strides[loop].y;
      visit(loop, static_cast<int>(index));
      number = outer;
    }
    return offsets;
  }
};

// A side of a tile.
struct Side {
  Walk<SidePlan::kMostLoops> walk;
  int length;
  int cut;
  int64_t steps;      // of the loop that is cut
  int steps_of_part;  // of the same, and how many elements a step has
  int length_of_step;

  explicit Side(const SidePlan& plan)
      : length(static_cast<int>(plan.length)),
        cut(plan.cut),
        steps(plan.steps),
        steps_of_part(static_cast<int>(plan.last().extent)),
        length_of_step(static_cast<int>(plan.length / plan.last().extent)) {
    walk.set(plan.loop, plan.loops);
  }
  // In part `part` of the loop that is cut.
  __device__ __forceinline__ int length_in(int part) const {
    const int64_t left = steps - int64_t{part} * steps_of_part;
    return left < steps_of_part ? static_cast<int>(left) * length_of_step : length;
  }
};

struct TileWalk {
  Side columns;
  Side rows;
  Walk<kMaxRank> tiles;

  explicit TileWalk(const TilePlan& plan) : columns(plan.columns), rows(plan.rows) {
    tiles.set(plan.loop, plan.loops);
  }
};

// A tile: where it begins, and how much of its sides is there.
struct TilePart {
  Offsets first;
  int columns;
  int rows;

  __device__ __forceinline__ TilePart(const TileWalk& walk, int64_t number)
      : columns(walk.columns.length), rows(walk.rows.length) {
    first = walk.tiles.at(static_cast<uint32_t>(number), [&](int loop, int index) {
      if (loop == walk.columns.cut) columns = walk.columns.length_in(index);
      if (loop == walk.rows.cut) rows = walk.rows.length_in(index);
    });
  }
};

// Where the elements of a side are, in bytes, found once a block.
template <class T, int kMost>
struct SideOffsets {
  SharedArray<int64_t, kMost> x;
  SharedArray<int64_t, kMost> y;

  template <int kThreads>
  __device__ __forceinline__ void fill(const Side& side) {
    constexpr int64_t kBytes = sizeof(T);
    for (int i = thread_index(); i < side.length; i += kThreads) {
      const Offsets at = side.walk.at(static_cast<uint32_t>(i), [](int, int) {});
      x[i] = at.x * kBytes;
      y[i] = at.y * kBytes;
    }
  }
};

template <class T>
__device__ __forceinline__ const T* beyond(const T* from, int64_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + bytes);
}
template <class T>
__device__ __forceinline__ T* beyond(T* from, int64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(from) + bytes);
}

}  // namespace ws::transpose
#endif
