// Idea: f32 on tensor cores. TF32 has 11 of a number's 24 bits; what it leaves of it is a number,
//   too, and three products of TF32 are one of f32: queries, keys, weights and values are taken
//   apart in registers, where they meet.
// From mma_flash: its kernel by other products (mma_products_tf32.hpp). Keys and values take as
//   many bytes in tiles of half the rows; sums over a tile are added up outside of the tensor
//   cores, which cut what they add. A block that meets an infinity walks its keys again.
// Traffic: as mma_flash's, of 4 bytes an element.
// Limits: 1/3 of what mma.sync does in TF32. f32; D and Dv up to 256, above 128 on GPUs with 128 KB
//   of shared memory a block; rows of q, k and v at multiples of 16 bytes.
#include "kernels/attention/flash_calls.hpp"
#include "kernels/attention/mma_products_tf32.hpp"

namespace ws::attention {
namespace {

// H200 2026-12-03, forward of 4096 keys, TFLOP/s of f32 (mma.sync does 105): D = 64 70.5, one block
// of rows with 64 keys 68.4, with 32 and three blocks an SM 65.1; 128 67.9, eight warps with 64
// keys 69.0, with 32 66.7, two blocks of rows 55.7; 256 56.5.
struct Shapes64 {
  using Plain = MmaFlashPolicy<MmaFlashShape{
      .dim = 64, .warps = 4, .row_blocks = 2, .keys = 32, .blocks = 2}>;
  using Every = MmaFlashPolicy<MmaFlashShape{
      .dim = 64, .warps = 4, .row_blocks = 1, .keys = 32, .blocks = 2}>;
  using Short = Every;
};
struct Shapes128 {
  using Plain = MmaFlashPolicy<MmaFlashShape{
      .dim = 128, .warps = 4, .row_blocks = 1, .keys = 32, .blocks = 2}>;
  using Every = Plain;
};
struct Shapes256 {
  using Plain = MmaFlashPolicy<MmaFlashShape{
      .dim = 256, .warps = 8, .row_blocks = 1, .keys = 16, .blocks = 1}>;
  using Every = MmaFlashPolicy<MmaFlashShape{
      .dim = 256, .warps = 4, .row_blocks = 1, .keys = 16, .blocks = 1}>;
};
using Kernels = FlashKernels<float, ProductsTf32, Shapes64, Shapes128, Shapes256>;

struct ThreeTf32 {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    if (!takes_flash(call, Shapes256::Plain::kDim, why)) return false;
    bool fits = false;
    Kernels::with_kernels(
        call, [&]<class /*Plain*/, class Every>() { fits = has_shared_memory<Every>(why); });
    return fits;
  }
  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    run_flash<Kernels>(call, "attention/three_tf32", context.stream);
  }
};

}  // namespace

extern const Rung kThreeTf32;
constinit const Rung kThreeTf32 =
    rung_of<ThreeTf32, DTypes{DType::kF32}, Attention, AttentionVarlen>({
        .name = "three_tf32",
        .from = "mma_flash",
        .idea = "f32 as three products of TF32, taken apart in registers",
        .may_spill = true,  // up to 52 bytes, of which a tile of keys reads some once
    });

}  // namespace ws::attention
