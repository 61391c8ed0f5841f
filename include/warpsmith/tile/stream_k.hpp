// Stream-K (Osama et al., 2023): tiles that would leave a last wave half empty are cut along K, so
// that every worker of a persistent grid gets as many slices of K as any other.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::tile {

// Slices [first, last) of K of a tile.
struct Part {
  int tile;
  int first;
  int last;
};

// `workers` share `tiles` tiles of `steps` slices each. The first `cut` tiles are one line of
// cut * steps slices, of which each worker gets as many as any other, and which it does first; the
// others are dealt out whole. Where cut >= workers or cut = 0, a tile has at most two workers.
struct StreamK {
  int tiles = 0;
  int steps = 0;
  int cut = 0;

  // Tiles that fill whole waves stay whole; the last full wave and what is over are cut.
  static constexpr StreamK of(int tiles, int steps, int workers) {
    const int over = tiles % workers;
    return {.tiles = tiles,
            .steps = steps,
            .cut = over == 0         ? 0
                   : tiles < workers ? tiles
                                     : over + workers};
  }

  // Where a worker's slices of the line begin.
  __host__ __device__ constexpr int first_of(int worker, int workers) const {
    return static_cast<int>(static_cast<int64_t>(cut) * steps * worker / workers);
  }

  // f(part) for all parts of a worker, in order. Only the first may begin within a tile.
  template <class F>
  __host__ __device__ constexpr void for_each(int worker, int workers, F&& f) const {
    const int end = first_of(worker + 1, workers);
    for (int at = first_of(worker, workers); at < end;) {
      const int tile = at / steps;
      const int first = at - tile * steps;
      const int last = steps - first < end - at ? steps : first + end - at;
      f(Part{tile, first, last});
      at += last - first;
    }
    for (int tile = cut + worker; tile < tiles; tile += workers) f(Part{tile, 0, steps});
  }
};

}  // namespace ws::tile
