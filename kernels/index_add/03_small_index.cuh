// Idea: a block an index, its threads along the row: the index is read once for all of them.
// From generic_atomic: a division a thread in the row, none for the index; neighbouring threads
// take neighbouring elements of source and y.
// Traffic: as before.
// Limits: rows of at most two loops, fewer than 2^31 elements each. A row of a few elements leaves
// most of a block idle.
#pragma once

#include "kernels/index_add/elements.hpp"
#include "warpsmith/ptx/atomic.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
template <class T>
struct SmallIndexKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Indices index;
    const T* source;
    float* sums;
    int64_t count;
    uint32_t lanes;  // elements of a row
    thread::Divider inner;
    int64_t rows[2];  // strides of source and sums, in each direction
    int64_t outers[2];
    int64_t inners[2];
    float alpha;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    for (int64_t i = block_index(); i < a.count; i += grid_blocks()) {
      const int64_t row = a.index[i];
      if (!a.index.is_right(row, i)) continue;
      for (auto lane = static_cast<uint32_t>(thread_index()); lane < a.lanes; lane += kThreads) {
        const uint32_t outer = a.inner.quotient(lane);
        const uint32_t inner = lane - outer * a.inner.divisor();
        const auto at = [&](int k) { return outer * a.outers[k] + inner * a.inners[k]; };
        ptx::red_global_add(a.sums + row * a.rows[1] + at(1),
                            a.alpha * to_float(thread::load(a.source + i * a.rows[0] + at(0))));
      }
    }
  }
};

struct SmallIndex {
  static bool supports(const IndexAdd::Call& call, Why& why) {
    return why.unless(call.has_lines, "takes rows of at most two loops") &&
           why.unless(call.lines.outer * call.lines.inner < (int64_t{1} << 31) - 4096,
                      "takes rows of fewer than 2^31 elements");
  }
  static Workspace workspace(const Adding& call) { return Sums::workspace(call); }
  static void run(const IndexAdd::Call& call, const Context& context) {
    const embedding::AddSorted& lines = call.lines;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      add_up<T>(call, context, [&](const Sums& sums) {
        using Kernel = SmallIndexKernel<T>;
        // The dense tensor has y's shape: its loops are its own.
        const bool is_direct = sums.operand == kTable;
        launch<Kernel>(
            {.blocks = std::min(lines.count, int64_t{1} << 20), .threads = Kernel::kThreads},
            context.stream,
            {line_indices_of(call, "index_add/small_index"),
             static_cast<const T*>(call.each),
             sums.data,
             lines.count,
             static_cast<uint32_t>(lines.outer * lines.inner),
             thread::Divider(lines.inner),
             {lines.row_strides[embedding::kSource], sums.stride},
             {lines.outer_strides[embedding::kSource],
              is_direct ? lines.outer_strides[embedding::kY] : call.sums_strides[0]},
             {lines.inner_strides[embedding::kSource],
              is_direct ? lines.inner_strides[embedding::kY] : call.sums_strides[1]},
             call.alpha});
      });
    });
  }
};

inline constexpr Seed kSmallIndexSeeds[] = {
    {.name = "index_add_small_index", .operation = "index_add"}};
inline constexpr Rung kSmallIndex =
    rung_of<SmallIndex, IndexAdd>({.name = "small_index",
                                   .from = "generic_atomic",
                                   .idea = "a block an index, its threads along the row",
                                   .deterministic = false,
                                   .seeds = kSmallIndexSeeds});
#endif

}  // namespace ws::index_add
