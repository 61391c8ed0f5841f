// Idea: groups of NHWC need not wait for a sample: neighbours that are 128 bytes of a row together,
// a span, are small enough for a cluster, which keeps a span of a sample in shared memory.
// From groups_channels_last: x is read once, in one launch, by bulk tensor copies; totals go from
// block to block; and the first blocks of an SM begin one after the other.
// Traffic: one read, one write; 8 bytes of each group from each block of a cluster to each.
// Limits: what 16 blocks hold, 3.4 MiB a span; rows of whole vectors, and groups that are such
// together in 2 KiB of a row; samples that do not share memory.
#include "kernels/batch_norm/group_columns_kept.hpp"

namespace ws::batch_norm {
namespace {

template <class T, class Shape>
struct GroupsChannelsLastOnChipKernel {
  static constexpr int kThreads = SpanPlan::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Kept = KeptSpan<T, 1>;
  using AddUp = AddUpSpan<T>;
  using Letters = GroupLetters<T>;
  struct Arguments {
    ptx::TensorMap inputs[1];  // x
    Samples<T> y;
    KeptPlan plan;
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct alignas(128) SharedStorage {
    SharedArray<float, SpanPlan::kMostGroups> pivots;
    SharedArray<Normal, SpanPlan::kMostGroups> normals;
    typename Letters::Storage letters;  // mean and squares of a block's rows
    typename Kept::Storage kept;
  };

  static Arguments arguments(const ForwardCall& call, const KeptPlan& plan,
                             const Context& /*context*/) {
    return {{plan.map(Samples<const T>::of(call.layout, kX), call.layout)},
            Samples<T>::of(call.layout, kY),
            plan,
            call.weight,
            call.bias,
            statistics_of(call)};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SpanPlace<T> place(a.plan, block_index());
    const Kept kept(shared.kept, dynamic_shared<T>(shared, Kept::elements(a.plan)), a.plan, place,
                    a.inputs);
    const Letters letters(shared.letters, kept.letters(), place);
    // What else is needed comes while the rows do.
    const int columns = a.plan.columns();
    const SharedSpan<float> parameters = kept.parameters(2);
    for (int i = thread_index(); i < 2 * columns; i += kThreads) {
      const bool of_bias = i >= columns;
      const int c = of_bias ? i - columns : i;
      if (c >= place.channels()) continue;
      parameters[i] =
          of_channel(of_bias ? a.bias : a.weight, place.first_channel() + c, of_bias ? 0.0F : 1.0F);
    }
    ptx::barrier_sync();
    AddUp::find_pivots(kept.scratch(), place, kept.first_row(), shared.pivots);
    float pivot[kWidth] = {};
    if (place.mine) {
      place.each_column([&](int i, int g, bool /*begins*/) { pivot[i] = shared.pivots[g]; });
    }
    thread::Tile<Sums, kWidth> sums;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] = Sums::none();
    kept.first_pass([&](const typename Kept::Packed(&x)[1]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float away = x[0][i] - pivot[i];
        sums[i].add(away, away);
      }
    });
    Letters::meet();
    AddUp::groups(
        kept.scratch(), place, sums, [](int /*c*/, const Sums& of_column) { return of_column; },
        [&](int g, int lane, const Sums& total) {
          const auto moments = thread::from_pivot(place.count(place.part), shared.pivots[g],
                                                  total.grad, total.product);
          letters.send(g, lane, {moments.mean, moments.squares});
        });
    letters.receive([&](int g) {
      // Distances are measured from the first part's mean, which is one of so many.
      float from = 0;
      float sum = 0;
      float squares = 0;
      letters.each(g, [&](int part, const Sums& letter) {
        if (part == 0) from = letter.grad;
        const float away = letter.grad - from;
        const float weighed = away * place.count(part);
        sum += weighed;
        squares += thread::fma(weighed, away, letter.product);
      });
      shared.normals[g] =
          a.statistics.normal(thread::from_pivot(a.statistics.count, from, sum, squares));
    });
    AffineColumns<T> affine;
    if (place.mine) {
      affine = AffineColumns<T>(parameters, place.vector * kWidth, columns);
      Normal normal[kWidth];
      place.each_column([&](int i, int g, bool /*begins*/) { normal[i] = shared.normals[g]; });
      affine.normalise([&](int i) { return normal[i]; });
    }
    kept.second_pass(a.y, [&](const typename Kept::Packed(&x)[1]) { return affine(x[0]); });
    const int group = thread_index();
    if (group < place.groups() && place.part == 0) {
      const Normal of_group = shared.normals[group];
      a.statistics.keep(place.sample, place.first_group() + group, of_group);
    }
  }
};

using GroupsChannelsLastOnChip = GroupsOnChip<ForwardCall, 1, GroupsChannelsLastOnChipKernel>;

}  // namespace

extern const Rung kGroupsChannelsLastOnChip;
const Rung kGroupsChannelsLastOnChip = rung_of<GroupsChannelsLastOnChip, GroupNormForward>({
    .name = "groups_channels_last_on_chip",
    .from = "groups_channels_last",
    .idea = "NHWC: a cluster keeps neighbouring groups of a sample in shared memory",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
