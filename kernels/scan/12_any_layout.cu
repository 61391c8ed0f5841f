// Idea: a warp a line, wherever its elements lie: lanes take 32 of them, one scan by shuffles, the
// last lane's sum is the carry.
// From warp_scan: strides, all operations and dtypes; lines are found by division.
// Traffic: one read, one write, of whole sectors where elements lie side by side only.
// Limits: none; a single long line is one warp's.
#include "kernels/reduce/walk.hpp"
#include "kernels/scan/monoids.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class Monoid>
struct AnyLayoutKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Accumulator = typename Monoid::Accumulator;
  using Result = typename Monoid::Result;
  struct Arguments {
    Monoid monoid;
    const typename Monoid::Element* x;
    Result* y;
    reduce::Walk lines;
    int64_t line_count;
    int64_t count;
    int64_t x_stride;
    int64_t y_stride;
    bool exclusive;
    bool reverse;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    for (int64_t line = block_index() * kWarps + warp_index(); line < a.line_count;
         line += static_cast<int64_t>(grid_blocks()) * kWarps) {
      scan(a, a.lines(line));
    }
  }

  __device__ __forceinline__ static void scan(const Arguments& a,
                                              const reduce::Walk::Place& place) {
    const auto* x = a.x + place.at[0];
    auto* y = a.y + place.at[1];
    Accumulator carry = Monoid::none();
    for (int64_t start = 0; start < a.count; start += kWarpSize) {
      const int64_t nth = start + lane_index();
      const int64_t i = a.reverse ? a.count - 1 - nth : nth;
      Accumulator own = Monoid::none();
      if (nth < a.count) own = a.monoid.lift(thread::load(x + i * a.x_stride));
      const Accumulator with = Monoid::merge(carry, warp::inclusive_scan(own, Monoid::merge));
      const Accumulator before = warp::shift_up(with, carry);
      if (nth < a.count) {
        const auto lowered = a.monoid.lower(a.exclusive ? before : with);
        thread::store(y + i * a.y_stride, element_of<Result>(lowered));
      }
      carry = warp::shuffle(with, kWarpSize - 1);
    }
  }
};

struct AnyLayout {
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      using Kernel = AnyLayoutKernel<Monoid>;
      constexpr int64_t kMostBlocks = int64_t{1} << 30;
      launch<Kernel>(
          {.blocks = std::min(divide_up(call.lines, int64_t{Kernel::kWarps}), kMostBlocks),
           .threads = Kernel::kThreads},
          context.stream,
          {monoid, static_cast<const typename Monoid::Element*>(call.input),
           static_cast<typename Monoid::Result*>(call.output),
           reduce::Walk(call.line, call.loops, call.lines), call.lines, call.count, call.strides[0],
           call.strides[1], call.exclusive, call.reverse});
    });
  }
};

extern const Rung kAnyLayout;
const Rung kAnyLayout = rung_of<AnyLayout, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "any_layout", .from = "warp_scan", .idea = "a warp a line, at any strides"});

}  // namespace ws::scan
#endif
