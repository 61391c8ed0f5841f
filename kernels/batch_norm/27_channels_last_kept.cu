// Idea: registers and shared memory keep the rows that they have room for, 47 MB on an H200, of 16
// bits 32. The others are read a second time, those read last first, which L2 still has.
// From channels_last_on_chip: the same two meetings; a tensor need not fit.
// Traffic: one read, one write, and a second read of what is not kept, of which some 30 MB come
// from L2; 16 bytes for a channel and part.
// Limits: whole vectors of channels, 32 of them an SM.
#include "kernels/batch_norm/kept.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct ChannelsLastKeptKernel {
  // 128 KiB of x in registers, of 16 bits 16: each row there is code of its own. H200 2026-11-30,
  // us, 4 rows and 32: f16 [25088, 512] 26.6 and 33.4, [100352, 256] 39.5 and 45.2, [65536, 1024]
  // 99.3 and 97.7; f32 [25088, 512] 34.1 and 33.8, [100352, 256] 72.8 and 68.0.
  static constexpr int kHeld = sizeof(T) == 4 ? 32 : 4;
  using Kept = KeptRows<T, 1, kHeld>;
  static constexpr int kThreads = Kept::kThreads;
  static constexpr int kWidth = Kept::kWidth;
  using AddUp = AddUpRows<T, kThreads>;
  struct Arguments {
    Rows<const T> x;
    Rows<T> y;
    int64_t rows;
    ColumnsPlan plan;
    int room;  // batches of rows in shared memory
    Values weight;
    Values bias;
    Statistics statistics;
    uint32_t* meeting;         // 0 before and after
    thread::Moments* moments;  // [channels, parts], and then [channels]
  };
  struct SharedStorage {
    typename AddUp::Storage sums;
  };

  static Arguments arguments(const ForwardCall& call, const ColumnsPlan& plan, int room,
                             const Meeting& meeting) {
    const Layout& layout = call.layout;
    return {Rows<const T>::of(layout, kX),
            Rows<T>::of(layout, kY),
            layout.count,
            plan,
            room,
            call.weight,
            call.bias,
            statistics_of(call),
            meeting.word,
            meeting.parts<thread::Moments>()};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Place<T, kThreads> place(a.plan, a.rows, block_index());
    // Distances are from the block's first row, which comes before all others.
    const int64_t top = place.part * a.plan.rows.share;
    typename Kept::Packed pivot{};
    if (place.mine && top < place.last) {
      pivot = Kept::Packed::load(a.x.data + place.vector * kWidth + top * a.x.pitch);
    }
    Kept kept(dynamic_shared<T>(shared, int64_t{a.room} * Kept::kBatchSize), a.plan, place, {a.x});
    thread::Tile<Sums, kWidth> sums;
    float from[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      sums[i] = Sums::none();
      from[i] = pivot[i];
    }
    kept.first_pass([&](const typename Kept::Packed(&x)[1]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float away = x[0][i] - from[i];
        sums[i].add(away, away);
      }
    });
    AffineColumns<T> affine;
    if (place.mine) affine = AffineColumns<T>(a.weight, a.bias, place.channel(0));
    AddUp::apply(shared.sums, kept.template scratch<Sums, AddUp::kScratch>(), sums, a.plan.across);
    if (place.is_first_row(a.plan.across)) {
      const auto count = static_cast<float>(place.last - top);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const auto moments = thread::from_pivot(count, from[i], sums[i].grad, sums[i].product);
        thread::store(a.moments + place.channel(i) * a.plan.rows.parts + place.part,
                      Vec<thread::Moments, 1>{{moments}});
      }
    }
    kept.template refill<Sums, AddUp::kScratch>();
    const int64_t channels = a.plan.vectors * kWidth;
    thread::Moments* const totals = a.moments + channels * a.plan.rows.parts;
    merge_over_grid<kThreads>(a.meeting, a.moments, channels, a.plan.rows.parts, MergeMoments{},
                              [&](int64_t c, const thread::Moments& total) {
                                thread::store(totals + c, Vec<thread::Moments, 1>{{total}});
                              });
    if (!place.mine) return;
    const auto found = thread::load<kWidth>(totals + place.channel(0));
    affine.normalise([&](int i) { return a.statistics.normal(found[i]); });
    kept.second_pass(a.y, [&](const typename Kept::Packed(&x)[1]) { return affine(x[0]); });
    place.tell([&](int i) {
      const int64_t c = place.channel(i);
      a.statistics.finish(c, thread::load(totals + c));
    });
  }
};

using ChannelsLastKept = Kept<ForwardCall, ChannelsLastKeptKernel>;

}  // namespace

extern const Rung kChannelsLastKept;
const Rung kChannelsLastKept = rung_of<ChannelsLastKept, BatchNormForward, BatchNormTraining>({
    .name = "channels_last_kept",
    .from = "channels_last_on_chip",
    .idea = "what the chip holds is read once, the rest twice, what was read last first, from L2",
});

}  // namespace ws::batch_norm
