// Idea: a row stays in registers between its statistics and its output: as many threads as the row
// asks for, 8 lanes of a warp up to 512 threads, with 1 to 8 vectors of 16 bytes each.
// From block_per_row: memory is read once, 16 bytes an access whatever the parameters' dtype, which
// come in meanwhile. Warps subtract a mean of their own and merge (count, mean, squares): one
// barrier a row, and nothing cancels. Blocks are many and small, launched in the order of
// addresses. Traffic: one read, one write; one more of each with a residual. Limits: rows of whole
// vectors, up to 32 KiB, 64 KiB in f32.
#include "kernels/norm/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"

namespace ws::norm {
namespace {

// kLanes of a warp share a row; 0: a block does, of as many threads as the launch says.
template <class T, bool kCentred, bool kResidual, int kLanes, int kVectors>
struct RowInRegistersKernel {
  static constexpr bool kBlock = kLanes == 0;
  static constexpr int kThreads = kBlock ? 512 : 128;
  static constexpr int kWidth = row::kWidest<T>;
  using Totals = norm::Totals<kCentred>;
  using Total = typename Totals::Total;
  using Reduce = block::AllReduceOfLaunch<Total, kThreads>;
  using Arguments = Rows<T>;
  struct SharedOfBlock {
    typename Reduce::Storage total;
  };
  struct NoShared {};
  using SharedStorage = std::conditional_t<kBlock, SharedOfBlock, NoShared>;

  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    const int lanes = kBlock ? block_threads() : kLanes;
    const int lane = kBlock ? thread_index() : thread_index() % lanes;
    int64_t r = block_index();
    auto vectors = static_cast<int>(rows.vectors);
    if constexpr (!kBlock) {
      r = r * (kThreads / kLanes) + thread_index() / kLanes;
      if (r >= rows.count) r = 0, vectors = 0;  // its lanes still take part in the shuffles
    }
    const auto holds = [&](int v) { return lane + v * lanes < vectors; };
    const auto at = [&](int v) { return int64_t{lane} + v * lanes; };

    Input<T, kResidual, kVectors> input(rows, r, at, holds);
    const Parameters<T, kVectors, kCentred> parameters(rows, at, holds);
    input.add(rows, r, at, holds);
    const Total total = total_of_row(shared, input.x, holds, vectors);
    const Normal<kCentred> normal(rows, total);
    if (lane == 0 && vectors > 0) normal.store_statistics(rows, r);
    store_row(rows, r, input.x, normal, parameters, at, holds);
  }

 private:
  template <class Packed, class Holds>
  __device__ __forceinline__ static Total total_of_row(SharedStorage& shared,
                                                       const Packed (&x)[kVectors],
                                                       const Holds& holds, int vectors) {
    if constexpr (!kBlock) {
      return total_of<kCentred, kLanes>(x, holds, static_cast<float>(vectors * kWidth));
    } else {
      const float count = warp_count<kVectors, kWidth>(vectors, block_threads());
      const Total mine = total_of<kCentred, kWarpSize>(x, holds, count);
      return Reduce::of_warps(shared.total, mine, Totals::none(), typename Totals::Merge{});
    }
  }
};

// The most bytes of a row for each number of vectors a thread. H200 2026-11-21, from softmax's
// probes of the same shapes (results/JOURNAL.md): two vectors a thread, then more threads, until
// 512. In 16 bits four vectors from 4 KiB on.
struct Policy {
  int64_t two;
  int64_t four;
  int64_t eight;
};
template <class T>
inline constexpr Policy kPolicy =
    sizeof(T) == 4 ? Policy{.two = 16384, .four = 32768, .eight = 65536}
                   : Policy{.two = 4096, .four = 32768, .eight = 0};
constexpr int64_t most_bytes(DType dtype) {
  return dtype == DType::kF32 ? kPolicy<float>.eight : kPolicy<half>.four;
}

struct RowInRegisters {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int64_t most = most_bytes(call.dtype);
    return why.unless(call.rows.row_bytes() <= most, "a block's registers hold rows of up to ",
                      most, " bytes, not ", call.rows.row_bytes()) &&
           aligned_rows(call, why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Rows<T> rows = rows_of<T>(call);
      if (rows.residual != nullptr) {
        with_shape<T, Call::kCentred, true>(rows, context);
      } else {
        with_shape<T, Call::kCentred, false>(rows, context);
      }
    });
  }

 private:
  template <class T, bool kCentred, bool kResidual>
  static void with_shape(const Rows<T>& rows, const Context& context) {
    const auto in_warp = [&]<int kLanes, int kVectors>() {
      using Kernel = RowInRegistersKernel<T, kCentred, kResidual, kLanes, kVectors>;
      launch<Kernel>(
          {.blocks = divide_up(rows.count, Kernel::kThreads / kLanes), .threads = Kernel::kThreads},
          context.stream, rows);
    };
    const auto in_block = [&]<int kVectors>() {
      using Kernel = RowInRegistersKernel<T, kCentred, kResidual, 0, kVectors>;
      const auto threads = round_up(divide_up(rows.vectors, int64_t{kVectors}), int64_t{kWarpSize});
      launch<Kernel>({.blocks = rows.count, .threads = static_cast<int>(threads)}, context.stream,
                     rows);
    };
    const int64_t bytes = rows.vectors * 16;
    if (bytes <= 128) return in_warp.template operator()<8, 1>();
    if (bytes <= 256) return in_warp.template operator()<8, 2>();
    if (bytes <= 512) return in_warp.template operator()<16, 2>();
    if (bytes <= 1024) return in_warp.template operator()<32, 2>();
    if (bytes <= kPolicy<T>.two) return in_block.template operator()<2>();
    if (bytes <= kPolicy<T>.four) return in_block.template operator()<4>();
    if constexpr (kPolicy<T>.eight != 0) in_block.template operator()<8>();
  }
};

}  // namespace

extern const Rung kRowInRegisters;
const Rung kRowInRegisters = rung_of<RowInRegisters, LayerNorm, RmsNorm>({
    .name = "row_in_registers",
    .from = "block_per_row_x8_pack",
    .idea = "the row in registers, 8 to 512 threads as it asks for: one read, one barrier",
});

}  // namespace ws::norm
