// Operands of bytes as wgmma reads them: rows that follow K, at multiples of 16 bytes. Those that
// lie otherwise are copied, once.
#pragma once

#include <bit>

#include "kernels/gemm/run_lanes.hpp"
#include "kernels/scaled_gemm/policies.hpp"
#include "kernels/transpose/wide_tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/realign.hpp"

namespace ws::scaled_gemm {

// Bits are copied, whatever number they are.
using Byte = uint8_t;

// 16 bytes of a run, wherever they start: those of two pieces at multiples of 16.
struct RunPiece {
  static constexpr int kBytes = 16;
  using Words = Vec<uint32_t, 4>;

  // `at` bytes behind the run's first, of which `left` follow: whether both pieces lie in the run.
  // What is beside it is not ours.
  __device__ __forceinline__ static bool is_whole(int64_t at, int64_t left) {
    return at >= kBytes && left >= 2 * kBytes;
  }
  // Such a one. No load stands under a condition, so that all of a thread are in flight together.
  __device__ __forceinline__ static Words load(const Byte* from) {
    const auto beyond = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % kBytes);
    const Byte* const low = from - beyond;
    return thread::realign<1>(words(low), words(low + (beyond == 0 ? 0 : kBytes)), beyond);
  }
  // Any, with zeros behind the run's last byte.
  __device__ __forceinline__ static Words load_part(const Byte* from, int64_t at, int64_t left) {
    const auto beyond = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % kBytes);
    if (at >= beyond && left + beyond >= (beyond == 0 ? 1 : 2) * kBytes) return load(from);
    Words part{};
#pragma unroll
    for (int i = 0; i < kBytes; ++i) {
      if (i < left) part[i / 4] |= uint32_t{thread::load(from + i)} << (i % 4 * 8);
    }
    return part;
  }

 private:
  __device__ __forceinline__ static Words words(const Byte* from) {
    return std::bit_cast<Words>(thread::load<kBytes>(from));
  }
};

// An operand that is copied: `runs` runs of `length` bytes.
struct Copy {
  const Byte* from = nullptr;
  Byte* to = nullptr;
  int64_t runs = 0;
  int64_t length = 0;
  int64_t from_leading = 0;
  int64_t to_leading = 0;
  bool aligned = false;  // runs start at multiples of 16 bytes
};

// Of runs along K: they stay runs.
struct AlongKernel {
  static constexpr int kThreads = 256;
  static constexpr int kUnroll = 4;
  using Lanes = gemm::RunLanes<kThreads, RunPiece::kBytes * kUnroll, 8>;

  struct Arguments {
    Copy operands[2];
    int64_t first_blocks = 0;  // of the first operand; the others are the second's
    Lanes lanes[2]{};
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const bool second = block_index() >= g.first_blocks;
    const Copy& copy = g.operands[second];
    const Lanes& lanes = g.lanes[second];
    const int64_t block = block_index() - (second ? g.first_blocks : 0);
    const auto [matrix, run, first] = lanes.at(block, thread_index(), RunPiece::kBytes);
    if (run >= copy.runs) return;
    const int step = lanes.step(RunPiece::kBytes);
    const Byte* const from = copy.from + run * copy.from_leading + first;
    RunPiece::Words pieces[kUnroll]{};
    if (RunPiece::is_whole(first, copy.length - first - (kUnroll - 1) * step)) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) pieces[i] = RunPiece::load(from + i * step);
    } else {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const int64_t at = first + i * step;
        if (at < copy.length) {
          pieces[i] = RunPiece::load_part(from + i * step, at, copy.length - at);
        }
      }
    }
    // Rows have room for whole pieces.
    Byte* const to = copy.to + run * copy.to_leading + first;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      if (first + i * step < copy.length) {
        thread::store(reinterpret_cast<uint32_t*>(to + i * step), pieces[i]);
      }
    }
  }

  static Lanes lanes_of(const Copy& copy) { return {copy.runs, copy.length}; }
};

// Of runs across K, K of them: they become `length` rows, in transpose's tiles, by pieces of 16
// bytes on both sides of both memories. What a row has behind K is zero.
struct TurnKernel {
  using Tile = transpose::WideTile<Byte>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kDepth = Tile::kRows;
  static constexpr int kLength = Tile::kColumns;
  static_assert(Tile::kUnits == 1 && Tile::kWidth == RunPiece::kBytes);

