// Idea: up to eight rows of queries leave half of a product's sixteen rows empty. So keys are the
//   rows, and queries the columns, of which mma.sync has eight.
// From split_kv: half of the products, exponentials and registers (mma_transposed.hpp), and all
//   warps of an SM in one block, so that fewer parts are to be put together.
// Traffic: as split_kv, or split_kv_e4m3.
// Limits: up to eight queries times heads that share keys; else as split_kv, or, where keys are of
//   8 bits, split_kv_e4m3. An SM's worth of shared memory in one block: not on an A100.
#include "kernels/attention/30_split_kv.cuh"
#include "kernels/attention/plain.hpp"

namespace ws::attention {
namespace {

// H200 2026-12-01, 8, 64:8, 8192, us, and 1, 32:8, 8192: as here 66.2, 16.6; two blocks of four
// warps 67.0, 18.5; twice the keys and fewer stages 66.7, 17.0. Of 8 bits, in pages of 64: 44.4;
// two blocks 46.7; units of 16 keys 52.1, of twelve warps 49.1, of sixteen 60.8.
constexpr SplitKvShape whole_sm(int dim, int keys, int stages) {
  return {.dim = dim,
          .row_blocks = 0,
          .keys = keys,
          .stages = stages,
          .blocks = 1,
          .holds_query = true,
          .warps = 8};
}
struct Shapes16 {
  static constexpr SplitKvShape k64 = whole_sm(64, 32, 3);
  static constexpr SplitKvShape k128 = whole_sm(128, 16, 3);
};
struct Shapes8 {
  static constexpr SplitKvShape k64 = whole_sm(64, 32, 6);
  static constexpr SplitKvShape k128 = whole_sm(128, 32, 3);
};

template <class Shapes, int64_t kBytes>
struct TransposedRule {
  static constexpr const char* kName = "attention/split_kv_transposed";
  static constexpr int64_t kMostDim = Shapes::k128.dim;
  static constexpr int64_t kKvBytes = kBytes;

  template <class AnyCall, class F>
  static auto with(const AnyCall& call, F&& f) {
    return with_type<kHalves>(call.dtype, [&]<class T>() {
      using Kv = std::conditional_t<kBytes == 1, e4m3, T>;
      constexpr bool kPacked = kIsPacked<AnyCall>;
      return std::max(call.head_dim, call.value_dim) > Shapes::k64.dim
                 ? f.template operator()<SplitKvKernel<T, Shapes::k128, kPacked, Kv>>()
                 : f.template operator()<SplitKvKernel<T, Shapes::k64, kPacked, Kv>>();
    });
  }
};

struct SplitKvTransposed {
  using Of16 = SplitKv<TransposedRule<Shapes16, 2>>;
  using Of8 = SplitKv<TransposedRule<Shapes8, 1>>;

  // f of what takes keys as they are.
  template <class AnyCall, class F>
  static auto with(const AnyCall& call, F&& f) {
    if constexpr (kIsPacked<AnyCall>) {
      if (call.has_kv_of_8_bits) return f.template operator()<Of8>();
    }
    return f.template operator()<Of16>();
  }

  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    constexpr int64_t kMost = 8;
    return why.unless(call.queries * call.group() <= kMost, "takes up to ", kMost,
                      " queries times heads that share keys, not ", call.queries * call.group()) &&
           with(call, [&]<class Kernels>() {
             if (std::is_same_v<Kernels, Of8> &&
                 !why.unless(call.head_dim % 8 == 0, "needs a D that 8 divides, not ",
                             call.head_dim)) {
               return false;
             }
             return Kernels::supports(call, why);
           });
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return with(call, [&]<class Kernels>() { return Kernels::workspace(call); });
  }
  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with(call, [&]<class Kernels>() { Kernels::run(call, context); });
  }
};

}  // namespace

extern const Rung kSplitKvTransposed;
constinit const Rung kSplitKvTransposed =
    rung_of<SplitKvTransposed, kHalves, Attention, AttentionVarlen>({
        .name = "split_kv_transposed",
        .from = "split_kv",
        .idea = "keys are rows of the products and queries columns, of which eight are enough",
    });

}  // namespace ws::attention
