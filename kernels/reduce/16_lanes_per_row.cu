// Idea: 1 to 32 lanes a row, as the row asks for, so that each lane has a few 16-byte loads.
// From warp_per_row: short rows share a warp, wide accesses.
// From one_pass: no barrier.
// Traffic: every element once, 16 bytes a lane and load, up to four in flight.
// Limits: elements of a row side by side, up to 65536; long rows keep few lanes busy.
#include "catalogue/row.hpp"
#include "kernels/reduce/fold.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::reduce {
namespace {

template <class Reducer>
struct LanesPerRowKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = row::kWidest<typename Reducer::Element>;
  static constexpr int kTile = 4;  // a lane's loads, as many as short rows have for it
  using Element = typename Reducer::Element;
  using Accumulator = typename Reducer::Accumulator;
  struct Arguments {
    Reducer reducer;
    const Element* x;
    int64_t pitch;
    int64_t rows;
    int64_t columns;
    int lanes;  // a power of two
    void* output;
    int64_t output_stride;
    DType output_dtype;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int lane = thread_index() & (a.lanes - 1);
    const int64_t own = (block_index() * kThreads + thread_index()) / a.lanes;
    // Lanes beyond the last row help with it, so that whole warps shuffle.
    const int64_t row = own < a.rows ? own : a.rows - 1;
    const RowStart<Reducer> start{{a.x + row * a.pitch}};
    const row::Cut<kWidth> cut(start.at[0], a.columns);
    Accumulator total = fold_vectors<kTile>(a.reducer, start, cut, 0, cut.vectors, lane, a.lanes);
    if (cut.edges > 0) {
      total = Reducer::merge(total, fold_edges(a.reducer, start, cut, lane, a.lanes));
    }
    for (int distance = a.lanes / 2; distance > 0; distance /= 2) {
      total = Reducer::merge(total, warp::shuffle_xor(total, distance));
    }
    if (lane == 0 && own < a.rows) {
      store_as(a.output_dtype, a.output, row * a.output_stride, a.reducer.finish(total));
    }
  }
};

struct LanesPerRow {
  static constexpr int64_t kVectorsOfALane = 4;
  static constexpr int64_t kMostColumns = 1 << 16;  // beyond, chains are long and slow

  static bool supports(const Reduction& call, Why& why) {
    return rows_supported(call, why) &&
           why.unless(call.outputs < int64_t{1} << 31, "takes fewer than 2^31 rows, not ",
                      call.outputs) &&
           why.unless(call.count <= kMostColumns, "adds up to ", kMostColumns,
                      " elements with 32 lanes, not ", call.count);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_reducer<Elements::kAsTheyLie>(call, [&]<class Reducer>(const Reducer& reducer) {
      using Kernel = LanesPerRowKernel<Reducer>;
      const int64_t vectors = call.count / Kernel::kWidth;
      int lanes = 1;
      while (lanes < kWarpSize && lanes * kVectorsOfALane < vectors) lanes *= 2;
      typename Kernel::Arguments arguments{};
      arguments.reducer = reducer;
      arguments.x = call.template input<typename Reducer::Element>(0);
      arguments.pitch = call.kept[0].strides[0];
      arguments.rows = call.outputs;
      arguments.columns = call.count;
      arguments.lanes = lanes;
      arguments.output = call.output;
      arguments.output_stride = call.kept[0].strides[1];
      arguments.output_dtype = call.output_dtype;
      launch<Kernel>({.blocks = divide_up(call.outputs * lanes, int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }
};

}  // namespace

extern const Rung kLanesPerRow;
const Rung kLanesPerRow =
    fast_rung_of<LanesPerRow, Sum, Mean, Prod, Amax, Amin, Argmax, Argmin, Any, All, VectorNorm>(
        {.name = "lanes_per_row",
         .from = "warp_per_row",
         .idea = "1 to 32 lanes a row, 16 bytes a load"});

}  // namespace ws::reduce
