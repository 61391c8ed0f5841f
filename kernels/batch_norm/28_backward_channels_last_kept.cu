// Idea: registers and shared memory keep the rows of grad and x that they have room for, 23 MB of
// each on an H200. The others are read a second time, those read last first, which L2 still has.
// From backward_channels_last: one launch, which meets twice, for three.
// Traffic: grad and x once, dx once, and a second read of what is not kept, of which some 30 MB
// come from L2; 8 bytes for a channel and part.
// Limits: whole vectors of channels, 32 of them an SM.
#include "kernels/batch_norm/kept.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct BackwardChannelsLastKeptKernel {
  // 128 KiB of both in registers. H200 2026-11-30, us, 16 rows of each and 2: f32 [100352, 256]
  // 112.3 and 116.5, f16 55.5 and 59.1, [25088, 512] 30.0 and 30.2.
  using Kept = KeptRows<T, 2, 16>;
  static constexpr int kThreads = Kept::kThreads;
  static constexpr int kWidth = Kept::kWidth;
  using Packed = typename Kept::Packed;
  using AddUp = AddUpRows<T, kThreads>;
  struct Arguments {
    Rows<const T> grad;
    Rows<const T> x;
    Rows<T> dx;
    int64_t rows;
    ColumnsPlan plan;
    int room;  // batches of rows in shared memory
    GradientRule rule;
    uint32_t* meeting;  // 0 before and after
    Sums* sums;         // [channels, parts], and then [channels]
  };
  struct SharedStorage {
    typename AddUp::Storage sums;
  };

  static Arguments arguments(const BackwardCall& call, const ColumnsPlan& plan, int room,
                             const Meeting& meeting) {
    const Layout& layout = call.layout;
    return {Rows<const T>::of(layout, kGrad),
            Rows<const T>::of(layout, kInput),
            Rows<T>::of(layout, kDx),
            layout.count,
            plan,
            room,
            rule_of(call),
            meeting.word,
            meeting.parts<Sums>()};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Place<T, kThreads> place(a.plan, a.rows, block_index());
    float mean[kWidth] = {};
    if (place.mine) of_channels(a.rule.mean, place.channel(0), mean);
    Kept kept(dynamic_shared<T>(shared, int64_t{a.room} * Kept::kBatchSize), a.plan, place,
              {a.grad, a.x});
    thread::Tile<Sums, kWidth> sums;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] = Sums::none();
    kept.first_pass([&](const Packed(&of)[2]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[i].add(of[0][i], of[1][i] - mean[i]);
    });
    float rstd[kWidth] = {};
    float weight[kWidth] = {};
    if (place.mine) {
      of_channels(a.rule.rstd, place.channel(0), rstd);
      of_channels(a.rule.weight, place.channel(0), weight, 1.0F);
    }
    AddUp::apply(shared.sums, kept.template scratch<Sums, AddUp::kScratch>(), sums, a.plan.across);
    if (place.is_first_row(a.plan.across)) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        thread::store(a.sums + place.channel(i) * a.plan.rows.parts + place.part,
                      Vec<Sums, 1>{{sums[i]}});
      }
    }
    kept.template refill<Sums, AddUp::kScratch>();
    const int64_t channels = a.plan.vectors * kWidth;
    Sums* const totals = a.sums + channels * a.plan.rows.parts;
    merge_over_grid<kThreads>(
        a.meeting, a.sums, channels, a.plan.rows.parts, PlusSums{},
        [&](int64_t c, const Sums& total) { thread::store(totals + c, Vec<Sums, 1>{{total}}); });
    if (!place.mine) return;
    const auto found = thread::load<kWidth>(totals + place.channel(0));
    Gradient gradient[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      gradient[i] = a.rule.gradient({mean[i], rstd[i]}, weight[i], found[i]);
    }
    kept.second_pass(a.dx, [&](const Packed(&of)[2]) {
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = gradient[i](of[0][i], of[1][i]);
      return thread::convert<T>(out);
    });
    place.tell([&](int i) {
      const int64_t c = place.channel(i);
      a.rule.finish(c, thread::load(totals + c));
    });
  }
};

using BackwardChannelsLastKept = Kept<BackwardCall, BackwardChannelsLastKeptKernel>;

}  // namespace

extern const Rung kBackwardChannelsLastKept;
const Rung kBackwardChannelsLastKept = rung_of<BackwardChannelsLastKept, BatchNormBackward>({
    .name = "backward_channels_last_kept",
    .from = "backward_channels_last",
    .idea = "what the chip holds is read once, the rest twice, what was read last first, from L2",
});

}  // namespace ws::batch_norm
