// How many threads share a row, and the choice among several by its length.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ws::row {

// Threads that share a row, vectors of 16 bytes that each holds.
template <int kLanes, int kVectors>
struct Shape {
  static constexpr int64_t kBytes = int64_t{kLanes} * kVectors * 16;
};
// In the order of their capacity.
template <class... All>
struct ShapeList {
  static constexpr int64_t kMostBytes = std::max({All::kBytes...});

  // f.operator()<lanes, vectors>() for the first that holds a row of `bytes`.
  template <class F>
  static void first_that_holds(int64_t bytes, const F& f) {
    const auto take = [&]<int kLanes, int kVectors>(Shape<kLanes, kVectors>) {
      if (bytes > Shape<kLanes, kVectors>::kBytes) return false;
      f.template operator()<kLanes, kVectors>();
      return true;
    };
    (take(All{}) || ...);
  }
};

}  // namespace ws::row
