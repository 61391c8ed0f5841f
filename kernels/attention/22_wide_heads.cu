#include "kernels/attention/22_wide_heads.cuh"

namespace ws::attention {
namespace {

bool can_be_copied(const char* name, const Heads& heads, int64_t batch, int64_t count, int64_t rows,
                   int64_t columns, Why& why) {
  constexpr int64_t kMost = int64_t{1} << 39;  // elements: the copy engine's 2^40 bytes
  const auto is_step = [](int64_t extent, int64_t stride) {
    return extent <= 1 || (stride > 0 && stride % 8 == 0 && stride < kMost);
  };
  return why.unless(columns <= 1 || heads.column == 1, "needs dense rows of ", name) &&
         why.unless(reinterpret_cast<uintptr_t>(heads.data) % 16 == 0, "needs ", name,
                    " at a multiple of 16 bytes") &&
         why.unless(
             is_step(rows, heads.row) && is_step(count, heads.head) && is_step(batch, heads.batch),
             "needs strides of ", name, " that are multiples of 16 bytes, above 0");
}

template <class T, WideShape kShape>
void run_wide(const Call& call, Stream stream) {
  using Kernel = WideHeadsKernel<T, kShape>;
  const int64_t tiles = divide_up(call.queries, Kernel::kQueries);
  launch<Kernel>({.blocks = Kernel::kCluster * tiles * call.heads * call.batch,
                  .threads = Kernel::kThreads,
                  .cluster = Kernel::kCluster},
                 stream,
                 {.q = head_map<T>(call.q, call.head_dim, call.queries, call.heads, call.batch,
                                   false, Kernel::kQueries, true),
                  .k = head_map<T>(call.k, call.head_dim, call.keys, call.kv_heads, call.batch,
                                   false, kBlockKeys, true),
                  .v = head_map<T>(call.v, call.value_dim, call.keys, call.kv_heads, call.batch,
                                   false, Kernel::kSliceKeys, true),
                  .out = call.out,
                  .lse = call.lse,
                  .queries = static_cast<int>(call.queries),
                  .keys = static_cast<int>(call.keys),
                  .heads = static_cast<int>(call.heads),
                  .group = static_cast<int>(call.group()),
                  .tiles = static_cast<int>(tiles),
                  .slices = static_cast<int>(divide_up(call.head_dim, Kernel::kRow)),
                  .value_dim = static_cast<int>(call.value_dim),
                  .scale = call.scale * thread::kLog2E,
                  .causal = call.window.is_causal()});
}

}  // namespace

bool WideHeads::supports(const Call& call, Why& why) {
  constexpr int64_t kMostRows = int64_t{1} << 30;
  return has_plain_scores(call, why) &&
         why.unless(call.keys > 0, "no keys leave nothing to copy") &&
         why.unless(call.queries < kMostRows && call.keys < kMostRows,
                    "takes fewer than 2^30 rows") &&
         why.unless(4 * divide_up(call.queries, 64) * call.heads * call.batch <= kMostRows,
                    "takes up to 2^30 blocks") &&
         can_be_copied("q", call.q, call.batch, call.heads, call.queries, call.head_dim, why) &&
         can_be_copied("k", call.k, call.batch, call.kv_heads, call.keys, call.head_dim, why) &&
         can_be_copied("v", call.v, call.batch, call.kv_heads, call.keys, call.value_dim, why) &&
         why.unless(call.value_dim <= 1 || call.out.column == 1, "needs dense rows of out");
}

void WideHeads::run(const Call& call, const Context& context) {
  if (call.batch * call.heads * call.queries == 0) return;
  with_type<kHalves>(call.dtype, [&]<class T>() {
    if (call.head_dim <= kWide320.head_dim && call.value_dim <= 2 * kWide320.columns) {
      run_wide<T, kWide320>(call, context.stream);
    } else if (call.value_dim > 2 * kWide512.columns || call.head_dim > kWide576.head_dim) {
      run_wide<T, kWide1024>(call, context.stream);
    } else if (call.head_dim <= kWide512.head_dim) {
      run_wide<T, kWide512>(call, context.stream);
    } else {
      run_wide<T, kWide576>(call, context.stream);
    }
  });
}

extern const Rung kWideHeads;
constinit const Rung kWideHeads = rung_of<WideHeads, kHalves, Attention>({
    .name = "wide_heads",
    .from = "any",
    .idea = "the blocks of a cluster share a head's columns, and trade the weights of their keys",
    .arch = Arch::kSm90a,
});

}  // namespace ws::attention
