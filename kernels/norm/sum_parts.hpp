// SumParts: what ends every gradient that sums over rows in parts.
#pragma once

#include <algorithm>

#include "kernels/norm/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::norm {

// The sum over parts of each column, in the parameters' dtype. A block takes 32 columns, each of
// its warps every so many-th part; warps are added up in their order.
struct SumPartsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const float* dweight;  // [parts, columns]; null: not wanted
    const float* dbias;
    int64_t parts;
    int64_t columns;
    Columns dweight_out;
    Columns dbias_out;
    DType dtype;
  };
  struct SharedStorage {
    SharedArray<float, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t column = block_index() * kWarpSize + lane_index();
    one(shared, a, a.dweight, a.dweight_out, column);
    ptx::barrier_sync();
    one(shared, a, a.dbias, a.dbias_out, column);
  }

 private:
  __device__ __forceinline__ static void one(SharedStorage& shared, const Arguments& a,
                                             const float* parts, const Columns& out,
                                             int64_t column) {
    if (parts == nullptr) return;
    const int warps = block_threads() / kWarpSize;
    float sum = 0;
    if (column < a.columns) {
#pragma unroll 4
      for (int64_t p = warp_index(); p < a.parts; p += warps) {
        sum += thread::load(parts + p * a.columns + column);
      }
    }
    shared.sums[thread_index()] = sum;
    ptx::barrier_sync();
    if (warp_index() != 0 || column >= a.columns) return;
    for (int w = 1; w < warps; ++w) sum += shared.sums[w * kWarpSize + lane_index()];
    const auto store = [&]<class T>() {
      thread::store(static_cast<T*>(out.data) + column * out.stride, from_float<T>(sum));
    };
    switch (a.dtype) {
      case DType::kF16: return store.template operator()<half>();
      case DType::kBf16: return store.template operator()<bf16>();
      default: return store.template operator()<float>();
    }
  }

 public:
  template <class Call>
  static void launch_on(const Call& call, const float* dweight, const float* dbias, int64_t parts,
                        Stream stream) {
    launch<SumPartsKernel>(
        {.blocks = divide_up(call.rows.columns, int64_t{kWarpSize}),
         .threads = static_cast<int>(std::min<int64_t>(parts * kWarpSize, kThreads))},
        stream,
        {!call.dweight.exists ? nullptr : dweight, !call.dbias.exists ? nullptr : dbias, parts,
         call.rows.columns, call.dweight, call.dbias, call.parameter_dtype});
  }
};

}  // namespace ws::norm
