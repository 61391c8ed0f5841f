// From problems to calls: what fits together, what comes out.
#include "kernels/index_add/operations.hpp"

#include <algorithm>
#include <cstdlib>

namespace ws::index_add {
namespace {

// A tensor without dimensions is one of a single element.
Tensor as_line(Tensor tensor) {
  if (tensor.rank != 0) return tensor;
  tensor.rank = 1;
  tensor.shape[0] = 1;
  tensor.strides[0] = 1;
  return tensor;
}
int dimension(const Problem& problem) {
  const int rank = as_line(problem.tensor(0)).rank;
  const int64_t dim = problem.integer("dim");
  require(dim >= -rank && dim < rank, problem.operation->name, ": dim is ", dim, ", of ",
          problem.tensor(0));
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}
void check_dtypes(const Problem& problem) {
  const Tensor& x = problem["x"];
  const Tensor& index = problem["index"];
  require(problem.operation->dtypes.has(x.dtype), problem.operation->name, " takes ",
          to_string(problem.operation->dtypes), ", not ", x);
  require(index.dtype == DType::kI64 || index.dtype == DType::kI32, problem.operation->name,
          ": 'index' is ", index, ": i64 or i32 is wanted");
}
void check_list(const Problem& problem) {
  const Tensor& index = problem["index"];
  require(index.rank <= 1, problem.operation->name, ": 'index' is ", index,
          ": at most one dimension is wanted");
}
// That an index, of the rank of a tensor, is nowhere longer; along `free` it may be.
void check_within(const Problem& problem, std::string_view name, int free) {
  const Tensor index = as_line(problem["index"]);
  const Tensor tensor = as_line(problem[name]);
  bool fits = index.rank == tensor.rank;
  for (int d = 0; fits && d < index.rank; ++d) {
    fits = d == free || index.extent(d) <= tensor.extent(d);
  }
  // As torch has it: an index of nothing fits anything.
  require(fits || index.elements() == 0, problem.operation->name, ": 'index' is ", problem["index"],
          ", '", name, "' is ", problem[name], ": of one rank, and nowhere longer but along dim");
}

// Its own shape, dense, at no address.
Tensor dense_like(const Tensor& tensor) { return Tensor::like(tensor); }

// A tensor as if each element along `dim` was its first, of an index's shape.
Tensor line_starts(Tensor tensor, const Tensor& shape, int dim) {
  tensor.shape = shape.shape;
  tensor.strides[static_cast<size_t>(dim)] = 0;
  return tensor;
}
// Indices and their numbers, of the elements' shape.
struct Numbered {
  Tensor index;
  Tensor positions;
};
// A list along `dim` for all that goes along the other dimensions of `shape`.
Tensor spread(const Tensor& list, const Tensor& shape, int dim) {
  Tensor tensor = shape;
  tensor.strides.fill(0);
  tensor.strides[static_cast<size_t>(dim)] = list.stride(0);
  return tensor;
}
Numbered of_list(const Tensor& list, const Tensor& shape, int dim) {
  Numbered numbered{spread(as_line(list), shape, dim),
                    spread(as_line(dense_like(list)), shape, dim)};
  numbered.index.dtype = list.dtype;
  numbered.index.data = list.data;
  return numbered;
}
Numbered of_elements(const Tensor& index) { return {index, dense_like(index)}; }

// Dimensions in the order of the first tensor's memory; neighbours become one where all agree.
template <int kTensors>
Nest<kTensors> nest_of(const std::array<Tensor, kTensors>& tensors) {
  Nest<kTensors> nest;
  const Tensor& first = tensors[0];
  std::array<size_t, kMaxRank> order{};
  size_t dims = 0;
  for (int d = 0; d < first.rank; ++d) {
    nest.count *= first.extent(d);
    if (first.extent(d) != 1) order[dims++] = static_cast<size_t>(d);
  }
  std::stable_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(dims),
      [&](size_t a, size_t b) { return std::abs(first.strides[a]) > std::abs(first.strides[b]); });
  for (size_t i = 0; i < dims; ++i) {
    const size_t d = order[i];
    const auto last = static_cast<size_t>(nest.loops) - 1;
    bool merges = nest.loops > 0;
    for (size_t k = 0; merges && k < kTensors; ++k) {
      merges = nest.strides[k][last] == tensors[k].strides[d] * first.shape[d];
    }
    const size_t to = merges ? last : static_cast<size_t>(nest.loops++);
    nest.extents[to] = first.shape[d] * (merges ? nest.extents[to] : 1);
    for (size_t k = 0; k < kTensors; ++k) nest.strides[k][to] = tensors[k].strides[d];
  }
  return nest;
}

Indexed indexed(const Tensor& each, const Numbered& numbered, const Tensor& table, int dim) {
  const Tensor& index = numbered.index;
  const auto at = static_cast<size_t>(dim);
  Indexed call{};
  call.dtype = table.dtype;
  call.wide_index = index.dtype == DType::kI64;
  const Tensor sums = dense_like(table);
  Tensor elements = each;  // which may have more of them
  elements.shape = index.shape;
  elements.rank = index.rank;
  call.nest = nest_of<kOperands>({elements, index, numbered.positions,
                                  line_starts(table, index, dim), line_starts(sums, index, dim)});
  call.rows = table.extent(dim);
  call.table_stride = table.strides[at];
  call.sums_stride = sums.strides[at];
  call.index = index.data;
  call.each = each.data;
  call.table = table.data;
  return call;
}

// Without the dimension.
Tensor without(Tensor tensor, int dim) {
  for (int d = dim; d + 1 < tensor.rank; ++d) {
    tensor.shape[static_cast<size_t>(d)] = tensor.extent(d + 1);
    tensor.strides[static_cast<size_t>(d)] = tensor.stride(d + 1);
  }
  --tensor.rank;
  return tensor;
}

Columns columns_of(const Tensor& y, const Tensor& x, const Tensor& each, const Numbered& numbered,
                   int dim) {
  const std::array tensors = {y, x, each, numbered.index, numbered.positions};
  Columns columns;
  if (numbered.index.rank != y.rank) return columns;
  for (int d = 0; d < y.rank; ++d) {
    if (d != dim && numbered.index.extent(d) != y.extent(d)) return columns;
  }
  std::array<Tensor, kColumnOperands> starts{};
  for (size_t k = 0; k < kColumnOperands; ++k) {
    starts[k] = without(tensors[k], dim);
    columns.steps[k] = tensors[k].stride(dim);
  }
  columns.indices = numbered.index.extent(dim);
  const Nest<kColumnOperands> nest = nest_of<kColumnOperands>(starts);
  if (nest.loops > 2) return columns;
  columns.nest.loops = nest.loops;
  columns.nest.count = nest.count;
  for (size_t loop = 0; loop < 2; ++loop) {
    columns.nest.extents[loop] = nest.extents[loop];
    for (size_t k = 0; k < kColumnOperands; ++k) {
      columns.nest.strides[k][loop] = nest.strides[k][loop];
    }
  }
  return columns;
}
Adding adding(const Tensor& each, const Numbered& numbered, const Tensor& y, const Tensor& x,
              int dim, float alpha) {
  return {indexed(each, numbered, y, dim), nest_of<kWholeOperands>({y, x, dense_like(y)}), x.data,
          alpha, columns_of(y, x, each, numbered, dim)};
}

// The memory of y may be x's, but what is added is read while y is written.
void check_place(const Problem& problem, std::string_view name) {
  const Tensor& y = problem["y"];
  require(y.data == nullptr || y.data != problem[name].data, problem.operation->name,
          ": 'y' may be the memory of 'x', not that of '", name, "'");
}

void add_lines(IndexAdd::Call& call, const Tensor& x, const Tensor& y, const Tensor& source,
               int dim) {
  const auto lanes = nest_of<4>(
      {without(y, dim), without(x, dim), without(source, dim), without(dense_like(y), dim)});
  call.has_lines = lanes.loops <= 2;
  if (!call.has_lines) return;
  embedding::AddSorted& lines = call.lines;
  constexpr std::array<size_t, 3> kOf = {embedding::kY, embedding::kX, embedding::kSource};
  const std::array<const Tensor*, 3> tensors = {&y, &x, &source};
  for (size_t k = 0; k < 3; ++k) {
    lines.data[kOf[k]] = tensors[k]->data;
    lines.row_strides[kOf[k]] = tensors[k]->stride(dim);
    lines.inner_strides[kOf[k]] = 1;
  }
  for (size_t loop = 0; static_cast<int>(loop) < lanes.loops; ++loop) {
    const bool is_inner = static_cast<int>(loop) + 1 == lanes.loops;
    (is_inner ? lines.inner : lines.outer) = lanes.extents[loop];
    for (size_t k = 0; k < 3; ++k) {
      (is_inner ? lines.inner_strides : lines.outer_strides)[kOf[k]] = lanes.strides[k][loop];
    }
    call.sums_strides[is_inner ? 1 : 0] = lanes.strides[3][loop];
  }
  lines.rows = y.extent(dim);
  lines.count = source.extent(dim);
  lines.scale = call.alpha;
}

}  // namespace

