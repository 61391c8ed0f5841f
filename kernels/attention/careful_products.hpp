// Work that is done again, with more care, where it has not come to numbers.
#pragma once

#include <cmath>
#include <type_traits>

#include "warpsmith/block/reduce.hpp"

namespace ws::attention {

// Of a block of kThreads threads. Products::Careful, if there are any, take longer than Products,
// whose sums may be NaN where Careful's are not.
template <class Products, int kThreads>
class CarefulProducts {
  static constexpr bool kExist = requires { typename Products::Careful; };
  using AllReduce = block::AllReduce<int, kThreads>;
  struct Nothing {};

 public:
  using Storage = std::conditional_t<kExist, typename AllReduce::Storage, Nothing>;

  template <class By>
  static constexpr bool kIsFirst = std::is_same_v<By, Products>;

  // work.operator()<By>() says whether all sums of the thread are finite.
  template <class Work>
  __device__ __forceinline__ static void run(Storage& storage, Work&& work) {
    const bool are_finite = work.template operator()<Products>();
    if constexpr (kExist) {
      AllReduce reduce(storage);
      const int all = reduce(are_finite ? 1 : 0, [](int x, int y) { return x & y; });
      if (all == 0) work.template operator()<typename Products::Careful>();
    }
  }

  // Of any sums, true where nobody asks. A NaN stays one in a sum of sizes, an infinity stays.
  template <int kBlocks, int kAcross>
  __device__ __forceinline__ static bool are_finite(const float (&sums)[kBlocks][kAcross][4]) {
    if constexpr (!kExist) {
      return true;
    } else {
      float sizes = 0;
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) {
#pragma unroll
        for (int n = 0; n < kAcross; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sizes += ::fabsf(sums[r][n][i]);
        }
      }
      return sizes < INFINITY;
    }
  }
};

}  // namespace ws::attention
