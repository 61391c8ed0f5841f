// The rung filter: told in its header, compiled here.
#include "kernels/topk/09_filter.cuh"

namespace ws::topk {

bool Filter::supports(const TopK::Call& call, Why& why) {
  return has_rows(call, why) &&
         why.unless(call.k <= kMostOutputs, "finds up to ", kMostOutputs, " a row, not ", call.k);
}

void Filter::run(const TopK::Call& call, const Context& context) {
  with_type<kSelected>(call.dtype, [&]<class T>() {
    const auto with = [&]<int kThreads>() {
      launch<FilterKernel<T, kThreads>>({.blocks = call.rows.rows, .threads = kThreads},
                                        context.stream, Rows<T>(call));
    };
    if (call.rows.row_bytes() <= kShortBytes) return with.template operator()<128>();
    with.template operator()<512>();
  });
}

extern const Rung kFilter;
const Rung kFilter = rung_of<Filter, TopK>(
    {.name = "filter", .from = "threshold", .idea = "a block a row, filtered by its beginning"});

}  // namespace ws::topk