// ---- Columns ----------------------------------------------------------------------------------

bool Columns::have_same_indices() const {
  return std::ranges::all_of(nest.strides[kColumnIndex],
                             [](int64_t stride) { return stride == 0; });
}
bool Columns::are_worth_owning(int64_t rows) const {
  constexpr int64_t kLeastElements = int64_t{1} << 20;
  constexpr int64_t kLeastColumns = 128;
  if (nest.loops == 0 || nest.count < kLeastColumns) return false;
  const auto last = static_cast<size_t>(nest.loops) - 1;
  return nest.extents[last] >= kWarpSize && nest.strides[kColumnSource][last] == 1 &&
         nest.strides[kColumnIndex][last] <= 1 && indices >= 4 * rows &&
         nest.count * indices >= kLeastElements;
}
int Columns::width(const Indexed& call, const void* x) const {
  constexpr int kWide = 4;
  if (nest.loops == 0) return 1;
  const auto last = static_cast<size_t>(nest.loops) - 1;
  if (nest.extents[last] % kWide != 0) return 1;
  const auto element = static_cast<int64_t>(size_of(call.dtype));
  constexpr int64_t kIndexPart = 4;  // of 8 bytes as well: four of these are two accesses of 16
  const std::array<const void*, 4> data = {call.table, x, call.each, call.index};
  for (size_t k = kColumnY; k <= kColumnIndex; ++k) {
    if (k == kColumnIndex && have_same_indices()) continue;
    const int64_t size = k == kColumnIndex ? kIndexPart : element;
    if (!lines_start_at(nest, k, data[k], kWide, size) || steps[k] % kWide != 0 ||
        nest.strides[k][last] != 1) {
      return 1;
    }
  }
  return kWide;
}

