// Idea: row by row in memory: 1 to 32 lanes a row, each with four slots that are next to each
//   other, and shuffles add up what they have.
// From ell_thread: an access of a warp is whole sectors, 16 bytes of values and of columns a lane;
//   few rows of many slots keep the GPU busy.
// Traffic: each value and column once, padding too; x as its columns ask for it.
// Limits: fewer than 2^33 rows.
#include "kernels/spmv/ell.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::spmv {
namespace {

constexpr int kSlots = 4;  // of a lane

template <class T, class I>
struct EllLanesKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Ell<T, I> a;
    Strided<const T> x;
    Result<T> result;
    int lanes;     // a power of two
    bool vectors;  // four slots from a multiple of four on are a vector
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, result, lanes, vectors] = arguments;
    const int lane = thread_index() & (lanes - 1);
    const int64_t row = (block_index() * kThreads + thread_index()) / lanes;
    const int64_t slots = row < a.rows ? a.slots : 0;  // all lanes stay for the shuffles
    Sum<T> sum = 0;
    for (int64_t k = kSlots * lane; k < slots; k += kSlots * lanes) {
      bool known[kSlots];
#pragma unroll
      for (int e = 0; e < kSlots; ++e) known[e] = k + e < slots;
      const bool at_once = vectors && k + kSlots <= slots;
      const auto products = a.products(row, k, 1, a.value_slot, a.col_slot, at_once, known, x);
#pragma unroll
      for (int e = 0; e < kSlots; ++e) sum += products[e];
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      sum += warp::shuffle_xor(sum, distance);
    }
    if (row < a.rows && lane == 0) result.store(row, sum);
  }
};

struct EllLanes {
  static int lanes(const EllCall& call) {
    int lanes = 1;
    while (lanes < kWarpSize && lanes * kSlots < call.slots) lanes *= 2;
    return lanes;
  }
  static bool supports(const EllCall& call, Why& why) {
    return why.unless(call.rows < int64_t{1} << 33, "takes fewer than 2^33 rows, not ", call.rows);
  }
  static void run(const EllCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = EllLanesKernel<T, I>;
      const bool vectors = call.value_slot == 1 && call.col_slot == 1 &&
                           has_vectors<T, I, kSlots>(call, call.value_row, call.col_row);
      launch<Kernel>({.blocks = divide_up(call.rows * lanes(call), Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream,
                     {Ell<T, I>(call, "spmv_ell/ell_lanes"), vector_of<T>(call), Result<T>(call),
                      lanes(call), vectors});
    });
  }
};

}  // namespace

extern const Rung kEllLanes;
const Rung kEllLanes = rung_of<EllLanes, SpmvEll>({
    .name = "ell_lanes",
    .from = "ell_thread",
    .idea = "rows one after the other in memory: 1 to 32 lanes a row, a vector of slots each",
});

}  // namespace ws::spmv
