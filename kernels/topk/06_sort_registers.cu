// The rung sort_registers: told in its header, compiled here.
#include "kernels/topk/06_sort_registers.cuh"

namespace ws::topk {

bool SortRegisters::supports(const Selection& call, Why& why) {
  return has_rows(call, why) &&
         why.unless(call.rows.columns <= kMostColumns, "takes up to ", kMostColumns,
                    " elements a row, not ", call.rows.columns);
}

void SortRegisters::run(const Selection& call, const Context& context) {
  with_type<kSelected>(call.dtype, [&]<class T>() {
    const auto with = [&]<int kThreads, int kKeys>() {
      launch<SortRegistersKernel<T, kThreads, kKeys>>(
          {.blocks = call.rows.rows, .threads = kThreads}, context.stream, Rows<T>(call));
    };
    if (call.rows.columns <= 256) return with.template operator()<32, 8>();
    if (call.rows.columns <= 1024) return with.template operator()<128, 8>();
    with.template operator()<512, 16>();
  });
}

extern const Rung kSortRegisters;
const Rung kSortRegisters =
    rung_of<SortRegisters, TopK, Sort>({.name = "sort_registers",
                                        .from = "bitonic",
                                        .idea = "the network between registers and lanes"});

}  // namespace ws::topk
