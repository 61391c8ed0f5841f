// From problems to calls: what fits together, what comes out.
#include "kernels/embedding/operations.hpp"

namespace ws::embedding {
namespace {

void check_index(const Problem& problem) {
  const Tensor& index = problem["index"];
  require(kIndexTypes.has(index.dtype) && index.rank < kMaxRank, problem.operation->name,
          ": 'index' is ", index, ": i64 or i32 of up to ", kMaxRank - 1, " dimensions is wanted");
}
// The row that padding_idx names, -1: none.
int64_t padding_of(const Problem& problem, int64_t rows) {
  const Value& given = problem.attribute("padding_idx");
  if (given.is_absent()) return -1;
  const int64_t row = given.as_int();
  require(row >= -rows && row < rows, problem.operation->name, ": padding_idx is ", row,
          ", of a table of ", rows, " rows");
  return row < 0 ? row + rows : row;
}

// An index as a row of `columns` elements, all of them itself.
Tensor as_rows(const Tensor& index, int64_t columns) {
  Tensor rows = index;
  const auto last = static_cast<size_t>(rows.rank++);
  rows.shape[last] = columns;
  rows.strides[last] = 0;
  return rows;
}

Lookup lookup(const Tensor& row, const Tensor& index, const Tensor& table) {
  Lookup call{};
  call.dtype = row.dtype;
  call.wide_index = index.dtype == DType::kI64;
  call.rows = row_layout(row, as_rows(index, row.extent(row.rank - 1)));
  call.table = table.data;
  call.table_rows = table.extent(0);
  call.strides = {table.stride(0), table.stride(1)};
  return call;
}

}  // namespace

void Embedding::infer(Problem& problem) {
  const Tensor& weight = problem["weight"];
  require(kDTypes.has(weight.dtype) && weight.rank == 2, "embedding: 'weight' is ", weight,
          ": f32, f16 or bf16 of 2 dimensions is wanted");
  check_index(problem);
  padding_of(problem, weight.extent(0));
  const Tensor& index = problem["index"];
  Tensor y = as_rows(index, weight.extent(1));
  problem["y"] = Tensor::dense(weight.dtype, y.extents());
}
Embedding::Call Embedding::call(const Problem& problem) {
  return {lookup(problem["y"], problem["index"], problem["weight"])};
}

void EmbeddingBackward::infer(Problem& problem) {
  const Tensor& dy = problem["dy"];
  const Tensor& index = problem["index"];
  check_index(problem);
  const bool fits = kDTypes.has(dy.dtype) && dy.rank == index.rank + 1 &&
                    as_rows(index, dy.extent(dy.rank - 1)).same_shape(dy);
  require(fits, "embedding_backward: 'dy' is ", dy, ", 'index' is ", index,
          ": f32, f16 or bf16, a row for each index, is wanted");
  const int64_t rows = problem.integer("num_weights");
  require(rows >= 0, "embedding_backward: num_weights is ", rows);
  padding_of(problem, rows);
  problem["dweight"] = Tensor::dense(dy.dtype, {rows, dy.extent(dy.rank - 1)});
}
EmbeddingBackward::Call EmbeddingBackward::call(const Problem& problem) {
  const Tensor& dweight = problem["dweight"];
  return {GradientLookup{lookup(problem["dy"], problem["index"], dweight),
                         padding_of(problem, dweight.extent(0)),
                         problem.flag("scale_grad_by_freq")}};
}

}  // namespace ws::embedding
