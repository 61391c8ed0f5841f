// What the operations take, and the rows that a call becomes.
#include "kernels/topk/operations.hpp"

#include <algorithm>

namespace ws::topk {
int dimension(const Problem& problem) {
  const Tensor& x = problem.tensor(kX);
  require(problem.operation->dtypes.has(x.dtype), problem.operation->name, " takes ",
          to_string(problem.operation->dtypes), ", not ", x);
  const int64_t dim = problem.integer("dim");
  const int rank = std::max(x.rank, 1);
  require(dim >= -rank && dim < rank, problem.operation->name, ": dim ", dim,
          " of a tensor of rank ", x.rank, ": from ", -rank, " to ", rank - 1);
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

Tensor with_last(Tensor tensor, int dim) {
  for (int d = dim; d + 1 < tensor.rank; ++d) {
    std::swap(tensor.shape[static_cast<size_t>(d)], tensor.shape[static_cast<size_t>(d + 1)]);
    std::swap(tensor.strides[static_cast<size_t>(d)], tensor.strides[static_cast<size_t>(d + 1)]);
  }
  return tensor;
}

namespace {

// 2^32 - 2 elements: a place and "no element" fit into 32 bits.
constexpr int64_t kMostColumns = 0xFFFFFFFE;

int64_t extent_of(const Tensor& x, int dim) { return x.rank == 0 ? 1 : x.extent(dim); }

void infer_outputs(Problem& problem, int dim, int64_t k) {
  const Tensor& x = problem.tensor(kX);
  const int64_t columns = extent_of(x, dim);
  require(columns <= kMostColumns, problem.operation->name, ": dimension ", dim, " of ", x,
          " has more than ", kMostColumns, " elements");
  Tensor shape = x;
  if (x.rank > 0) shape.shape[static_cast<size_t>(dim)] = k;
  problem.tensor(kValues) = Tensor::like(shape);
  problem.tensor(kIndices) = Tensor::like(shape, DType::kI64);
}

Selection selection(const Problem& problem, int64_t k, bool largest) {
  const int dim = dimension(problem);
  return {problem.dtype(),
          row_layout(with_last(problem.tensor(kX), dim), with_last(problem.tensor(kValues), dim),
                     with_last(problem.tensor(kIndices), dim)),
          k, largest};
}

}  // namespace

void TopK::infer(Problem& problem) {
  const int dim = dimension(problem);
  const Tensor& x = problem.tensor(kX);
  const int64_t k = problem.integer("k");
  require(k >= 0 && k <= extent_of(x, dim), "topk: k is ", k, ", and dimension ", dim, " of ", x,
          " has ", extent_of(x, dim), " elements");
  require(x.rank > 0 || k == 1, "topk: k is 0 of a tensor of rank 0");
  infer_outputs(problem, dim, k);
}
TopK::Call TopK::call(const Problem& problem) {
  return selection(problem, problem.integer("k"), problem.flag("largest"));
}

void Sort::infer(Problem& problem) {
  const int dim = dimension(problem);
  infer_outputs(problem, dim, extent_of(problem.tensor(kX), dim));
}
Sort::Call Sort::call(const Problem& problem) {
  return selection(problem, extent_of(problem.tensor(kX), dimension(problem)),
                   problem.flag("descending"));
}

}  // namespace ws::topk