// ---- index_add --------------------------------------------------------------------------------

void IndexAdd::infer(Problem& problem) {
  check_dtypes(problem);
  check_list(problem);
  const Tensor x = as_line(problem["x"]);
  const Tensor source = as_line(problem["source"]);
  const int dim = dimension(problem);
  bool fits = source.dtype == x.dtype && source.rank == x.rank;
  for (int d = 0; fits && d < x.rank; ++d) {
    fits = source.extent(d) == (d == dim ? problem["index"].elements() : x.extent(d));
  }
  require(fits, "index_add: 'x' is ", problem["x"], ", 'index' is ", problem["index"],
          ", 'source' is ", problem["source"],
          ": dtype and shape of x, along dim as long as the index, is wanted");
  problem["y"] = Tensor::like(problem["x"]);
}
IndexAdd::Call IndexAdd::call(const Problem& problem) {
  check_place(problem, "source");
  check_place(problem, "index");
  const int dim = dimension(problem);
  const Tensor x = as_line(problem["x"]);
  const Tensor y = as_line(problem["y"]);
  const Tensor source = as_line(problem["source"]);
  Call call{adding(source, of_list(problem["index"], source, dim), y, x, dim,
                   static_cast<float>(problem.number("alpha"))),
            as_line(problem["index"]).stride(0),
            false,
            {},
            {}};
  add_lines(call, x, y, source, dim);
  return call;
}

// ---- index_select -----------------------------------------------------------------------------

void IndexSelect::infer(Problem& problem) {
  check_dtypes(problem);
  check_list(problem);
  const int dim = dimension(problem);
  Tensor y = as_line(problem["x"]);
  y.shape[static_cast<size_t>(dim)] = problem["index"].elements();
  require(problem["x"].rank > 0 || problem["index"].elements() == 1, "index_select: 'x' is ",
          problem["x"], ", 'index' is ", problem["index"],
          ": of a tensor without dimensions one index is taken");
  problem["y"] =
      problem["x"].rank == 0 ? Tensor::like(problem["x"]) : Tensor::dense(y.dtype, y.extents());
}
IndexSelect::Call IndexSelect::call(const Problem& problem) {
  const Tensor y = as_line(problem["y"]);
  const int dim = dimension(problem);
  return {indexed(y, of_list(problem["index"], y, dim), as_line(problem["x"]), dim)};
}

// ---- gather -----------------------------------------------------------------------------------

void Gather::infer(Problem& problem) {
  check_dtypes(problem);
  check_within(problem, "x", dimension(problem));
  problem["y"] = Tensor::like(problem["index"], problem["x"].dtype);
}
Gather::Call Gather::call(const Problem& problem) {
  return {indexed(as_line(problem["y"]), of_elements(as_line(problem["index"])),
                  as_line(problem["x"]), dimension(problem))};
}

// ---- scatter_add ------------------------------------------------------------------------------

void ScatterAdd::infer(Problem& problem) {
  check_dtypes(problem);
  const int dim = dimension(problem);
  check_within(problem, "x", dim);
  check_within(problem, "src", -1);
  require(problem["src"].dtype == problem["x"].dtype, "scatter_add: 'x' is ", problem["x"],
          ", 'src' is ", problem["src"], ": one dtype is wanted");
  problem["y"] = Tensor::like(problem["x"]);
}
ScatterAdd::Call ScatterAdd::call(const Problem& problem) {
  check_place(problem, "src");
  check_place(problem, "index");
  const Tensor x = as_line(problem["x"]);
  const Tensor y = as_line(problem["y"]);
  return {adding(as_line(problem["src"]), of_elements(as_line(problem["index"])), y, x,
                 dimension(problem), 1)};
}

}  // namespace ws::index_add
