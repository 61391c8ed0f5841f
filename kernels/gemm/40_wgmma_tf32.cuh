// Idea: f32 on the tensor cores as tf32: 8 bits of exponent, 10 of mantissa. wgmma reads f32 as it
//   lies in shared memory and cuts off the low 13 bits; an instruction takes 8 of K, 32 bytes.
// From warp_specialized: a stage is 32 of K, and C is f32. Operands of 32 bits must be K-major: one
//   that is not (A of layouts tn and tt, B of nn and tn) is transposed once into the workspace.
// Traffic: per 128 x 256 x 32 step a block reads 32 KB from L2. A transposed operand costs 8 bytes
//   an element more: at 4.2 TB/s 32 us for 4096 x 4096, of some 360 that the product takes.
// Limits: sm_90a; calls that allow for tf32; rows at multiples of 16 bytes, but of an operand that
//   is transposed. Products err by up to 2^-9 of themselves, always towards zero.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::gemm {

// to[j, i] = from[i, j]: tiles of 32 x 32 through shared memory, so that both sides are walked
// along their rows.
struct TransposeKernel {
  static constexpr int kThreads = 256;
  static constexpr int kTile = 32;
  static constexpr int kPitch = kTile + 1;  // a column of the tile is in 32 banks

  struct Arguments {
    const float* from;  // `rows` rows of `columns`
    float* to;
    int64_t rows;
    int64_t columns;
    int64_t from_leading;
    int64_t to_leading;
    int64_t tiles_across;
  };
  struct SharedStorage {
    SharedArray<float, kTile * kPitch> tile;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const int64_t row = block_index() / g.tiles_across * kTile;
    const int64_t column = block_index() % g.tiles_across * kTile;
    const int along = thread_index() % kTile;
#pragma unroll
    for (int i = thread_index() / kTile; i < kTile; i += kThreads / kTile) {
      if (row + i < g.rows && column + along < g.columns) {
        shared.tile[i * kPitch + along] =
            thread::load(g.from + (row + i) * g.from_leading + column + along);
      }
    }
    ptx::barrier_sync();
#pragma unroll
    for (int i = thread_index() / kTile; i < kTile; i += kThreads / kTile) {
      if (column + i < g.columns && row + along < g.rows) {
        const float value = shared.tile[along * kPitch + i];
        thread::store(g.to + (column + i) * g.to_leading + row + along, value);
      }
    }
  }
};

struct WgmmaTf32 {
  static constexpr int64_t kLine = 32;  // transposed rows start at multiples of 128 bytes

  static bool is_k_major(const Matrix& matrix, Contiguous along_k) {
    return matrix.contiguous == along_k;
  }
  // Of a transposed operand.
  static int64_t leading_of(const Matrix& matrix) { return round_up(matrix.runs, kLine); }
  static size_t bytes_of(const Matrix& matrix, Contiguous along_k) {
    if (is_k_major(matrix, along_k)) return 0;
    return static_cast<size_t>(matrix.length * leading_of(matrix)) * sizeof(float);
  }

  static bool supports(const Call& call, Why& why) {
    const auto is_taken = [&](const char* name, const Matrix& matrix, Contiguous along_k) {
      return !is_k_major(matrix, along_k) || can_be_copied(name, matrix, call.dtype, why);
    };
    return allows_tf32(call, why) && why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           runs_supported(call, why) && is_taken("a", call.a, Contiguous::kColumns) &&
           is_taken("b", call.b, Contiguous::kRows) &&
           can_be_copied("c", call.c, call.dtype, why) &&
           why.unless(call.c.length % 4 == 0, "rows of c are ", call.c.length * 4,
                      " bytes long, the copy engine stores multiples of 16");
  }

  static Workspace workspace(const Call& call) {
    return {.bytes = bytes_of(call.a, Contiguous::kColumns) + bytes_of(call.b, Contiguous::kRows)};
  }

  static void run(const Call& call, const Context& context) {
    auto* place = static_cast<std::byte*>(context.workspace);
    Call turned = call;
    turn(turned.a, Contiguous::kColumns, place, context.stream);
    place += bytes_of(call.a, Contiguous::kColumns);
    turn(turned.b, Contiguous::kRows, place, context.stream);
    const int blocks = device_facts().multiprocessors;
    // The big tile, or the one of 128 x 128 where its waves are fewer.
    const auto run_with = [&]<class Policy>() {
      WarpSpecializedKernel<float, Contiguous::kColumns, Contiguous::kRows, Policy>::run(
          turned, blocks, context.stream);
    };
    whole_tiles_time<WgmmaBig>(turned) <= whole_tiles_time<Wgmma128>(turned)
        ? run_with.template operator()<WgmmaBig>()
        : run_with.template operator()<Wgmma128>();
  }

 private:
  static void turn(Matrix& matrix, Contiguous along_k, void* place, Stream stream) {
    if (is_k_major(matrix, along_k)) return;
    constexpr int kTile = TransposeKernel::kTile;
    const int64_t across = divide_up(matrix.length, kTile);
    launch<TransposeKernel>(
        {.blocks = divide_up(matrix.runs, kTile) * across, .threads = TransposeKernel::kThreads},
        stream,
        {.from = matrix.as<const float>(),
         .to = static_cast<float*>(place),
         .rows = matrix.runs,
         .columns = matrix.length,
         .from_leading = matrix.leading,
         .to_leading = leading_of(matrix),
         .tiles_across = across});
    const int64_t k = matrix.runs;
    matrix = {.data = place,
              .contiguous = along_k,
              .runs = matrix.length,
              .length = k,
              .leading = round_up(k, kLine)};
  }
};

}  // namespace ws::gemm
