// Idea: where channels lie side by side (NHWC), a thread keeps the sums of the channels of 16 bytes
// and walks down the rows of grad and x.
// From backward_two_pass: the same three launches, and nothing to shuffle.
// Traffic: grad and x twice, dx once; of the second time some 30 MB come from L2.
// Limits: whole vectors of channels from a multiple of 16 bytes on, any pitch.
// Long: two kernels, and where rows of three tensors are.
#include "kernels/batch_norm/columns.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct Matrices {
  const T* grad;
  const T* x;
  T* dx;
  int64_t grad_pitch;
  int64_t x_pitch;
  int64_t dx_pitch;
  int64_t rows;
};

// Calls f(row, grad, x) for the rows of a place, kLoads of which are under way.
template <int kLoads, class T, class Place, class F>
__device__ __forceinline__ void each_row(const Matrices<T>& of, const Place& place, const F& f) {
  constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  const T* grad = of.grad + place.vector * kWidth;
  const T* x = of.x + place.vector * kWidth;
  for (int64_t r = place.first; r < place.last; r += kLoads * place.step) {
    Packed grads[kLoads];
    Packed xs[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int64_t at = r + j * place.step;
      if (at < place.last) {
        grads[j] = Packed::load(grad + at * of.grad_pitch);
        xs[j] = Packed::load(x + at * of.x_pitch);
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int64_t at = r + j * place.step;
      if (at < place.last) f(at, grads[j], xs[j]);
    }
  }
}

template <class T>
struct ColumnSumsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = row::kWidest<T>;
  using Merge = MergeRows<Sums, kWidth, kThreads>;
  struct Arguments {
    Matrices<T> of;
    ColumnsPlan plan;
    Values mean;
    Sums* sums;  // [channels, parts]
  };
  struct SharedStorage {
    typename Merge::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Place<T, kThreads> place(a.plan, a.of.rows, block_index());
    thread::Tile<Sums, kWidth> sums;
    float mean[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      sums[i] = Sums::none();
      mean[i] = place.mine ? of_channel(a.mean, place.channel(i)) : 0;
    }
    if (place.mine) {
      each_row<2>(a.of, place, [&](int64_t, const auto& grad, const auto& x) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) sums[i].add(grad[i], x[i] - mean[i]);
      });
    }
    Merge::apply(shared.sums, sums, a.plan.across, PlusSums{});
    if (!place.is_first_row(a.plan.across)) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      thread::store(a.sums + place.channel(i) * a.plan.rows.parts + place.part,
                    Vec<Sums, 1>{{sums[i]}});
    }
  }
};

template <class T>
struct ColumnGradientKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = row::kWidest<T>;
  struct Arguments {
    Matrices<T> of;
    ColumnsPlan plan;
    GradientRule rule;
    const Sums* totals;  // [channels]
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Place<T, kThreads> place(a.plan, a.of.rows, grid_blocks() - 1 - block_index());
    ptx::griddepcontrol_wait();
    if (!place.mine) return;
    Gradient gradient[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const int64_t c = place.channel(i);
      gradient[i] = a.rule.gradient(c, thread::load(a.totals + c));
    }
    T* dx = a.of.dx + place.vector * kWidth;
    each_row<2>(a.of, place, [&](int64_t row, const auto& grad, const auto& x) {
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = gradient[i](grad[i], x[i]);
      thread::store(dx + row * a.of.dx_pitch, thread::convert<T>(out));
    });
  }
};

struct BackwardChannelsLast {
  static ColumnsPlan plan(const BackwardCall& call) {
    return ColumnsPlan::of(call.layout, call.dtype, 256, 2, 4);
  }
  static bool supports(const BackwardCall& call, Why& why) {
    return columns_supported(call.layout, call.dtype, why) &&
           why.unless(plan(call).blocks() <= kMostBlocks, "takes up to ", kMostBlocks, " parts");
  }
  static Workspace workspace(const BackwardCall& call) {
    return workspace_of(plan(call).rows, call.layout.sets);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const ColumnsPlan cut = plan(call);
      const Layout& layout = call.layout;
      const Matrices<T> of{layout.as<const T>(kGrad),
                           layout.as<const T>(kInput),
                           layout.as<T>(kDx),
                           layout.strides[kGrad][0],
                           layout.strides[kInput][0],
                           layout.strides[kDx][0],
                           layout.count};
      const GradientRule rule = rule_of(call);
      auto* parts = static_cast<Sums*>(context.workspace);
      Sums* totals = parts + layout.sets * cut.rows.parts;
      using Parts = ColumnSumsKernel<T>;
      launch<Parts>({.blocks = cut.blocks(), .threads = Parts::kThreads}, context.stream,
                    {of, cut, rule.mean, parts});
      FinishGradient::launch_on({parts, totals, layout.sets, cut.rows.parts, rule}, context.stream);
      using Apply = ColumnGradientKernel<T>;
      launch<Apply>({.blocks = cut.blocks(), .threads = Apply::kThreads, .overlaps = true},
                    context.stream, {of, cut, rule, totals});
    });
  }
};

}  // namespace

extern const Rung kBackwardChannelsLast;
const Rung kBackwardChannelsLast = rung_of<BackwardChannelsLast, BatchNormBackward>({
    .name = "backward_channels_last",
    .from = "backward_two_pass",
    .idea = "NHWC: a thread keeps the sums of the channels of 16 bytes and walks down the rows",
});

}  // namespace ws::batch_norm
