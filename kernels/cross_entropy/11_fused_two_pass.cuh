// Idea: a block reads its row for the total, and again for the gradient, which it writes in place.
// From vector: loss and gradient are one launch, and part of the second read comes from L2.
// Traffic: two reads, one write.
// Limits: elements side by side; not both weights and label_smoothing.
#pragma once

#include "kernels/cross_entropy/rows.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T>
struct FusedTwoPassKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr int kTile = 4;
  static constexpr int kWidth = kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Arguments = Rows<T>;
  using AllReduce = block::AllReduce<Total, kThreads>;
  struct SharedStorage {
    typename AllReduce::Storage partials;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    const Target target = a.target(row, thread_index() == 0);
    if (!target.is_right) return;
    T* x = a.gradient + row * a.stride;
    Gradient gradient{};
    float logit = 0;
    if (!target.is_ignored) {
      logit = to_float(thread::load(x + target.index));
      const float weight = a.formula.weight_of(target.index);
      const float dloss = a.dloss_of(row);
      const Total mine = read_row<kThreads, kTile, T>(x, a.columns, a.formula);
      const Total total = AllReduce(shared.partials)(mine, Merge{a.formula.smooths()});
      if (thread_index() == 0) a.store_loss(row, total, logit, weight);
      gradient = a.formula.gradient(total.lse(), dloss, weight, a.formula.columns);
    } else if (thread_index() == 0) {
      a.store_numbers(row, 0, 0);
    }
    write_row(x, a.columns, target, logit, gradient);
  }

 private:
  __device__ __forceinline__ static void write_row(T* x, int64_t columns, const Target& target,
                                                   float target_logit, const Gradient& gradient) {
    const row::Cut<kWidth> cut(x, columns);
    const auto value = [&](float logit) { return target.is_ignored ? 0.0F : gradient(logit); };
#pragma unroll 4
    for (int64_t v = thread_index(); v < cut.vectors; v += kThreads) {
      const Packed vector = Packed::load(x + cut.at(v));
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = value(vector[i]);
      thread::store(x + cut.at(v), thread::convert<T>(out));
    }
    if (thread_index() < cut.edges) {
      const int64_t column = cut.edge(thread_index());
      thread::store(x + column, from_float<T>(value(to_float(thread::load(x + column)))));
    }
    if (!target.is_ignored && thread_of(cut, target.index, kThreads) == thread_index()) {
      thread::store(x + target.index, from_float<T>(gradient.of_target(target_logit)));
    }
  }
};

struct FusedTwoPass {
  static bool supports(const Call& call, Why& why) { return vectors_supported(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = FusedTwoPassKernel<T>;
      launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                     rows_of<T>(call, "cross_entropy_fused/fused_two_pass"));
    });
  }
};

inline constexpr Rung kFusedTwoPass = rung_of<FusedTwoPass, CrossEntropyFused>(
    {.name = "fused_two_pass",
     .from = "vector",
     .idea = "a block reads its row for the loss, then again for the gradient in its place"});
#endif

}  // namespace ws::cross_entropy
