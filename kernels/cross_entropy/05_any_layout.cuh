// Idea: every valid call: a warp a row, whatever the strides, of rows and of what belongs to them.
// From online: lanes merge by shuffles; class weights beside label_smoothing, whose sums are of
// weight * x and of the weights.
// Traffic: one read; with a gradient two reads and a write, of the gradient alone a read and a
// write. Where all classes have a weight, those once more.
#pragma once

#include "kernels/cross_entropy/rows.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T, bool kHasLoss, bool kHasGradient>
struct AnyLayoutKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    RowLayout<kRowOperands> rows;
    RowLayout<kNumbers> numbers;
    Targets targets;
    Formula formula;
    bool weighs_all_classes;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t stride = grid_blocks() * kWarps;
    for (int64_t r = block_index() * kWarps + warp_index(); r < a.rows.rows; r += stride) {
      do_row(a, r);
    }
  }

 private:
  __device__ static void do_row(const Arguments& a, int64_t r) {
    const int64_t columns = a.rows.columns;
    const int lane = lane_index();
    const auto number = [&](Number which) {
      return static_cast<float*>(a.numbers.data[which]) + a.numbers.offset(which, r);
    };
    const Target target = a.targets.at(a.numbers.offset(kTarget, r), r, lane == 0);
    if (!target.is_right) return;
    const T* x = static_cast<const T*>(a.rows.data[kLogits]) + a.rows.offset(kLogits, r);
    const int64_t step = a.rows.inner[kLogits];
    const auto weight = [&](int64_t c) { return a.formula.weight_of(c); };

    Total total;
    float logit = 0;
    float target_weight = 0;
    if (!target.is_ignored) {
      if (kHasLoss) logit = to_float(thread::load(x + target.index * step));
      target_weight = weight(target.index);
      Running running(a.formula);
      float plain = 0;
      float weights = 0;
      for (int64_t c = lane; c < columns; c += kWarpSize) {
        float value = 0;
        if constexpr (kHasLoss) {
          value = to_float(thread::load(x + c * step));
          running.add_one(value);
        }
        if (a.weighs_all_classes) {
          plain = thread::fma(weight(c), value, plain);
          weights += weight(c);
        }
      }
      total = running.total();
      if (a.weighs_all_classes) total.plain = plain;
      total.weights = weights;
      total = warp::all_reduce(total, Merge{});  // also: all have read before any writes
    }
    const float all = a.weighs_all_classes ? total.weights : a.formula.columns;
    float lse = 0;
    if constexpr (kHasLoss) {
      float loss = 0;
      if (!target.is_ignored) {
        lse = total.lse();
        loss = a.formula.loss(lse, logit, target_weight, total.plain, all);
      }
      if (lane == 0) thread::store(number(kLoss), loss), thread::store(number(kLse), lse);
    } else {
      lse = thread::load(number(kLse));
    }
    if constexpr (kHasGradient) {
      ptx::syncwarp();
      const float dloss = a.numbers.data[kDloss] == nullptr ? 1.0F : thread::load(number(kDloss));
      const Factors factors = a.formula.factors(dloss, target_weight, all, [&] { return lse; });
      T* to = static_cast<T*>(a.rows.data[kGradient]) + a.rows.offset(kGradient, r);
      const int64_t to_step = a.rows.inner[kGradient];
      for (int64_t c = lane; c < columns; c += kWarpSize) {
        Factors here = factors;
        if (a.weighs_all_classes) here.every *= weight(c);
        const Gradient gradient(here, lse);
        float value = 0;
        if (!target.is_ignored) {
          const float logit_here = to_float(thread::load(x + c * step));
          value = c == target.index ? gradient.of_target(logit_here) : gradient(logit_here);
        }
        thread::store(to + c * to_step, from_float<T>(value));
      }
    }
  }
};

struct AnyLayout {
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AnyLayoutKernel<T, OperationCall::kHasLoss, OperationCall::kHasGradient>;
      constexpr int64_t kMost = int64_t{1} << 20;
      const int64_t blocks = std::min(divide_up(call.rows.rows, Kernel::kWarps), kMost);
      constexpr const char* kName =
          OperationCall::kHasLoss ? OperationCall::kHasGradient ? "cross_entropy_fused/any_layout"
                                                                : "cross_entropy_forward/any_layout"
                                  : "cross_entropy_backward/any_layout";
      launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, context.stream,
                     {call.rows, call.numbers, Targets(call, kName), Formula(call),
                      call.weighs_all_classes()});
    });
  }
};

inline constexpr Rung kAnyLayout =
    rung_of<AnyLayout, CrossEntropyForward, CrossEntropyBackward, CrossEntropyFused>(
        {.name = "any_layout", .from = "online", .idea = "a warp a row: every valid call"});
#endif

}  // namespace ws::cross_entropy
