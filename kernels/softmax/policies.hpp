// The tuned constants of the family: how many threads hold a row, and how much of it each. Figures
// are of one H200, % of the copy of the same bytes, random data (JOURNAL.md); what else was
// considered stands in candidates.hpp, where the tuner measures it.
#pragma once

#include <type_traits>

#include "kernels/softmax/operations.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/queue.hpp"
#include "warpsmith/row/shape.hpp"
#include "warpsmith/types.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

// ---- row_in_registers -------------------------------------------------------------------------

using row::Shape;
using row::ShapeList;

// Two vectors a thread, then more threads, until registers for 16-bit elements in f32, or the
// barrier of a wide block, cost more than they give. Short rows whole in fewer lanes: 2026-11-23,
// softmax, bf16, N = 32 98.6 (with 8 lanes 66), f32, N = 4 97.
template <class... Longer>
using FromALane = ShapeList<Shape<1, 1>, Shape<2, 1>, Shape<4, 1>, Shape<8, 1>, Shape<8, 2>,
                            Shape<16, 2>, Shape<32, 2>, Shape<64, 2>, Shape<128, 2>, Longer...>;
// For rows that do not start on a vector, which need kernels of their own: a capacity in four, so
// that up to 3 of 4 threads idle.
template <class... Longer>
using Unaligned = ShapeList<Shape<8, 2>, Shape<32, 2>, Shape<128, 2>, Longer...>;

// By the size of an element, inputs (gradients hold two rows) and mask.
template <int kSize, int kInputs, bool kMasked>
struct RegistersChoice;
template <bool kMasked>
struct RegistersChoice<2, 1, kMasked> {
  // 2026-11-21, bf16: N = 256 99.7, 1024 99.1, 4096 99.2, 16384 98.4. 2026-11-20, probes: N = 4096
  // with 256 x 2 96.8, with 512 x 1 85.
  using Aligned = FromALane<Shape<128, 4>, Shape<256, 4>, Shape<512, 4>>;
  using Anywhere = Unaligned<Shape<256, 4>, Shape<512, 4>>;
};
template <bool kMasked>
struct RegistersChoice<2, 2, kMasked> {
  // 2026-11-21: 102 to 104 up to 16 KiB; longer rows fall to block_shared.
  using Aligned = FromALane<Shape<256, 2>, Shape<512, 2>>;
  using Anywhere = Unaligned<Shape<512, 2>>;
};
template <>
struct RegistersChoice<4, 1, false> {
  // 2026-11-21: N = 256 99.1, 1024 99.4, 4096 97.7, 16384 96.6. 2026-11-20, probes: N = 4096 with
  // 1024 x 1 79.
  using Aligned = FromALane<Shape<256, 2>, Shape<512, 2>, Shape<512, 4>, Shape<256, 16>>;
  using Anywhere = Unaligned<Shape<512, 2>, Shape<256, 16>>;
};
template <>
struct RegistersChoice<4, 1, true> {
  // 2026-11-21, N = 16384: 1024 x 4 95, 512 x 8 75.
  using Aligned = FromALane<Shape<256, 2>, Shape<512, 2>, Shape<512, 4>, Shape<1024, 4>>;
  using Anywhere = Unaligned<Shape<512, 2>, Shape<1024, 4>>;
};
template <bool kMasked>
struct RegistersChoice<4, 2, kMasked> {
  // 2026-11-21: 102 to 104 up to 64 KiB.
  using Aligned = FromALane<Shape<256, 2>, Shape<512, 2>, Shape<512, 4>, Shape<512, 8>>;
  using Anywhere = Unaligned<Shape<512, 2>, Shape<512, 8>>;
};

// Softmax itself has every capacity for unaligned rows too.
template <class T, class Op, row::Fit kFit = row::Fit::kAligned>
using RegistersPolicy =
    std::conditional_t<kFit == row::Fit::kAligned || std::is_same_v<Op, Forward<false>>,
                       typename RegistersChoice<sizeof(T), Op::kInputs, Op::kMasked>::Aligned,
                       typename RegistersChoice<sizeof(T), Op::kInputs, Op::kMasked>::Anywhere>;

// ---- cluster_queue ----------------------------------------------------------------------------

// Few threads that hold much, several blocks an SM, so that one works while the other waits.
// f.operator()<Shape>() with the shape for rows of `bytes`.
// Masks are in registers, too: the longest rows of f32 have shapes of their own, which do not spill
// (with 128 x 32 and 256 x 16 forward does, with 512 x 8 and 256 x 16 gradients do).
template <int kSize, int kInputs, bool kMasked>
struct QueuePolicy;
template <bool kMasked>
struct QueuePolicy<4, 1, kMasked> {
  using Half = row::QueueShape<128, 16, 3, 2>;  // of 32 KiB: 65536 97.0, 100000 97.6
  // Of 64 KiB: 1024 x 262144 95.1.
  using Whole =
      std::conditional_t<kMasked, row::QueueShape<512, 8, 3, 1>, row::QueueShape<128, 32, 1, 2>>;
  template <class F>
  static void choose(int64_t bytes, bool /*aligned*/, const F& f) {
    if (bytes <= cluster::kMaxBlocks * Half::kBytes) return f.template operator()<Half>();
    f.template operator()<Whole>();
  }
};
template <bool kMasked>
struct QueuePolicy<2, 1, kMasked> {
  using Quarter = row::QueueShape<128, 8, 4, 3>;  // 65536 97.1, 50256 96.1 (Half 94.1)
  // 128256 96.8, 151936 95.8, 262144 97.2; of rows that start anywhere, 2026-11-30, 8192 x 50257
  // 95.0 (Quarter 90.7, 256 x 6 87.4, 256 x 4 86.6).
  using Half = row::QueueShape<128, 16, 3, 2>;
  using Whole = row::QueueShape<512, 8, 2, 1>;
  template <class F>
  static void choose(int64_t bytes, bool aligned, const F& f) {
    if (bytes > cluster::kMaxBlocks * Half::kBytes) return f.template operator()<Whole>();
    if (bytes > 128 * 1024 || !aligned) return f.template operator()<Half>();
    f.template operator()<Quarter>();
  }
};
// Gradients hold two rows: 102 to 104 up to 512 KiB, f32 of 1 MiB 90.
template <bool kMasked>
struct QueuePolicy<4, 2, kMasked> {
  using Half = row::QueueShape<512, 4, 3, 1>;
  using Whole =
      std::conditional_t<kMasked, row::QueueShape<512, 7, 1, 1>, row::QueueShape<512, 8, 1, 1>>;
  template <class F>
  static void choose(int64_t bytes, bool /*aligned*/, const F& f) {
    if (bytes <= cluster::kMaxBlocks * Half::kBytes) return f.template operator()<Half>();
    f.template operator()<Whole>();
  }
};
template <bool kMasked>
struct QueuePolicy<2, 2, kMasked> {
  using Half = row::QueueShape<256, 4, 3, 2>;  // 2026-11-30, 8192 x 50257 92.6 (Whole 89.7)
  using Whole = row::QueueShape<512, 4, 3, 1>;
  template <class F>
  static void choose(int64_t bytes, bool aligned, const F& f) {
    if (!aligned && bytes <= cluster::kMaxBlocks * Half::kBytes) {
      return f.template operator()<Half>();
    }
    f.template operator()<Whole>();
  }
};

}  // namespace ws::softmax
#endif
