// Idea: where channels lie side by side (NHWC), a thread owns the channels of 16 bytes and walks
// down the rows; a block's other threads take other rows of the same channels.
// From two_pass_grid: the same three launches; a thread keeps the moments of 8 channels at once,
// and there is nothing to shuffle. Channels of [N, C] lie so too.
// Traffic: two reads, one write; of the second read some 30 MB come from L2.
// Limits: whole vectors of channels from a multiple of 16 bytes on, any pitch.
// Long: two kernels, for moments and for what becomes of x.
#include "kernels/batch_norm/columns.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct ColumnMomentsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 4;
  static constexpr int kWidth = row::kWidest<T>;
  using Merge = MergeRows<thread::Moments, kWidth, kThreads>;
  struct Arguments {
    const T* x;
    int64_t pitch;
    int64_t rows;
    ColumnsPlan plan;
    thread::Moments* moments;  // [channels, parts]
  };
  struct SharedStorage {
    typename Merge::Storage moments;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Place<T, kThreads> place(a.plan, a.rows, block_index());
    RunningColumns<T> running;
    if (place.mine) {
      const T* x = a.x + place.vector * kWidth;
      for (int64_t r = place.first; r < place.last; r += kLoads * place.step) {
        row::Packed<T, kWidth> loaded[kLoads];
#pragma unroll
        for (int j = 0; j < kLoads; ++j) {
          const int64_t at = r + j * place.step;
          if (at < place.last) loaded[j] = row::Packed<T, kWidth>::load(x + at * a.pitch);
        }
#pragma unroll
        for (int j = 0; j < kLoads; ++j) {
          if (r + j * place.step < place.last) running.add(loaded[j]);
        }
      }
    }
    auto moments = running.moments();
    Merge::apply(shared.moments, moments, a.plan.across, MergeMoments{});
    if (!place.is_first_row(a.plan.across)) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      thread::store(a.moments + place.channel(i) * a.plan.rows.parts + place.part,
                    Vec<thread::Moments, 1>{{moments[i]}});
    }
  }
};

template <class T>
struct NormaliseColumnsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 3;
  static constexpr int kLoads = 4;  // and as many on their way
  static constexpr int kWidth = row::kWidest<T>;
  struct Arguments {
    const T* x;
    T* y;
    int64_t pitch;
    int64_t y_pitch;
    int64_t rows;
    ColumnsPlan plan;
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Place<T, kThreads> place(a.plan, a.rows, grid_blocks() - 1 - block_index());
    const T* x = a.x + place.vector * kWidth;
    row::Packed<T, kWidth> next[kLoads];
    const auto fetch = [&](int64_t r) {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int64_t at = r + j * place.step;
        if (at < place.last) next[j] = row::Packed<T, kWidth>::load(x + at * a.pitch);
      }
    };
    ptx::griddepcontrol_wait();
    if (!place.mine) return;
    fetch(place.first);  // before the parameters, which are several trips to memory
    AffineColumns<T> affine(a.weight, a.bias, place.channel(0));
    affine.normalise(a.statistics, place.channel(0));
    T* y = a.y + place.vector * kWidth;
    for (int64_t r = place.first; r < place.last; r += kLoads * place.step) {
      row::Packed<T, kWidth> now[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) now[j] = next[j];
      fetch(r + kLoads * place.step);
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int64_t at = r + j * place.step;
        if (at < place.last) thread::store(y + at * a.y_pitch, affine(now[j]));
      }
    }
  }
};

struct ChannelsLast {
  static ColumnsPlan plan(const ForwardCall& call) {
    const int blocks_an_sm = !call.given ? 4 : size_of(call.dtype) == 2 ? 16 : 24;  // H200
    return ColumnsPlan::of(call.layout, call.dtype, 256, 4, blocks_an_sm);
  }
  static bool supports(const ForwardCall& call, Why& why) {
    return columns_supported(call.layout, call.dtype, why) &&
           why.unless(plan(call).blocks() <= kMostBlocks, "takes up to ", kMostBlocks, " parts");
  }
  static Workspace workspace(const ForwardCall& call) {
    if (call.given) return {};
    return workspace_of(plan(call).rows, call.layout.sets);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const ColumnsPlan cut = plan(call);
      const Layout& layout = call.layout;
      const Statistics statistics = statistics_of(call);
      const T* x = layout.as<const T>(kX);
      const int64_t pitch = layout.strides[kX][0];
      if (!call.given) {
        using Parts = ColumnMomentsKernel<T>;
        auto* moments = static_cast<thread::Moments*>(context.workspace);
        launch<Parts>({.blocks = cut.blocks(), .threads = Parts::kThreads}, context.stream,
                      {x, pitch, layout.count, cut, moments});
        FinishStatistics::launch_on({moments, nullptr, layout.sets, cut.rows.parts, statistics},
                                    context.stream);
      }
      using Normalise = NormaliseColumnsKernel<T>;
      launch<Normalise>(
          {.blocks = cut.blocks(), .threads = Normalise::kThreads, .overlaps = !call.given},
          context.stream,
          {x, layout.as<T>(kY), pitch, layout.strides[kY][0], layout.count, cut, call.weight,
           call.bias, statistics});
    });
  }
};

}  // namespace

extern const Rung kChannelsLast;
const Rung kChannelsLast =
    rung_of<ChannelsLast, BatchNormForward, BatchNormTraining, BatchNormInference>({
        .name = "channels_last",
        .from = "two_pass_grid",
        .idea = "NHWC: a thread owns the channels of 16 bytes and walks down the rows",
    });

}  // namespace ws::batch_norm
