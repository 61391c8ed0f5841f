// Idea: slot by slot in memory, as this format was made for: a thread has four neighbouring rows,
//   16 bytes of a slot's values and of its columns.
// From ell_thread: whole sectors in every access, whatever the number of slots, and a quarter of
//   the accesses; four loads of x under way, no shuffles.
// Traffic: each value and column once, padding too; x as its columns ask for it.
// Limits: values and col whose rows are next to each other in each slot.
#include "kernels/spmv/ell.hpp"

namespace ws::spmv {
namespace {

constexpr int kRows = 4;  // of a thread

template <class T, class I>
struct EllColumnsKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    Ell<T, I> a;
    Strided<const T> x;
    Result<T> result;
    bool vectors;  // four rows from a multiple of four on are a vector
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, result, vectors] = arguments;
    const int64_t row = (block_index() * kThreads + thread_index()) * kRows;
    if (row >= a.rows) return;
    const bool at_once = vectors && row + kRows <= a.rows;
    Vec<Sum<T>, kRows> sums{};
    for (int64_t k = 0; k < a.slots; ++k) {
      bool known[kRows];
#pragma unroll
      for (int e = 0; e < kRows; ++e) known[e] = row + e < a.rows;
      const auto products = a.products(row, k, a.slots, 1, 1, at_once, known, x);
#pragma unroll
      for (int e = 0; e < kRows; ++e) sums[e] += products[e];
    }
#pragma unroll
    for (int e = 0; e < kRows; ++e) {
      if (row + e < a.rows) result.store(row + e, sums[e]);
    }
  }
};

struct EllColumns {
  static bool supports(const EllCall& call, Why& why) {
    return why.unless(call.value_row == 1 && call.col_row == 1,
                      "takes values and col whose rows are next to each other, not with strides "
                      "of ",
                      call.value_row, " and ", call.col_row);
  }
  static void run(const EllCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = EllColumnsKernel<T, I>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows, kRows * Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {Ell<T, I>(call, "spmv_ell/ell_columns"), vector_of<T>(call), Result<T>(call),
           has_vectors<T, I, kRows>(call, call.value_slot, call.col_slot)});
    });
  }
};

}  // namespace

extern const Rung kEllColumns;
const Rung kEllColumns = rung_of<EllColumns, SpmvEll>({
    .name = "ell_columns",
    .from = "ell_thread",
    .idea = "slots one after the other in memory: a thread has four rows, a vector of each slot",
});

}  // namespace ws::spmv
