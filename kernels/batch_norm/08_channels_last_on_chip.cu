// Idea: a tensor that fits the registers of all SMs together stays there. One grid holds it, meets
// when the moments of all parts are written, and again when they are merged.
// From channels_last: x is read once, and two of three launches are gone.
// Traffic: one read, one write; 16 bytes for a channel and part. Two meetings of some 2 us.
// Limits: 96 KiB an SM, 13 MB on an H200; whole vectors of channels.
#include "kernels/batch_norm/columns.hpp"
#include "warpsmith/thread/forget.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct ChannelsLastOnChipKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;  // resident on an SM: the launch counts on it
  static constexpr int kVectors = 12;
  static constexpr int kWidth = row::kWidest<T>;
  using Merge = MergeRows<thread::Moments, kWidth, kThreads>;
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
    uint32_t* meeting;         // 0 before and after
    thread::Moments* moments;  // [channels, parts]
  };
  struct SharedStorage {
    typename Merge::Storage moments;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Place<T, kThreads> place(a.plan, a.rows, block_index());
    const auto row = [&](int v) { return place.first + v * place.step; };
    const auto holds = [&](int v) { return place.mine && row(v) < place.last; };
    row::Packed<T, kWidth> x[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (holds(v)) {
        x[v] = row::Packed<T, kWidth>::load(a.x + place.vector * kWidth + row(v) * a.pitch);
      }
    }
    place.first = thread::forget(place.first);  // addresses cost less than registers
    RunningColumns<T> running;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (holds(v)) running.add(x[v]);
    }
    auto moments = running.moments();
    Merge::apply(shared.moments, moments, a.plan.across, MergeMoments{});
    if (place.is_first_row(a.plan.across)) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        thread::store(a.moments + place.channel(i) * a.plan.rows.parts + place.part,
                      Vec<thread::Moments, 1>{{moments[i]}});
      }
    }
    place.first = thread::forget(place.first);
    row::stay_packed(x);
    merge_over_grid<kThreads>(
        a.meeting, a.moments, a.plan.vectors * kWidth, a.plan.rows.parts, MergeMoments{},
        [&](int64_t c, const thread::Moments& total) { a.statistics.finish(c, total); });
    if (!place.mine) return;
    AffineColumns<T> affine(a.weight, a.bias, place.channel(0));
    affine.normalise([&](int i) { return a.statistics.stored(place.channel(i)); });
    row::stay_packed(x);
    place.first = thread::forget(place.first);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (holds(v)) thread::store(a.y + place.vector * kWidth + row(v) * a.y_pitch, affine(x[v]));
    }
  }
};

struct ChannelsLastOnChip {
  static constexpr int kThreads = 256;
  static constexpr int kVectors = 12;

  static ColumnsPlan plan(const ForwardCall& call) {
    return ColumnsPlan::of(call.layout, call.dtype, kThreads, 1, 2);
  }
  static int64_t resident() { return int64_t{2} * device_facts().multiprocessors; }
  static bool supports(const ForwardCall& call, Why& why) {
    if (!columns_supported(call.layout, call.dtype, why)) return false;
    const ColumnsPlan cut = plan(call);
    return why.unless(
        cut.blocks() <= resident() && cut.rows.share <= int64_t{kThreads / cut.across} * kVectors,
        "holds ", resident() * kThreads * kVectors, " vectors of 16 bytes");
  }
  static Workspace workspace(const ForwardCall& call) {
    return Meeting::workspace_of(plan(call).rows, call.layout.sets);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ChannelsLastOnChipKernel<T>;
      static_assert(Kernel::kThreads == kThreads && Kernel::kVectors == kVectors);
      const ColumnsPlan cut = plan(call);
      const Layout& layout = call.layout;
      const Meeting meeting(context.workspace);
      launch<Kernel>({.blocks = cut.blocks(), .threads = kThreads, .cooperative = true},
                     context.stream,
                     {layout.as<const T>(kX), layout.as<T>(kY), layout.strides[kX][0],
                      layout.strides[kY][0], layout.count, cut, call.weight, call.bias,
                      statistics_of(call), meeting.word, meeting.parts<thread::Moments>()});
    });
  }
};

}  // namespace

extern const Rung kChannelsLastOnChip;
const Rung kChannelsLastOnChip = rung_of<ChannelsLastOnChip, BatchNormForward, BatchNormTraining>({
    .name = "channels_last_on_chip",
    .from = "channels_last",
    .idea = "a tensor that fits all registers stays there: one grid, which meets twice",
});

}  // namespace ws::batch_norm
