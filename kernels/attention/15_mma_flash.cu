#include "kernels/attention/15_mma_flash.cuh"

#include "kernels/attention/flash_calls.hpp"

namespace ws::attention {
namespace {

// H200 2026-11-22: the fastest of 3 shapes at 64, of 9 at 128 (64 keys spill 64 bytes, and are 7 %
// faster than 32, which do not), of 4 at 256. 32 queries a warp halve what is read of shared memory
// for each product, which 16 would wait for (mma.sync at its fastest takes 160 bytes a clock for 16
// rows, shared memory gives 128). Scaling lazily is worth 7 % at 128, 1 % of causal problems at 64;
// it costs 1 % of full ones there and 2 % at 256. Of up to 64 queries (2026-12-03) half of Plain's
// rows were empty: 64 x 8 heads of 64 12.8 us, 17.8 by Plain, 12.1 with 32 keys; of 512 keys 30.9,
// 41.3, 33.2; 256 x 4 heads of 49 19.5, 30.6, 19.3.
struct Shapes64 {
  using Plain = MmaFlashPolicy<MmaFlashShape{
      .dim = 64, .warps = 4, .row_blocks = 2, .keys = 64, .blocks = 2, .holds_query = true}>;
  using Every = MmaFlashPolicy<MmaFlashShape{
      .dim = 64, .warps = 4, .row_blocks = 1, .keys = 64, .blocks = 2, .holds_query = true}>;
  using Short = MmaFlashPolicy<MmaFlashShape{
      .dim = 64, .warps = 4, .row_blocks = 1, .keys = 64, .blocks = 4, .holds_query = true}>;
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

bool takes(const auto& call, Why& why) { return takes_flash(call, Shapes256::Plain::kDim, why); }
void run_any(const auto& call, const Context& context) {
  with_type<kHalves>(call.dtype, [&]<class T>() {
    run_flash<FlashKernels<T, MmaProducts, Shapes64, Shapes128, Shapes256>>(
        call, "attention/mma_flash", context.stream);
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
