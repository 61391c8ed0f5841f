// What the operations take, and the loops that a call becomes.
#include "kernels/transpose/operations.hpp"

#include <algorithm>
#include <cstdlib>

namespace ws::transpose {
namespace {

// A dimension as a caller names it; 0 of a tensor of rank 0, to which torch gives one to name.
size_t dimension(const Problem& problem, int64_t dim) {
  const Tensor& x = problem.tensor(kX);
  const int rank = std::max(x.rank, 1);
  require(dim >= -rank && dim < rank, problem.operation->name, ": dimension ", dim, " of ", x,
          ": from ", -rank, " to ", rank - 1);
  return static_cast<size_t>(dim < 0 ? dim + rank : dim);
}

std::string list_of(const Dims& dims) {
  std::string text;
  for (const int d : dims) text += concatenate(text.empty() ? "" : ", ", d);
  return text;
}

bool is_multiple(const void* pointer, int64_t bytes) {
  return reinterpret_cast<intptr_t>(pointer) % bytes == 0;
}

}  // namespace

// ---- Permutation --------------------------------------------------------------------------------

Permutation permutation_of(const Tensor& view, const Tensor& y) {
  Permutation call{
      .x = view.data, .y = y.data, .element_bytes = static_cast<int>(size_of(view.dtype))};
  std::array<Loop, kMaxRank> loops{};
  std::ptrdiff_t count = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.extent(d) == 1) continue;
    loops[static_cast<size_t>(count++)] = {view.extent(d), {view.stride(d), y.stride(d)}};
  }
  std::stable_sort(loops.begin(), loops.begin() + count, [](const Loop& a, const Loop& b) {
    return std::abs(a.strides[kY]) > std::abs(b.strides[kY]);
  });
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    reduce::append(call.loops, call.rank, loops[static_cast<size_t>(i)]);
  }
  return widened(call, 8);
}

int64_t Permutation::elements() const {
  int64_t product = 1;
  for (size_t i = 0; i < rank; ++i) product *= loops[i].extent;
  return product;
}

int64_t Permutation::run() const {
  return rank > 0 && inner().strides[kX] == 1 && inner().strides[kY] == 1 ? inner().extent : 1;
}

Permutation::Reach Permutation::reach(Operand tensor) const {
  Reach all;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t last = (loops[i].extent - 1) * loops[i].strides[tensor];
    (last < 0 ? all.lowest : all.end) += last;
  }
  return all;
}

bool Permutation::is_aligned(int64_t bytes) const {
  bool aligned = is_multiple(x, bytes) && is_multiple(y, bytes);
  for (size_t i = 0; i + 1 < rank; ++i) {
    for (const int64_t stride : loops[i].strides) aligned &= stride * element_bytes % bytes == 0;
  }
  return aligned;
}

Permutation widened(Permutation call, int bytes) {
  while (call.element_bytes < bytes && call.run() % 2 == 0 &&
         call.is_aligned(2 * call.element_bytes)) {
    call.element_bytes *= 2;
    Loop& inner = call.loops[static_cast<size_t>(call.rank - 1)];
    inner.extent /= 2;
    for (size_t i = 0; i + 1 < call.rank; ++i) {
      for (int64_t& stride : call.loops[i].strides) stride /= 2;
    }
    if (inner.extent == 1) --call.rank;
  }
  return call;
}

bool lie_apart(const Permutation& call) {
  const Permutation::Reach of_x = call.reach(kX);
  const Permutation::Reach of_y = call.reach(kY);
  const auto x = reinterpret_cast<intptr_t>(call.x);
  const auto y = reinterpret_cast<intptr_t>(call.y);
  return x + of_x.end * call.element_bytes <= y + of_y.lowest * call.element_bytes ||
         y + of_y.end * call.element_bytes <= x + of_x.lowest * call.element_bytes;
}

// ---- Matrices -----------------------------------------------------------------------------------

