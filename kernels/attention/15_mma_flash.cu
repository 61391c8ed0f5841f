#include "kernels/attention/15_mma_flash.cuh"

#include "kernels/attention/plain.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::attention {
namespace {

// H200 2026-11-22: the fastest of 3 shapes at 64, of 9 at 128 (64 keys spill 64 bytes, and are 7 %
// faster than 32, which do not), of 4 at 256. 32 queries a warp halve what is read of shared memory
// for each product, which 16 would wait for (mma.sync at its fastest takes 160 bytes a clock for 16
// rows, shared memory gives 128). Scaling lazily is worth 7 % at 128, 1 % of causal problems at 64;
// it costs 1 % of full ones there and 2 % at 256.
struct Shapes64 {
  using Plain = MmaFlashPolicy<MmaFlashShape{
      .dim = 64, .warps = 4, .row_blocks = 2, .keys = 64, .blocks = 2, .holds_query = true}>;
  using Every = MmaFlashPolicy<MmaFlashShape{
      .dim = 64, .warps = 4, .row_blocks = 1, .keys = 64, .blocks = 2, .holds_query = true}>;
};
struct Shapes128 {
  using Plain = MmaFlashPolicy<MmaFlashShape{
      .dim = 128, .warps = 4, .row_blocks = 2, .keys = 64, .blocks = 2, .lazy = true}>;
  using Every = MmaFlashPolicy<MmaFlashShape{
      .dim = 128, .warps = 4, .row_blocks = 1, .keys = 64, .blocks = 2, .lazy = true}>;
};
struct Shapes256 {
  using Plain = MmaFlashPolicy<MmaFlashShape{
      .dim = 256, .warps = 8, .row_blocks = 1, .keys = 64, .blocks = 1}>;
  using Every = MmaFlashPolicy<MmaFlashShape{
      .dim = 256, .warps = 4, .row_blocks = 1, .keys = 32, .blocks = 2}>;
};

// Windows as kernels take them.
VarlenCall narrowed(const VarlenCall& call) {
  VarlenCall narrow = call;
  narrow.window = {.left = narrow_side(call.window.left), .right = narrow_side(call.window.right)};
  return narrow;
}
VarlenCall every_call(const VarlenCall& call) { return call; }
VarlenCall every_call(const Call& call) {
  VarlenCall every;
  static_cast<Call&>(every) = call;
  return every;
}

template <class AnyCall>
bool takes(const AnyCall& call, Why& why) {
  const VarlenCall every = every_call(call);
  const int64_t queries = std::max(every.queries, every.total_queries);
  const int64_t keys = std::max(every.keys, every.total_keys);
  const int64_t batches = every.paged ? every.total_pages : every.batch;
  return has_kv_of_q(call, why) &&
         why.unless(
             call.head_dim <= Shapes256::Plain::kDim && call.value_dim <= Shapes256::Plain::kDim,
             "takes D and Dv up to ", Shapes256::Plain::kDim) &&
         why.unless(queries < kMostSeen && keys < kMostSeen, "takes up to 2^29 rows") &&
         why.unless(is_aligned(call.q, call.batch, call.heads, queries, call.head_dim),
                    "needs rows of q that begin at multiples of 16 bytes") &&
         why.unless(is_aligned(call.k, batches, call.kv_heads, keys, call.head_dim),
                    "needs rows of k that begin at multiples of 16 bytes") &&
         why.unless(is_aligned(call.v, batches, call.kv_heads, keys, call.value_dim),
                    "needs rows of v that begin at multiples of 16 bytes");
}

template <class T, class Policies>
void run_policy(const VarlenCall& call, const Sequences& sequences, Stream stream) {
  const bool aligned = is_aligned(call.out, call.batch, call.heads,
                                  std::max(call.queries, call.total_queries), call.value_dim);
  using Plain = MmaFlashKernel<T, typename Policies::Plain, true>;
  using Every = MmaFlashKernel<T, typename Policies::Every, false>;
  const bool is_plain = call.scale > 0 && call.softcap == 0 && !call.bias.exists &&
                        !call.slopes.exists && !call.paged;
  // Every GPU has the 96 KB of shared memory that are asked for up to D = 128; at 256 it is 192.
  const bool fits =
      sizeof(typename Plain::SharedStorage) <= static_cast<size_t>(device_facts().shared_bytes);
  if (is_plain && fits) {
    Plain::run(call, sequences, aligned, stream);
  } else {
    Every::run(call, sequences, aligned, stream);
  }
}

template <class AnyCall>
void run_any(const AnyCall& call, const Context& context) {
  const Sequences sequences(call, "attention/mma_flash");
  const VarlenCall narrow = narrowed(every_call(call));
  const int64_t dim = std::max(call.head_dim, call.value_dim);
  with_type<kHalves>(call.dtype, [&]<class T>() {
    if (dim <= Shapes64::Plain::kDim) {
      run_policy<T, Shapes64>(narrow, sequences, context.stream);
    } else if (dim <= Shapes128::Plain::kDim) {
      run_policy<T, Shapes128>(narrow, sequences, context.stream);
    } else {
      run_policy<T, Shapes256>(narrow, sequences, context.stream);
    }
  });
}

}  // namespace

bool MmaFlash::supports(const Attention::Call& call, Why& why) { return takes(call, why); }
bool MmaFlash::supports(const AttentionVarlen::Call& call, Why& why) { return takes(call, why); }
void MmaFlash::run(const Attention::Call& call, const Context& context) { run_any(call, context); }
void MmaFlash::run(const AttentionVarlen::Call& call, const Context& context) {
  run_any(call, context);
}

extern const Rung kMmaFlash;
constinit const Rung kMmaFlash = rung_of<MmaFlash, kHalves, Attention, AttentionVarlen>({
    .name = "mma_flash",
    .from = "any",
    .idea = "scores stay in the registers of tensor cores; keys and values a tile ahead",
    .may_spill = true,
});

}  // namespace ws::attention
