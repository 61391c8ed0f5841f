#include "kernels/attention/40_split_kv_mla_wgmma.cuh"

namespace ws::attention {
namespace {

struct SplitKvMlaWgmmaRule {
  static constexpr const char* kName = "attention/split_kv_mla_wgmma";
  static constexpr int64_t kMostDim = kMostMlaDim;
  static constexpr int64_t kKvBytes = 2;

  template <class AnyCall, class F>
  static auto with(const AnyCall& call, F&& f) {
    return with_type<kHalves>(call.dtype, [&]<class T>() {
      return f.template operator()<SplitKvMlaWgmmaKernel<T, kIsPacked<AnyCall>>>();
    });
  }
};

// What a block leaves of rows that were cut.
using AnyKernel = SplitKvMlaWgmmaKernel<bf16, false>;
constexpr size_t kPartsBytes =
    size_t{AnyKernel::kPartsOfBlock} * AnyKernel::kPartFloats * sizeof(float);

struct SplitKvMlaWgmma : SplitKv<SplitKvMlaWgmmaRule> {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return takes_latent_rows(call, why) &&
           why.unless(has_values_in_keys(call), "needs values that their keys begin with") &&
           SplitKv::supports(call, why);
  }

  // What tells which rows were cut, then what blocks leave of them.
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    const size_t cut = cut_bytes(call);
    return {.bytes = cut + static_cast<size_t>(most_blocks()) * kPartsBytes, .zeroed = cut};
  }

  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    if (rows_of(call) == 0) return;
    const Sequences sequences(call, SplitKvMlaWgmmaRule::kName);
    const bool aligned = true;
    SplitKvMlaWgmmaRule::with(call, [&]<class Kernel>() {
      const typename Kernel::Line line(call, sequences, most_blocks());
      Parts<float> parts;
      auto* const cut = static_cast<uint32_t*>(context.workspace);
      parts.partials =
          reinterpret_cast<float*>(static_cast<std::byte*>(context.workspace) + cut_bytes(call));
      launch<Kernel>({.blocks = line.blocks(), .threads = Kernel::kThreads}, context.stream,
                     {{line, call, parts, aligned, PageTable(sequences)}, cut});
      using Merge = MergeCutRowsKernel<Kernel>;
      launch<Merge>({.blocks = rows_of(call), .threads = Merge::kThreads, .overlaps = true},
                    context.stream, {cut, parts.partials, call});
    });
  }

 private:
  static int64_t most_blocks() { return device_facts().multiprocessors; }
  template <class AnyCall>
  static int64_t rows_of(const AnyCall& call) {
    return SplitKvExtents(call).queries * (kIsPacked<AnyCall> ? 1 : call.batch) * call.heads;
  }
  template <class AnyCall>
  static size_t cut_bytes(const AnyCall& call) {
    return round_up(static_cast<size_t>(rows_of(call)) * sizeof(CutRow), size_t{256});
  }
};

}  // namespace

extern const Rung kSplitKvMlaWgmma;
constinit const Rung kSplitKvMlaWgmma =
    rung_of<SplitKvMlaWgmma, kHalves, Attention, AttentionVarlen>({
        .name = "split_kv_mla_wgmma",
        .from = "split_kv_mla",
        .idea = "wgmma reads keys once for 64 heads; cut rows are put together on the whole GPU",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
