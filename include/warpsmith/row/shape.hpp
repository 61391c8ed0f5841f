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
// Types that say how much they hold, kBytes, in the order of it.
template <class... All>
struct ByCapacity {
  static constexpr int64_t kMostBytes = std::max({All::kBytes...});

  // f.operator()<One>() for the first that holds a row of `bytes`.
  template <class F>
  static void first_that_holds(int64_t bytes, const F& f) {
    const auto take = [&]<class One>(One) {
      if (bytes > One::kBytes) return false;
      f.template operator()<One>();
      return true;
    };
    (take(All{}) || ...);
  }
};
// Shapes, which f gets as f.operator()<lanes, vectors>().
template <class... Shapes>
struct ShapeList : ByCapacity<Shapes...> {
  template <class F>
  static void first_that_holds(int64_t bytes, const F& f) {
    ByCapacity<Shapes...>::first_that_holds(bytes, [&]<class One>() {
      [&]<int kLanes, int kVectors>(Shape<kLanes, kVectors>) {
        f.template operator()<kLanes, kVectors>();
      }(One{});
    });
  }
};

}  // namespace ws::row
