// The rung threshold: told in its header, compiled here.
#include "kernels/topk/08_threshold.cuh"

namespace ws::topk {

bool Threshold::supports(const TopK::Call& call, Why& why) {
  return has_rows(call, why) &&
         why.unless(call.rows.row_bytes() <= kMostBytes, "takes rows of up to ", kMostBytes,
                    " bytes, not ", call.rows.row_bytes()) &&
         why.unless(call.k <= kMostOutputs, "finds up to ", kMostOutputs, " a row, not ", call.k);
}

void Threshold::run(const TopK::Call& call, const Context& context) {
  with_type<kSelected>(call.dtype, [&]<class T>() {
    const auto with = [&]<int kVectors>() {
      using Kernel = ThresholdKernel<T, kVectors>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, Rows<T>(call));
    };
    const int64_t vectors = divide_up(call.rows.row_bytes(), int64_t{16 * kWarpSize});
    if (vectors <= 1) return with.template operator()<1>();
    if (vectors <= 4) return with.template operator()<4>();
    with.template operator()<8>();
  });
}

extern const Rung kThreshold;
const Rung kThreshold =
    rung_of<Threshold, TopK>({.name = "threshold",
                              .from = "packed_keys",
                              .idea = "only elements that reach what k lanes' best do"});

}  // namespace ws::topk
