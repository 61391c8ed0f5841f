// RowInRegistersKernel: a row in the registers of the threads that share it, from its logits to its
// loss, its gradient, or both.
#pragma once

#include "kernels/cross_entropy/row_share.hpp"
#include "warpsmith/row/shape.hpp"

#if WS_DEVICE_CODE
namespace ws::cross_entropy {

using row::Shape;
using row::ShapeList;

// kLanes threads, of a warp or a block of their own, hold kVectors vectors of 16 bytes each.
template <class T, bool kHasLoss, bool kHasGradient, int kLanes, int kVectors, Fit kFit>
struct RowInRegistersKernel {
  static constexpr bool kSharesWarp = kLanes <= kWarpSize;
  static constexpr int kThreads = kSharesWarp ? 128 : kLanes;
  static constexpr int kRows = kThreads / kLanes;  // of a block
  using Share = row::Share<kWidest<T>, kLanes, kVectors, kFit>;
  static constexpr bool kKeepsExponentials = kHasLoss && kHasGradient;
  // Registers of a thread that hold its part, and threads an SM for which there are as many
  // besides.
  static constexpr int kHeld = kVectors * (kKeepsExponentials ? kWidest<T> : 4);
  static constexpr int kResident = !kHasLoss || kHeld >= 64 ? 512 : kHeld >= 32 ? 768 : 1024;
  static constexpr int kMinBlocks = kResident / kThreads;
  using Part = RowShare<T, Share, kKeepsExponentials>;
  using AllReduce = block::AllReduce<Total, kThreads>;
  using Arguments = Rows<T>;
  struct NoShared {};
  using SharedStorage =
      std::conditional_t<kSharesWarp || !kHasLoss, NoShared, typename AllReduce::Storage>;

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int lane = thread_index() % kLanes;
    int64_t r = block_index() * kRows + thread_index() / kLanes;
    const bool is_row = r < a.count;  // lanes without one still take part in the shuffles
    if (!is_row) r = 0;
    const T* x = a.logits + r * a.stride;
    typename Share::CutOf cut(x, a.columns);
    if (!is_row) cut.clear();
    const Share share(cut, lane);
    Part part(share, x);
    const Numbers numbers = Numbers::load(a, r);
    float lse = 0;
    if constexpr (!kHasLoss) lse = thread::load(a.lse + r * a.strides[kLse]);
    const Beside<T> beside(
        a, r, numbers, is_row && lane == 0,
        [&](int column) { return is_row && has_column(share, column); },
        [&](int column) { return to_float(thread::load(x + column)); });
    if constexpr (kHasLoss) {
      Total total = part.template total<kSharesWarp ? kLanes : kWarpSize>(a.formula);
      if constexpr (!kSharesWarp) {
        total = AllReduce(shared).of_warps(total, Merge{a.formula.smooths()});
      }
      if constexpr (kHasGradient) {
        if (is_row) beside.store_gradient(a, r, total, part);
      }
      beside.store_loss(a, r, total);
    } else if (is_row) {
      beside.store_gradient(a, r, lse, part);
    }
  }

  static void launch_on(const Arguments& rows, ws::Stream stream) {
    launch<RowInRegistersKernel>(
        {.blocks = divide_up(rows.count, int64_t{kRows}), .threads = kThreads}, stream, rows);
  }
};

// `List`: Shapes; run_named takes a name of static storage.
template <class List, bool kHasLoss, bool kHasGradient>
struct RowInRegisters {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.row_bytes() <= List::kMostBytes, "registers hold rows of up to ",
                      List::kMostBytes, " bytes, not ", call.rows.row_bytes()) &&
           vectors_supported(call, why);
  }
  static void run_named(const Call& call, const Context& context, const char* name) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Rows<T> rows = rows_of<T>(call, name);
      const auto with = [&]<Fit kFit>() {
        List::first_that_holds(call.rows.row_bytes(), [&]<int kLanes, int kVectors>() {
          RowInRegistersKernel<T, kHasLoss, kHasGradient, kLanes, kVectors, kFit>::launch_on(
              rows, context.stream);
        });
      };
      if (rows_aligned(call.rows, widest(call))) {
        with.template operator()<Fit::kAligned>();
      } else {
        with.template operator()<Fit::kAnywhere>();
      }
    });
  }
};

}  // namespace ws::cross_entropy
#endif
