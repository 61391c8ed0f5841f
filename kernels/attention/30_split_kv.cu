#include "kernels/attention/30_split_kv.cuh"

#include "warpsmith/device_facts.hpp"

namespace ws::attention {
namespace {

// Counted, none compared but one: H200 2026-11-24, rings of five tiles of keys or values, asked for
// in two places of the program, which was twice as large (README.md). In flight are two of three
// units of 8 KB of eight warps of an SM, 128 KB; of 256 columns one of two of 16 KB of four warps,
// 64 KB, in a block that an A100 has room for too.
constexpr SplitKvShape kNarrow64{
    .dim = 64, .row_blocks = 1, .keys = 32, .stages = 3, .blocks = 2, .holds_query = true};
constexpr SplitKvShape kTall64{
    .dim = 64, .row_blocks = 2, .keys = 32, .stages = 3, .blocks = 2, .holds_query = true};
constexpr SplitKvShape kNarrow128{
    .dim = 128, .row_blocks = 1, .keys = 16, .stages = 3, .blocks = 2, .holds_query = true};
constexpr SplitKvShape kTall128{
    .dim = 128, .row_blocks = 2, .keys = 16, .stages = 3, .blocks = 2, .holds_query = false};
constexpr SplitKvShape kNarrow256{
    .dim = 256, .row_blocks = 1, .keys = 16, .stages = 2, .blocks = 1, .holds_query = false};

// f.template operator()<Kernel>() for the kernel that takes a call.
template <class AnyCall, class F>
auto with_kernel(const AnyCall& call, F&& f) {
  constexpr bool kPacked = std::is_same_v<AnyCall, VarlenCall>;
  const int64_t dim = std::max(call.head_dim, call.value_dim);
  const bool is_narrow = call.queries * call.group() <= 16;
  return with_type<kHalves>(call.dtype, [&]<class T>() {
    if (dim > kNarrow128.dim) return f.template operator()<SplitKvKernel<T, kNarrow256, kPacked>>();
    if (dim > kNarrow64.dim) {
      return is_narrow ? f.template operator()<SplitKvKernel<T, kNarrow128, kPacked>>()
                       : f.template operator()<SplitKvKernel<T, kTall128, kPacked>>();
    }
    return is_narrow ? f.template operator()<SplitKvKernel<T, kNarrow64, kPacked>>()
                     : f.template operator()<SplitKvKernel<T, kTall64, kPacked>>();
  });
}

// Blocks that are resident where shared memory is that of a GPU for data centres. More than are
// resident, elsewhere, wait for no other: they run later.
template <class Kernel>
int64_t most_blocks() {
  return int64_t{device_facts().multiprocessors} * Kernel::kMinBlocks;
}

// Counters of parts, and what blocks leave.
template <class Kernel>
PartsPlan plan_of() {
  return {.groups = most_blocks<Kernel>(),
          .parts = Kernel::kPartsOfBlock,
          .partials = Kernel::kPartFloats,
          .partial_bytes = sizeof(float)};
}

struct Extents {
  int64_t batches;  // of keys: or pages
  int64_t queries, keys;
  int64_t most_keys;  // of a sequence
  int64_t tiles;      // of the least rows, of all sequences
};
Extents extents_of(const Call& call) {
  return {call.batch, call.queries, call.keys, call.keys,
          call.batch * divide_up(call.queries * call.group(), 16)};
}
Extents extents_of(const VarlenCall& call) {
  return {call.paged ? call.total_pages : 1, call.total_queries, call.total_keys, call.keys,
          call.batch + call.total_queries * call.group() / 16};
}

template <class AnyCall>
bool takes(const AnyCall& call, Why& why) {
  constexpr int64_t kMostDim = kNarrow256.dim;
  constexpr int64_t kMostUnits = int64_t{1} << 30;
  const Extents all = extents_of(call);
  return why.unless(!call.bias.exists, "takes no bias") &&
         why.unless(call.head_dim <= kMostDim && call.value_dim <= kMostDim,
                    "takes D and Dv up to ", kMostDim) &&
         why.unless(call.queries * call.group() <= SplitKv::kMostRows, "takes up to ",
                    SplitKv::kMostRows, " queries times heads that share keys, not ",
                    call.queries * call.group()) &&
         why.unless(all.queries < kMostSeen && all.keys < kMostSeen && all.most_keys < kMostSeen,
                    "takes up to 2^29 rows") &&
         why.unless(all.tiles <= kMostUnits && call.kv_heads <= kMostUnits &&
                        static_cast<double>(all.tiles) * static_cast<double>(call.kv_heads) *
                                (static_cast<double>(all.most_keys) / 16 + 1) <=
                            static_cast<double>(kMostUnits),
                    "counts up to 2^30 times 16 keys of all heads") &&
         why.unless(is_aligned(call.q, call.batch, call.heads, all.queries, call.head_dim),
                    "needs rows of q that begin at multiples of 16 bytes") &&
         why.unless(is_aligned(call.k, all.batches, call.kv_heads, all.keys, call.head_dim),
                    "needs rows of k that begin at multiples of 16 bytes") &&
         why.unless(is_aligned(call.v, all.batches, call.kv_heads, all.keys, call.value_dim),
                    "needs rows of v that begin at multiples of 16 bytes") &&
         with_kernel(call, [&]<class Kernel>() {
           constexpr size_t kBytes = sizeof(typename Kernel::SharedStorage);
           return why.unless(kBytes <= static_cast<size_t>(device_facts().shared_bytes), "needs ",
                             kBytes, " bytes of shared memory");
         });
}

template <class AnyCall>
Workspace workspace_of(const AnyCall& call) {
  return with_kernel(call, [&]<class Kernel>() {
    static_assert(Kernel::kMinBlocks * (sizeof(typename Kernel::SharedStorage) +
                                        Multiprocessor::kSharedReserved) <=
                      Multiprocessor::kSharedBytes,
                  "blocks that are counted on to share an SM");
    return plan_of<Kernel>().workspace();
  });
}

template <class AnyCall>
void run_any(const AnyCall& call, const Context& context) {
  const int64_t queries = extents_of(call).queries;
  if (call.batch == 0 || call.heads == 0 || (queries == 0 && call.queries == 0)) return;
  const Sequences sequences(call, "attention/split_kv");
  const bool aligned = is_aligned(call.out, call.batch, call.heads, queries, call.value_dim);
  with_kernel(call, [&]<class Kernel>() {
    const typename Kernel::Line line(call, sequences, most_blocks<Kernel>());
    launch<Kernel>({.blocks = line.blocks(), .threads = Kernel::kThreads}, context.stream,
                   {line, call, Parts<float>(plan_of<Kernel>(), context.workspace), aligned,
                    PageTable(sequences)});
  });
}

}  // namespace

bool SplitKv::supports(const Attention::Call& call, Why& why) { return takes(call, why); }
bool SplitKv::supports(const AttentionVarlen::Call& call, Why& why) { return takes(call, why); }
Workspace SplitKv::workspace(const Attention::Call& call) { return workspace_of(call); }
Workspace SplitKv::workspace(const AttentionVarlen::Call& call) { return workspace_of(call); }
void SplitKv::run(const Attention::Call& call, const Context& context) { run_any(call, context); }
void SplitKv::run(const AttentionVarlen::Call& call, const Context& context) {
  run_any(call, context);
}

extern const Rung kSplitKv;
constinit const Rung kSplitKv = rung_of<SplitKv, kHalves, Attention, AttentionVarlen>({
    .name = "split_kv",
    .from = "mma_flash",
    .idea = "blocks share out keys, not queries; the last to come puts their parts together",
});

}  // namespace ws::attention
