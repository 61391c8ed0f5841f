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

void EmbeddingBag::infer(Problem& problem) {
  const Tensor& weight = problem["weight"];
  const Tensor& index = problem["index"];
  const Tensor& offsets = problem["offsets"];
  const Tensor& factors = problem["per_sample_weights"];
  const auto mode = problem.choice<BagMode>("mode");
  const bool has_last = problem.flag("include_last_offset");
  require(kDTypes.has(weight.dtype) && weight.rank == 2, "embedding_bag: 'weight' is ", weight,
          ": f32, f16 or bf16 of 2 dimensions is wanted");
  require(kIndexTypes.has(index.dtype) && (index.rank == 1 || index.rank == 2),
          "embedding_bag: 'index' is ", index, ": i64 or i32 of 1 or 2 dimensions is wanted");
  require(offsets.exists() == (index.rank == 1), "embedding_bag: 'offsets' is ", offsets,
          ", 'index' is ", index, ": offsets are wanted of 1 dimension, and of 2 none");
  require(!offsets.exists() || (offsets.rank == 1 && offsets.dtype == index.dtype),
          "embedding_bag: 'offsets' is ", offsets, ": 1 dimension of ", to_string(index.dtype),
          " is wanted, as 'index' is");
  require(!offsets.exists() || !has_last || offsets.extent(0) > 0, "embedding_bag: 'offsets' is ",
          offsets, ", without the last one");
  require(!factors.exists() || (factors.dtype == weight.dtype && factors.same_shape(index)),
          "embedding_bag: 'per_sample_weights' is ", factors, ": dtype of ", weight,
          " and shape of ", index, " are wanted");
  require(!factors.exists() || mode == BagMode::kSum,
          "embedding_bag: per_sample_weights are of mode=sum alone");
  require(mode != BagMode::kMax || !problem.flag("scale_grad_by_freq"),
          "embedding_bag: scale_grad_by_freq is not of mode=max");
  padding_of(problem, weight.extent(0));
  const int64_t bags = offsets.exists() ? offsets.extent(0) - (has_last ? 1 : 0) : index.extent(0);
  problem["y"] = Tensor::dense(weight.dtype, {bags, weight.extent(1)});
}
EmbeddingBag::Call EmbeddingBag::call(const Problem& problem) {
  const Tensor& weight = problem["weight"];
  const Tensor& index = problem["index"];
  const Tensor& offsets = problem["offsets"];
  const Tensor& factors = problem["per_sample_weights"];
  const Tensor& y = problem["y"];
  Call call;
  call.dtype = weight.dtype;
  call.wide_index = index.dtype == DType::kI64;
  call.is_dense = weight.contiguous() && index.contiguous() && y.contiguous() &&
                  (!offsets.exists() || offsets.contiguous()) &&
                  (!factors.exists() || factors.contiguous());
  call.mode = problem.choice<BagMode>("mode");
  call.table = weight.data;
  call.table_rows = weight.extent(0);
  call.columns = weight.extent(1);
  call.strides = {weight.stride(0), weight.stride(1)};
  call.length = index.rank == 2 ? index.extent(1) : 0;
  call.entries = index.elements();
  const auto strides_of = [&](const Tensor& entries) -> EntryStrides {
    if (entries.rank == 1) return {.step = entries.stride(0)};
    return {.of_bag = entries.stride(0) - call.length * entries.stride(1),
            .step = entries.stride(1)};
  };
  call.index = index.data;
  call.index_strides = strides_of(index);
  if (factors.exists()) {
    call.factors = factors.data;
    call.factor_strides = strides_of(factors);
  }
  if (offsets.exists()) {
    call.has_offsets = true;
    call.offsets = offsets.data;
    call.offset_count = offsets.extent(0);
    call.offset_step = offsets.stride(0);
  }
  call.ignored = padding_of(problem, call.table_rows);
  call.y = y.data;
  call.bags = y.extent(0);
  call.y_strides = {y.stride(0), y.stride(1)};
  return call;
}

}  // namespace ws::embedding
