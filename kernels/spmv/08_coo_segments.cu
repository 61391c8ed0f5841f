// Idea: rows that never fall are segments: a thread adds up four entries, what is open at its end
//   goes to those behind it by scans, and a row is stored by who sees it end.
// From coo_atomic: no atomics, and the same bits in every run; 16 bytes of rows, columns and values
//   a thread, which asks the next lane for the row behind its last.
// Traffic: rows, columns and values once; a row's y twice, as those without entries are written
//   first; 16 to 24 bytes for a tile of 2048 entries.
// Limits: `ordered` entries, where a row that falls is reported; fewer than 2^31 tiles.
#include "kernels/spmv/segments.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::spmv {
namespace {

// As they are stored.
template <class T, class I>
struct StoredEntries {
  Coo<T, I> a;
  Strided<const T> x;
  bool vectors;  // all three tensors are without gaps and begin at multiples of a vector

  // All lanes of the warp call.
  __device__ __forceinline__ FourEntries<T> load(int64_t j) const {
    constexpr int kWidth = kSegmentWidth;
    bool known[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) known[e] = j + e < a.entries;
    const bool at_once = vectors && known[kWidth - 1];
    // Apart, so that nobody keeps twelve addresses who reads three vectors.
    const auto [rows, columns, values] = at_once ? read(j, true, known) : read(j, false, known);
    FourEntries<T> mine;
    mine.products = a.columns.products(values, columns, known, x, [&](int e) { return j + e; });
#pragma unroll
    for (int e = 0; e < kWidth; ++e) mine.rows[e] = known[e] ? int64_t{rows[e]} : a.rows;
    int64_t before = warp::shuffle_up(mine.rows[kWidth - 1], 1);
    if (lane_index() == 0) before = j > 0 && known[0] ? row_at(j - 1) : 0;
    mine.next = warp::shuffle_down(mine.rows[0], 1);
    if (lane_index() == kWarpSize - 1) mine.next = j + kWidth < a.entries ? row_at(j + kWidth) : -1;
    check(j, before, known, mine);
    return mine;
  }

 private:
  struct Read {
    Vec<I, kSegmentWidth> rows;
    Vec<I, kSegmentWidth> columns;
    Vec<T, kSegmentWidth> values;
  };
  __device__ __forceinline__ Read read(int64_t j, bool at_once,
                                       const bool (&known)[kSegmentWidth]) const {
    return {load_known(a.row + j * a.row_step, a.row_step, at_once, known),
            load_known(a.col + j * a.col_step, a.col_step, at_once, known),
            load_known(a.values + j * a.value_step, a.value_step, at_once, known)};
  }
  __device__ __forceinline__ int64_t row_at(int64_t j) const {
    return thread::load(a.row + j * a.row_step);
  }
  __device__ __forceinline__ bool exists(int64_t row) const {
    return static_cast<uint64_t>(row) < static_cast<uint64_t>(a.rows);
  }

  // Reports what is wrong. Of rows that fall the entries stay where they say, so that a row may be
  // stored twice; of those that are none they go to no row.
  __device__ __forceinline__ void check(int64_t j, int64_t before, const bool (&known)[4],
                                        FourEntries<T>& mine) const {
#pragma unroll
    for (int e = 0; e < kSegmentWidth; ++e) {
      const int64_t row = mine.rows[e];
      const int64_t least = exists(before) ? before : 0;
      if (known[e] && !a.row_check(row, j + e, least) && !exists(row)) mine.rows[e] = a.rows;
      before = row;
    }
    if (!exists(mine.next)) mine.next = a.rows;
  }
};

struct CooSegments {
  static bool supports(const CooCall& call, Why& why) {
    return why.unless(call.is_ordered,
                      "takes entries that are ordered by rows, as their caller "
                      "says by ordered=true") &&
           has_few_tiles(call, why);
  }
  static Workspace workspace(const CooCall& call) {
    return {.bytes = bytes_of_parts(call.dtype, tiles_of(call))};
  }
  static void run(const CooCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      const bool vectors = call.value_step == 1 && call.row_step == 1 && call.col_step == 1 &&
                           begins_at_vector<T, kSegmentWidth>(call.values) &&
                           begins_at_vector<I, kSegmentWidth>(call.row) &&
                           begins_at_vector<I, kSegmentWidth>(call.col);
      const StoredEntries<T, I> entries{Coo<T, I>(call, "spmv_coo/coo_segments"),
                                        vector_of<T>(call), vectors};
      add_segments<T>(call, entries, context.workspace, context.stream);
    });
  }
};

}  // namespace

extern const Rung kCooSegments;
const Rung kCooSegments = rung_of<CooSegments, SpmvCoo>({
    .name = "coo_segments",
    .from = "coo_atomic",
    .idea = "entries ordered by rows: sums of four a thread, handed on by scans",
});

}  // namespace ws::spmv