  struct Arguments {
    Copy operands[2];          // to rows of whole tiles
    int64_t first_blocks = 0;  // of the first operand; the others are the second's
  };
  struct SharedStorage {
    typename Tile::Storage tile;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const bool second = block_index() >= g.first_blocks;
    const Copy& copy = g.operands[second];
    const int64_t block = block_index() - (second ? g.first_blocks : 0);
    const int64_t down = copy.to_leading / kDepth;
    const int64_t first_k = block % down * kDepth;
    const int64_t first_at = block / down * kLength;

    const auto unit = Tile::unit(0);
    const int64_t k = first_k + unit.group * Tile::kGroup;
    const int64_t at = first_at + unit.piece * Tile::kWidth;
    const Byte* const from = copy.from + k * copy.from_leading + at;
    const bool is_deep = first_k + kDepth <= copy.runs;
    typename Tile::Piece rows[Tile::kGroup]{};
    if (is_deep && copy.aligned && first_at + kLength <= copy.length) {
#pragma unroll
      for (int i = 0; i < Tile::kGroup; ++i) rows[i] = Tile::load(from + i * copy.from_leading);
    } else if (is_deep && RunPiece::is_whole(at, copy.length - at)) {
#pragma unroll
      for (int i = 0; i < Tile::kGroup; ++i) rows[i] = RunPiece::load(from + i * copy.from_leading);
    } else {
#pragma unroll
      for (int i = 0; i < Tile::kGroup; ++i) {
        if (k + i < copy.runs && at < copy.length) {
          rows[i] = RunPiece::load_part(from + i * copy.from_leading, at, copy.length - at);
        }
      }
    }
    Tile::put(shared.tile, 0, rows);
    ptx::barrier_sync();
#pragma unroll
    for (int n = 0; n < Tile::kStores; ++n) {
      const auto to = Tile::place(n);
      if (first_at + to.column >= copy.length) continue;
      Tile::store(copy.to + (first_at + to.column) * copy.to_leading + first_k + to.row(),
                  Tile::take(shared.tile, n));
    }
  }

  static int64_t blocks_of(const Copy& copy) {
    return copy.to_leading / kDepth * divide_up(copy.length, int64_t{kLength});
  }
};

// Makes the copies that `call` needs of its operands at `place`, and them its operands. Of each of
// the two kinds of copies there is one launch at most.
inline void make_k_major(Call& call, void* place, Stream stream) {
  AlongKernel::Arguments along;
  TurnKernel::Arguments across;
  int64_t along_blocks = 0;
  int64_t across_blocks = 0;
  int along_count = 0;
  int across_count = 0;
  auto* next = static_cast<Byte*>(place);
  const int64_t leading = copied_leading(call.k);
  for (Matrix* const matrix : {&call.a, &call.b}) {
    if (is_operand(*matrix, call)) continue;
    const int64_t rows = matrix == &call.a ? call.m : call.n;
    const Copy copy{.from = matrix->as<const Byte>(),
                    .to = next,
                    .runs = matrix->runs,
                    .length = matrix->length,
                    .from_leading = matrix->leading,
                    .to_leading = leading,
                    .aligned = gemm::alignment_of(*matrix, call.dtype) == RunPiece::kBytes};
    if (matrix->contiguous == Contiguous::kColumns) {
      const AlongKernel::Lanes lanes = AlongKernel::lanes_of(copy);
      along.operands[along_count] = copy;
      along.lanes[along_count] = lanes;
      along_blocks += lanes.blocks(1);
      if (++along_count == 1) along.first_blocks = along_blocks;
    } else {
      across.operands[across_count] = copy;
      across_blocks += TurnKernel::blocks_of(copy);
      if (++across_count == 1) across.first_blocks = across_blocks;
    }
    *matrix = {.data = next,
               .row = leading,
               .column = 1,
               .contiguous = Contiguous::kColumns,
               .runs = rows,
               .length = call.k,
               .leading = leading};
    next += rows * leading;
  }
  if (along_count > 0) {
    launch<AlongKernel>({.blocks = along_blocks, .threads = AlongKernel::kThreads}, stream, along);
  }
  if (across_count > 0) {
    launch<TurnKernel>({.blocks = across_blocks, .threads = TurnKernel::kThreads}, stream, across);
  }
}

}  // namespace ws::scaled_gemm
