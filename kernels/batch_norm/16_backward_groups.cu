// Idea: the sums of each channel of each sample are all that a group's gradient needs: weighed by
// their channels and added up in a group they make dx, added up through the samples dweight and
// dbias. One launch leaves them, one makes both, one writes dx, from the end.
// From backward_two_pass: a run is looked at alone; what batch_norm adds over samples is added over
// the channels of a group.
// Traffic: grad and x twice, dx once, 8 bytes a channel and sample.
// Limits: tensors without gaps that lie alike, channels in runs; short runs (7 x 7) leave most of a
// block idle.
// Long: two kernels, each with the rule of groups.
#include "kernels/batch_norm/part_sums.hpp"

namespace ws::batch_norm {
namespace {

struct GroupRule {
  GradientRule rule;
  int64_t groups;    // of a sample
  int64_t width;     // channels of a group
  int64_t channels;  // of a sample
  float inverse_count;

  __device__ __forceinline__ float mean_of(int64_t set) const {
    return load(rule.mean, place_of_set(rule.mean, set, groups));
  }
  __device__ __forceinline__ float rstd_of(int64_t set) const {
    return load(rule.rstd, place_of_set(rule.rstd, set, groups));
  }
};

// A warp a group of a sample, then a warp a channel.
struct FinishGroupsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    GroupRule of;
    const Sums* parts;  // [samples, channels, count]
    Sums* totals;       // [samples, groups]: of grad * weight
    int64_t samples;
    int64_t count;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const GroupRule& of = a.of;
    const int64_t sets = a.samples * of.groups;
    const int64_t item = block_index() * kWarps + warp_index();
    if (item < sets) {
      const int64_t each = of.width * a.count;
      const int64_t first = item % of.groups * of.width;
      const Sums total = sum(each, [&](int64_t i) {
        const float w = of_channel(of.rule.weight, first + i / a.count, 1.0F);
        const Sums part = thread::load(a.parts + item * each + i);
        return Sums{w * part.grad, w * part.product};
      });
      if (lane_index() == 0) thread::store(a.totals + item, Vec<Sums, 1>{{total}});
    } else if (item < sets + of.channels) {
      const int64_t c = item - sets;
      const Sums total = sum(a.samples * a.count, [&](int64_t i) {
        const int64_t n = i / a.count;
        const float r = of.rstd_of(n * of.groups + c / of.width);
        const Sums part = thread::load(a.parts + (n * of.channels + c) * a.count + i % a.count);
        return Sums{part.grad, r * part.product};
      });
      if (lane_index() != 0) return;
      store(of.rule.dweight, c * of.rule.dweight.stride, total.product);
      store(of.rule.dbias, c * of.rule.dbias.stride, total.grad);
    }
  }

  template <class Part>
  __device__ __forceinline__ static Sums sum(int64_t count, const Part& part) {
    Sums total = Sums::none();
#pragma unroll 4
    for (int64_t i = lane_index(); i < count; i += kWarpSize) total = PlusSums{}(total, part(i));
    return warp::all_reduce(total, PlusSums{});
  }
};

template <class T>
struct ApplyGroupGradientKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 2;
  struct Arguments {
    Runs<T> runs;
    Plan plan;
    GroupRule of;
    const Sums* totals;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t item = grid_blocks() - 1 - block_index();
    const int64_t row = item / a.plan.parts;  // a channel of a sample
    const int64_t set = row / a.of.width;
    ptx::griddepcontrol_wait();
    const Sums total = thread::load(a.totals + set);
    const float rstd = a.of.rstd_of(set);
    const float share = rstd * a.of.inverse_count;
    const Gradient gradient{a.of.mean_of(set),
                            rstd * of_channel(a.of.rule.weight, row % a.of.channels, 1.0F),
                            share * total.grad, share * rstd * rstd * total.product, true};
    apply_gradient<kThreads, kLoads>(a.runs, a.runs.start(row), a.plan.range(item, a.runs.windows),
                                     gradient);
  }
};

struct BackwardGroups {
  static constexpr int kBlocksOfSm = 8;
  static Plan plan(const BackwardCall& call) {
    return Plan::of(call.rows.sets, windows_of_set(call.rows, call.dtype), 256, kBlocksOfSm);
  }
  static bool supports(const BackwardCall& call, Why& why) {
    return runs_supported(call.rows, call.dtype, why) &&
           why.unless(call.rows.sets * plan(call).parts <= kMostBlocks, "takes up to ", kMostBlocks,
                      " parts");
  }
  static Workspace workspace(const BackwardCall& call) {
    return workspace_of(plan(call), call.rows.sets);  // no more groups than channels
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Plan cut = plan(call);
      const Runs<T> runs = runs_of<T>(call.rows, call.dtype);
      const int64_t rows = call.rows.sets;
      const int64_t channels = call.rows.per;
      const GradientRule rule = rule_of(call);
      const GroupRule of{rule, call.layout.per, call.layout.width, channels, rule.inverse_count};
      auto* parts = static_cast<Sums*>(context.workspace);
      Sums* totals = parts + rows * cut.parts;
      using Parts = PartSumsKernel<T>;
      launch<Parts>({.blocks = rows * cut.parts, .threads = Parts::kThreads}, context.stream,
                    {runs, cut, rule.mean, of.groups, of.width, parts});
      launch<FinishGroupsKernel>(
          {.blocks = divide_up(call.layout.sets + channels, int64_t{FinishGroupsKernel::kWarps}),
           .threads = FinishGroupsKernel::kThreads,
           .overlaps = true},
          context.stream, {of, parts, totals, rows / channels, cut.parts});
      using Apply = ApplyGroupGradientKernel<T>;
      launch<Apply>({.blocks = rows * cut.parts, .threads = Apply::kThreads, .overlaps = true},
                    context.stream, {runs, cut, of, totals});
    });
  }
};

}  // namespace

extern const Rung kBackwardGroups;
const Rung kBackwardGroups = rung_of<BackwardGroups, GroupNormBackward>({
    .name = "backward_groups",
    .from = "backward_two_pass",
    .idea =
        "sums of each channel of each sample, added up in groups for dx, in samples for dweight",
});

}  // namespace ws::batch_norm
