// Idea: entries in any order are sorted within the call, by keys of row and place; then they are
//   segments.
// From coo_segments: what it asks of its caller it does itself; of a row the entries are added up
//   in the order in which they are stored, the same in every run.
// Traffic: 8 bytes for an entry's key, twice read and once written for each six bits of a row's
//   number; values and columns by a place each, a sector for each where they lie anywhere.
// Limits: fewer than 2^32 rows and entries. The sort stands in embedding/sorted_indices.cu.
#include "kernels/embedding/sorted_indices.hpp"
#include "kernels/spmv/segments.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::spmv {
namespace {

// In the order of their keys.
template <class T, class I>
struct SortedEntries {
  Coo<T, I> a;
  Strided<const T> x;
  embedding::SortedIndices keys;

  // All lanes of the warp call.
  __device__ __forceinline__ FourEntries<T> load(int64_t j) const {
    constexpr int kWidth = kSegmentWidth;
    FourEntries<T> mine;
    bool known[kWidth];
    Vec<T, kWidth> values;
    Vec<I, kWidth> columns;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      embedding::SortedIndices::Source source{embedding::kNoRow, 0};
      if (j + e < a.entries) source = keys.source_at(j + e);
      const auto [row, place] = source;
      known[e] = row != embedding::kNoRow;
      mine.rows[e] = known[e] ? row : a.rows;
      if (!known[e]) continue;
      values[e] = thread::load(a.values + place * a.value_step);
      columns[e] = thread::load(a.col + place * a.col_step);
    }
    mine.next = warp::shuffle_down(mine.rows[0], 1);
    if (lane_index() == kWarpSize - 1) {
      const int64_t row = j + kWidth < a.entries ? keys.row_at(j + kWidth) : embedding::kNoRow;
      mine.next = row == embedding::kNoRow ? a.rows : row;
    }
    mine.products = a.columns.products(values, columns, known, x,
                                       [&](int e) { return keys.source_at(j + e).position; });
    return mine;
  }
};

struct CooSort {
  static bool supports(const CooCall& call, Why& why) {
    return why.unless(call.rows < embedding::kNoRow && call.entries < int64_t{1} << 32,
                      "takes fewer than 2^32 - 1 rows and 2^32 entries, not ", call.rows, " and ",
                      call.entries);
  }
  static Workspace workspace(const CooCall& call) {
    return {.bytes =
                embedding::sort_bytes(call.entries) + bytes_of_parts(call.dtype, tiles_of(call))};
  }
  static void run(const CooCall& call, const Context& context) {
    const char* const rung = "spmv_coo/coo_sort";
    const uint64_t* keys = nullptr;
    if (call.entries > 0) {
      const embedding::Indices rows(call.row, call.index == DType::kI64, call.row_step, rung,
                                    call.rows, "row");
      keys = embedding::sort_indices({rows, call.entries}, context.workspace, context.stream);
    }
    auto* parts = static_cast<std::byte*>(context.workspace) + embedding::sort_bytes(call.entries);
    with_types(call, [&]<class T, class I>() {
      const SortedEntries<T, I> entries{Coo<T, I>(call, rung), vector_of<T>(call),
                                        embedding::SortedIndices(keys, call.entries)};
      add_segments<T>(call, entries, parts, context.stream);
    });
  }
};

}  // namespace

extern const Rung kCooSort;
const Rung kCooSort = rung_of<CooSort, SpmvCoo>({
    .name = "coo_sort",
    .from = "coo_segments",
    .idea = "entries in any order: sorted by row within the call, then summed as segments",
});

}  // namespace ws::spmv
