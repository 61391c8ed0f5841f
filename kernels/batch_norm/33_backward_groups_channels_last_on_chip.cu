// Idea: a cluster keeps grad and x of neighbouring groups of a sample in shared memory, and leaves
// the sums of its channels, which a small launch adds up for dweight and dbias.
// From backward_groups_channels_last: grad and x are read once, and a launch is gone.
// Traffic: two reads, one write; 8 bytes a channel, sample and block.
// Limits: what 16 blocks hold, 1.7 MiB a span of each input; rows of whole vectors, and groups that
// are such together in 2 KiB of a row; samples that do not share memory.
#include "kernels/batch_norm/group_columns_kept.hpp"

namespace ws::batch_norm {
namespace {

template <class T, class Shape>
struct BackwardGroupsChannelsLastOnChipKernel {
  static constexpr int kThreads = SpanPlan::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Kept = KeptSpan<T, 2>;
  using AddUp = AddUpSpan<T>;
  using Letters = GroupLetters<T>;
  struct Arguments {
    ptx::TensorMap inputs[2];  // grad, x
    Samples<T> dx;
    KeptPlan plan;
    GroupRule of;
    Sums* sums;  // [samples, channels, plan.parts]
  };
  struct alignas(128) SharedStorage {
    SharedArray<Normal, SpanPlan::kMostGroups> normals;
    SharedArray<Sums, SpanPlan::kMostGroups> totals;  // of the cluster
    typename Letters::Storage letters;                // sums of a block's rows
    typename Kept::Storage kept;
  };

  static Arguments arguments(const BackwardCall& call, const KeptPlan& plan,
                             const Context& context) {
    return {{plan.map(Samples<const T>::of(call.layout, kGrad), call.layout),
             plan.map(Samples<const T>::of(call.layout, kInput), call.layout)},
            Samples<T>::of(call.layout, kDx),
            plan,
            GroupRule::of(call),
            static_cast<Sums*>(context.workspace)};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SpanPlace<T> place(a.plan, block_index());
    const Kept kept(shared.kept, dynamic_shared<T>(shared, Kept::elements(a.plan)), a.plan, place,
                    a.inputs);
    const Letters letters(shared.letters, kept.letters(), place);
    ptx::griddepcontrol_launch_dependents();  // the channels' sums may get ready
    // What else is needed comes while the rows do.
    const int group = thread_index();
    const bool has_group = group < place.groups();
    Normal of_normal{};
    if (has_group) of_normal = a.of.normal(place.sample, place.first_group() + group);
    const SharedSpan<float> weights = kept.parameters(1);
    const int64_t first_channel = place.first_channel();
    for (int c = thread_index(); c < place.channels(); c += kThreads) {
      weights[c] = a.of.weight(first_channel + c);
    }
    if (has_group) shared.normals[group] = of_normal;
    ptx::barrier_sync();

    float mean[kWidth] = {};
    if (place.mine) {
      place.each_column([&](int i, int g, bool /*begins*/) {
        const Normal normal = shared.normals[g];
        mean[i] = normal.mean;
      });
    }
    thread::Tile<Sums, kWidth> sums;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] = Sums::none();
    kept.first_pass([&](const typename Kept::Packed(&of)[2]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[i].add(of[0][i], of[1][i] - mean[i]);
    });
    const SharedSpan<Sums> columns = kept.scratch();
    Letters::meet();
    AddUp::groups(
        columns, place, sums,
        [&](int c, const Sums& of_column) {
          const float w = weights[c];
          return Sums{w * of_column.grad, w * of_column.product};
        },
        [&](int g, int lane, const Sums& total) { letters.send(g, lane, total); });
    letters.receive([&](int g) {
      Sums total = Sums::none();
      letters.each(g, [&](int /*part*/, const Sums& letter) { total = PlusSums{}(total, letter); });
      shared.totals[g] = total;
    });
    Gradient gradient[kWidth] = {};
    if (place.mine) {
      const auto weight = weights.load<kWidth>(place.vector * kWidth);
      place.each_column([&](int i, int g, bool /*begins*/) {
        const Normal normal = shared.normals[g];
        const Sums of_group = shared.totals[g];
        gradient[i] = a.of.gradient(normal, weight[i], of_group);
      });
    }
    kept.second_pass(a.dx, [&](const typename Kept::Packed(&of)[2]) {
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = gradient[i](of[0][i], of[1][i]);
      return thread::convert<T>(out);
    });
    for (int c = thread_index(); c < place.channels(); c += kThreads) {
      const int64_t channel = place.sample * a.of.channels + first_channel + c;
      thread::store(a.sums + channel * a.plan.count() + place.part,
                    Vec<Sums, 1>{{AddUp::column(columns, a.plan, c)}});
    }
  }
};

struct BackwardGroupsChannelsLastOnChip
    : GroupsOnChip<BackwardCall, 2, BackwardGroupsChannelsLastOnChipKernel> {
  static Workspace workspace(const BackwardCall& call) {
    return {.bytes = static_cast<size_t>(call.rows.sets * parts(call)) * sizeof(Sums)};
  }
  static void run(const BackwardCall& call, const Context& context) {
    GroupsOnChip::run(call, context);
    FinishGroupsKernel::launch_on(
        {GroupRule::of(call), static_cast<const Sums*>(context.workspace), nullptr, nullptr,
         call.layout.sets / call.layout.per, parts(call)},
        context.stream);
  }

 private:
  static int parts(const BackwardCall& call) {
    return Shapes::choice(call.layout, call.dtype).plan.count();
  }
};

}  // namespace

extern const Rung kBackwardGroupsChannelsLastOnChip;
const Rung kBackwardGroupsChannelsLastOnChip =
    rung_of<BackwardGroupsChannelsLastOnChip, GroupNormBackward>({
        .name = "backward_groups_channels_last_on_chip",
        .from = "backward_groups_channels_last",
        .idea = "NHWC: a cluster keeps grad and x of neighbouring groups in shared memory",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