bool as_matrices(const Permutation& call, Matrices& matrices) {
  if (call.rank == 0) return true;
  if (call.rank == 1) {  // a row that becomes a column: the same memory
    matrices.columns = call.run();
    matrices.x_pitch = matrices.columns;
    return matrices.columns > 1;
  }
  if (call.rank > 3 || call.inner().strides[kY] != 1) return false;
  const Loop* batch = nullptr;
  const Loop* columns = nullptr;
  for (size_t i = 0; i + 1 < call.rank; ++i) {
    (columns == nullptr && call.loops[i].strides[kX] == 1 ? columns : batch) = &call.loops[i];
  }
  if (columns == nullptr) return false;
  matrices.rows = call.inner().extent;
  matrices.columns = columns->extent;
  matrices.x_pitch = call.inner().strides[kX];
  matrices.y_pitch = columns->strides[kY];
  if (batch != nullptr) {
    matrices.batch = batch->extent;
    matrices.x_batch = batch->strides[kX];
    matrices.y_batch = batch->strides[kY];
  }
  return true;
}

Matrices matrices_of(const Permutation& call) {
  Matrices matrices;
  as_matrices(call, matrices);
  return matrices;
}

bool is_matrix(const Permutation& call, Why& why) {
  Matrices m;
  return why.unless(as_matrices(call, m) && m.is_dense(),
                    "takes one dense matrix and its two dimensions, not ", m.batch,
                    " matrices with rows ", m.x_pitch, " and ", m.y_pitch, " elements apart");
}

namespace {

bool is_whole(const Permutation& call, std::string_view what, int64_t extent, int64_t width,
              Why& why) {
  const int64_t bytes = std::min<int64_t>(width * call.element_bytes, 16);
  return why.unless(extent % width == 0, "takes ", what, " in pieces of ", width, ", not ",
                    extent) &&
         why.unless(is_multiple(call.x, bytes) && is_multiple(call.y, bytes),
                    "takes tensors that start at multiples of ", bytes, " bytes, not at ", call.x,
                    " and ", call.y);
}

}  // namespace

bool has_whole_columns(const Permutation& call, int64_t width, Why& why) {
  return is_whole(call, "columns", matrices_of(call).columns, width, why);
}
bool has_whole_rows(const Permutation& call, int64_t width, Why& why) {
  return is_whole(call, "rows", matrices_of(call).rows, width, why);
}

bool are_matrices(const Permutation& call, Why& why) {
  Matrices m;
  const int64_t width = 16 / call.element_bytes;
  return why.unless(as_matrices(call, m), "takes a batch of matrices, not ",
                    static_cast<int>(call.rank), " dimensions") &&
         has_whole_rows(call, width, why) &&
         why.unless(m.x_pitch % width == 0 && m.y_pitch % width == 0 && m.x_batch % width == 0 &&
                        m.y_batch % width == 0,
                    "takes rows and matrices at multiples of 16 bytes, not ", m.x_pitch, ", ",
                    m.y_pitch, ", ", m.x_batch, " and ", m.y_batch, " elements apart");
}

// ---- The operations -----------------------------------------------------------------------------

Tensor view_of_transpose(const Problem& problem) {
  Tensor view = problem.tensor(kX);
  const size_t dim0 = dimension(problem, problem.integer("dim0"));
  const size_t dim1 = dimension(problem, problem.integer("dim1"));
  std::swap(view.shape[dim0], view.shape[dim1]);
  std::swap(view.strides[dim0], view.strides[dim1]);
  return view;
}

Tensor view_of_permute(const Problem& problem) {
  const Tensor& x = problem.tensor(kX);
  const Dims dims = problem.attribute("dims").as_dims();
  require(dims.count == x.rank, "permute: ", static_cast<int>(dims.count), " dimensions (",
          list_of(dims), ") of ", x, ", which has ", x.rank);
  Tensor view = x;
  std::array<bool, kMaxRank> taken{};
  size_t to = 0;
  for (const int d : dims) {
    const size_t from = dimension(problem, d);
    require(!taken[from], "permute: dimension ", d, " stands twice in ", list_of(dims));
    taken[from] = true;
    view.shape[to] = x.shape[from];
    view.strides[to++] = x.strides[from];
  }
  return view;
}

}  // namespace ws::transpose
