// SumParts: what ends every gradient that sums over rows in parts.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/norm/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::norm {

// The sum over parts of each column, in the parameters' dtype. Some warps share 32 columns of
// dweight or of dbias, each takes every so many-th part; they are added up in their order. So many
// warps that each has two trips of eight loads: it waits for memory and does little else.
struct SumPartsKernel {
  static constexpr int kThreads = 1024;
  static constexpr int kLeastThreads = 256;
  static constexpr int64_t kPartsOfWarp = 16;
  struct Sum {
    const float* parts;  // [parts, columns]
    Columns out;
  };
  struct Arguments {
    Sum sums[2];
    int64_t wanted;  // of these
    int64_t parts;
    int64_t columns;
    int warps;  // that share 32 columns
    DType dtype;
  };
  struct SharedStorage {
    SharedArray<float, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t stripes = divide_up(a.columns, int64_t{kWarpSize});
    const int share = warp_index() % a.warps;
    const int64_t stripe =
        block_index() * (block_threads() / kWarpSize / a.warps) + warp_index() / a.warps;
    const int64_t column = stripe % stripes * kWarpSize + lane_index();
    const bool is_column = stripe < a.wanted * stripes && column < a.columns;
    const Sum& mine = a.sums[stripe < stripes ? 0 : 1];
    float sum = 0;
    ptx::griddepcontrol_wait();
    if (is_column) {
#pragma unroll 8
      for (int64_t p = share; p < a.parts; p += a.warps) {
        sum += thread::load(mine.parts + p * a.columns + column);
      }
    }
    shared.sums[thread_index()] = sum;
    ptx::barrier_sync();
    if (share != 0 || !is_column) return;
    for (int w = 1; w < a.warps; ++w) sum += shared.sums[thread_index() + w * kWarpSize];
    const auto store = [&]<class T>() {
      thread::store(static_cast<T*>(mine.out.data) + column * mine.out.stride, from_float<T>(sum));
    };
    switch (a.dtype) {
      case DType::kF16: return store.template operator()<half>();
      case DType::kBf16: return store.template operator()<bf16>();
      default: return store.template operator()<float>();
    }
  }

  // Of those that are wanted.
  template <class Call>
  static void launch_on(const Call& call, const float* dweight, const float* dbias, int64_t parts,
                        Stream stream) {
    Arguments arguments{{}, 0, parts, call.rows.columns, 0, call.parameter_dtype};
    if (call.dweight.exists) arguments.sums[arguments.wanted++] = {dweight, call.dweight};
    if (call.dbias.exists) arguments.sums[arguments.wanted++] = {dbias, call.dbias};
    if (arguments.wanted == 0) return;
    const auto warps = static_cast<uint64_t>(divide_up(parts, kPartsOfWarp));
    arguments.warps =
        static_cast<int>(std::min<uint64_t>(std::bit_ceil(warps), kThreads / kWarpSize));
    const int threads = std::max(arguments.warps * kWarpSize, kLeastThreads);
    const int64_t stripes = arguments.wanted * divide_up(call.rows.columns, int64_t{kWarpSize});
    const int64_t stripes_of_block = threads / kWarpSize / arguments.warps;
    launch<SumPartsKernel>(
        {.blocks = divide_up(stripes, stripes_of_block), .threads = threads, .overlaps = true},
        stream, arguments);
  }
};

}  // namespace ws::norm
