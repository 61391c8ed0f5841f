// Idea: a warp a row: lanes take neighbouring entries, and shuffles add up what they have.
// From scalar: an access of a warp is 32 values or 32 columns that follow each other.
// Traffic: each value and column once, in whole sectors but for the ends of rows; x as its columns
// ask for it, a sector for each entry where they are anywhere.
// Limits: none. A row of 16 entries leaves half of the lanes with nothing to do.
#pragma once

#include "kernels/spmv/csr.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
template <class T, class I>
struct VectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    Csr<T, I> a;
    Strided<const T> x;
    Result<T> result;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, result] = arguments;
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const auto [first, end] = a.entries_of(row);
    Sum<T> sum = 0;
    for (int64_t j = first + lane_index(); j < end; j += kWarpSize) sum += a.product(j, x);
    sum = warp::all_reduce(sum, [](Sum<T> one, Sum<T> other) { return one + other; });
    if (lane_index() == 0) result.store(row, sum);
  }
};
#endif

struct Vector {
  static bool supports(const VectorCall& call, Why& why) {
    return why.unless(call.rows < int64_t{1} << 33, "takes fewer than 2^33 rows, not ", call.rows);
  }
  static void run(const VectorCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = VectorKernel<T, I>;
      launch<Kernel>({.blocks = divide_up(call.rows, Kernel::kWarps), .threads = Kernel::kThreads},
                     context.stream,
                     {Csr<T, I>(call, "spmv_csr/vector"), vector_of<T>(call), Result<T>(call)});
    });
  }
};

inline constexpr Seed kVectorSeeds[] = {{.name = "{}_vector"}};
inline constexpr Rung kVector = rung_of<Vector, SpmvCsr>({
    .name = "vector",
    .from = "scalar",
    .idea = "a warp a row: lanes take neighbouring entries, shuffles add up",
    .seeds = kVectorSeeds,
});

}  // namespace ws::spmv
