// Idea: a warp computes a slice of a row of C. Its lanes load 32 entries of the row at once, hand
//   them round by shuffles, and each adds up elements of its own, 16 bytes of a row of B an access.
// From element: values and columns are read once a slice and not once an element, and nobody asks
// for them in the loop over the entries.
// Traffic: values and columns once a slice of 512 bytes of C; a row of B for each entry; C once.
// Limits: a matrix without gaps; rows of B and C without gaps between elements, of whole and
// aligned vectors.
#include "kernels/spmv/csr.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::spmv {
namespace {

template <class T>
constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
template <class T>
constexpr int kSlice = kWarpSize * kWidth<T>;  // columns of a warp

template <class T, class I>
struct RowSliceKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    Csr<T, I> a;
    int64_t width;
    int64_t slices;  // of a row
    const T* b;
    int64_t b_row;
    T* c;
    int64_t c_row;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, width, slices, b, b_row, c, c_row] = arguments;
    const int64_t warp = block_index() * kWarps + warp_index();
    const int64_t row = warp / slices;
    if (row >= a.rows) return;
    const int64_t n = warp % slices * kSlice<T> + lane_index() * kWidth<T>;
    const bool has_columns = n < width;  // all lanes stay for the shuffles
    const auto [first, end] = a.entries_of(row);
    Vec<Sum<T>, kWidth<T>> sums{};
    for (int64_t start = first; start < end; start += kWarpSize) {
      const int64_t j = start + lane_index();
      int64_t at = -1;  // of the entry's row of B; below 0: none
      Sum<T> value = 0;
      if (j < end) {
        const int64_t column = thread::load(a.col + j);
        if (a.columns(column, j)) {
          at = column;
          value = widen(thread::load(a.values + j));
        }
      }
      const int count = end - start < kWarpSize ? static_cast<int>(end - start) : kWarpSize;
      for (int entry = 0; entry < count; ++entry) {
        const int64_t b_at = warp::shuffle(at, entry);
        const Sum<T> factor = warp::shuffle(value, entry);
        if (b_at < 0 || !has_columns) continue;
        const auto elements = thread::load<kWidth<T>>(b + b_at * b_row + n);
#pragma unroll
        for (int e = 0; e < kWidth<T>; ++e) sums[e] += factor * widen(elements[e]);
      }
    }
    if (!has_columns) return;
    Vec<T, kWidth<T>> rounded;
#pragma unroll
    for (int e = 0; e < kWidth<T>; ++e) rounded[e] = narrow<T>(sums[e]);
    thread::store(c + row * c_row + n, rounded);
  }
};

struct RowSlice {
  static int64_t slices(const MatrixCall& call) {
    return divide_up(call.width * static_cast<int64_t>(size_of(call.dtype)), 512);
  }
  static bool supports(const MatrixCall& call, Why& why) {
    constexpr int64_t kMost = int64_t{1} << 32;
    return is_dense(call, why) &&
           why.unless(has_vector_rows(call),
                      "takes rows of B and C of whole aligned vectors of 16 bytes") &&
           why.unless(call.width == 0 || call.rows <= kMost / slices(call), "takes up to ", kMost,
                      " slices");
  }
  static void run(const MatrixCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = RowSliceKernel<T, I>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows * slices(call), Kernel::kWarps),
           .threads = Kernel::kThreads},
          context.stream,
          {Csr<T, I>(call, "spmm_csr/row_slice"), call.width, slices(call),
           static_cast<const T*>(call.b), call.b_row, static_cast<T*>(call.c), call.c_row});
    });
  }
};

}  // namespace

extern const Rung kRowSlice;
const Rung kRowSlice = rung_of<RowSlice, SpmmCsr>({
    .name = "row_slice",
    .from = "element",
    .idea = "a warp a slice of a row of C: entries go round by shuffles, B comes in vectors",
});

}  // namespace ws::spmv
