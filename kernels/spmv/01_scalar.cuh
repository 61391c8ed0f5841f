// Idea: a thread a row: it walks its row's entries and adds up.
// The first kernel everyone writes, and the right one for rows of one or two entries.
// Traffic: each value and column once, but lanes read a row apart: of long rows an access of a warp
// touches 32 sectors, and the caches must hold them until their other entries are due. A warp takes
// as long as its longest row.
// Limits: none.
#pragma once

#include "kernels/spmv/csr.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
template <class T, class I>
struct ScalarKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Csr<T, I> a;
    Strided<const T> x;
    Result<T> result;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, result] = arguments;
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows) return;
    const auto [first, end] = a.entries_of(row);
    Sum<T> sum = 0;
    for (int64_t j = first; j < end; ++j) sum += a.product(j, x);
    result.store(row, sum);
  }
};
#endif

struct Scalar {
  static void run(const VectorCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = ScalarKernel<T, I>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {Csr<T, I>(call, "spmv_csr/scalar"), vector_of<T>(call), Result<T>(call)});
    });
  }
};

inline constexpr Seed kScalarSeeds[] = {{.name = "{}_scalar"}};
inline constexpr Rung kScalar = rung_of<Scalar, SpmvCsr>({
    .name = "scalar",
    .idea = "a thread a row walks its entries",
    .seeds = kScalarSeeds,
});

}  // namespace ws::spmv
