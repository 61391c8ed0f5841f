// What grouped products compute, in double precision; their shapes, offsets, cost and tolerance,
// and the problems to verify and to time.
#include "kernels/gemm/reference.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/grouped_gemm/operations.hpp"

namespace ws::grouped_gemm {
namespace {

constexpr int kOffs = 2;  // the tensors of both operations
constexpr int kOut = 3;

template <class Made>
Made call_of(const Problem& problem, int64_t m, int64_t n, int64_t k) {
  const Tensor& offs = problem.tensor(kOffs);
  Made call;
  call.dtype = problem.dtype();
  call.out_dtype = problem.tensor(kOut).dtype;
  call.m = m;
  call.n = n;
  call.k = k;
  call.a = gemm::matrix_of(problem.tensor(0), false);
  call.b = gemm::matrix_of(problem.tensor(1), false);
  call.c = gemm::matrix_of(problem.tensor(kOut), false);
  call.groups = offs.extent(0);
  call.ends = offs.as<const int32_t>();
  call.end_stride = offs.extent(0) > 1 ? offs.stride(0) : 1;
  return call;
}

// What both operations ask for, of tensors of these ranks.
void check(const Problem& problem, int rank_of_b) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  const Tensor& offs = problem.tensor(kOffs);
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(
        concatenate(problem.operation->name, " ", what, ", got ", a, ", ", b, " and ", offs));
  };
  if (a.rank != 2 || b.rank != rank_of_b) [[unlikely]]
    fail(rank_of_b == 3 ? "takes a matrix and a matrix for each group" : "takes two matrices");
  if (a.dtype != b.dtype) [[unlikely]]
    fail("takes one dtype");
  if (!kFloats.has(a.dtype)) [[unlikely]]
    fail("takes f32, f16 and bf16");
  if (offs.rank != 1 || offs.dtype != DType::kI32) [[unlikely]]
    fail("takes i32 offsets in one dimension");
  if (rank_of_b == 3 && offs.extent(0) != b.extent(0)) [[unlikely]]
    fail(concatenate("takes an offset for each of the ", b.extent(0), " matrices"));
  const int64_t k = b.extent(rank_of_b - 2);
  if (a.extent(1) != k) [[unlikely]]
    fail(concatenate("takes one ", rank_of_b == 3 ? "K" : "T", ", not ", a.extent(1), " and ", k));
}

DType out_dtype_of(const Problem& problem) {
  return problem.attribute("out_dtype").is_absent() ? problem.tensor(0).dtype : DType::kF32;
}

Tensor laid(DType dtype, std::initializer_list<int64_t> shape, bool turned, int64_t padding) {
  Tensor tensor = Tensor::dense(dtype, shape);
  const auto row = static_cast<size_t>(tensor.rank - 2);
  const auto column = row + 1;
  const int64_t leading = tensor.shape[turned ? row : column] + padding;
  tensor.strides[row] = turned ? 1 : leading;
  tensor.strides[column] = turned ? leading : 1;
  if (row == 1) tensor.strides[0] = leading * tensor.shape[turned ? column : row];
  return tensor;
}

// Ends of groups in `length`: of one size where they are whole slices of 64, as a router that
// balances makes them; else cut at random, in one of four ways.
std::vector<int64_t> random_ends(int64_t groups, int64_t length, uint64_t seed) {
  std::vector<int64_t> ends(static_cast<size_t>(groups));
  if (groups == 0) return ends;
  if (length >= 1024 && length % (groups * 64) == 0) {
    for (int64_t g = 0; g < groups; ++g) ends[static_cast<size_t>(g)] = length / groups * (g + 1);
    return ends;
  }
  const uint64_t mixed = seed + static_cast<uint64_t>(length * 31 + groups);
  enum : uint8_t { kAll, kSomeLeft, kOneGroup, kManyEmpty, kWays };
  const auto way = random_bits(mixed, 1 << 20) % kWays;
  if (way == kOneGroup) {
    const auto one = static_cast<ptrdiff_t>(random_bits(mixed, 0) % static_cast<uint64_t>(groups));
    std::fill(ends.begin() + one, ends.end(), length);
    return ends;
  }
  for (size_t g = 0; g < ends.size(); ++g) {
    double place = random_uniform(mixed, g);
    if (way == kManyEmpty) place = std::floor(place * 4) / 3;
    ends[g] = static_cast<int64_t>(std::round(place * static_cast<double>(length)));
  }
  std::ranges::sort(ends);
  if (way == kAll) ends.back() = length;
  return ends;
}

void fill_group(const Problem& problem, int index, int64_t length, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index != kOffs) return fill_normal(tensor, seed);
  const std::vector<int64_t> ends = random_ends(tensor.extent(0), length, seed);
  fill_with(tensor, [&](int64_t g) { return static_cast<double>(ends[static_cast<size_t>(g)]); });
}

int64_t end_of(const Problem& problem, int64_t group) {
  return group < 0 ? 0 : static_cast<int64_t>(element(problem.tensor(kOffs), group));
}

Matrix part_of(Matrix matrix, DType dtype, int64_t elements) {
  matrix.data = static_cast<char*>(matrix.data) + elements * static_cast<int64_t>(size_of(dtype));
  return matrix;
}

double bytes_of(const Problem& problem) {
  double bytes = 0;
  for (const int i : {0, 1, kOut}) {
    const Tensor& tensor = problem.tensor(i);
    bytes += static_cast<double>(without_repeats(tensor).elements()) *
             static_cast<double>(size_of(tensor.dtype));
  }
  return bytes;
}

}  // namespace

// ---- grouped_gemm -------------------------------------------------------------------------------

GroupedGemm::Call GroupedGemm::call(const Problem& problem) {
  const Tensor& out = problem.tensor(kOut);
  return call_of<Call>(problem, out.extent(0), out.extent(1), problem.tensor(0).extent(1));
}

void GroupedGemm::infer(Problem& problem) {
  check(problem, 3);
  const Tensor& a = problem.tensor(0);
  problem.tensor(kOut) =
      Tensor::dense(out_dtype_of(problem), {a.extent(0), problem.tensor(1).extent(2)});
}

void GroupedGemm::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [groups, rows, n, k, views, unused1, unused2, unused3] = chosen.extents;
  problem.tensor(0) = laid(dtype, {rows, k}, (views & kATransposed) != 0, chosen.padding);
  problem.tensor(1) = laid(dtype, {groups, k, n}, (views & kBTransposed) != 0, chosen.padding);
  problem.tensor(kOffs) = Tensor::dense(DType::kI32, {groups});
  problem.tensor(kOut) = laid(out_dtype_of(problem), {rows, n}, false, chosen.padding);
}

// As if all rows were in groups, which data says.
Cost GroupedGemm::cost(const Problem& problem) {
  const Call call = GroupedGemm::call(problem);
  return {.bytes = bytes_of(problem),
          .flops = 2.0 * static_cast<double>(call.m) * static_cast<double>(call.n) *
                   static_cast<double>(call.k),
          .at_most = true};
}

Tolerance GroupedGemm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return product_tolerance(out_dtype_of(problem), problem.tensor(0).extent(1));
}

int64_t GroupedGemm::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(kOut).extent(0);
}

void GroupedGemm::fill(const Problem& problem, int index, uint64_t seed) {
  fill_group(problem, index, problem.tensor(0).extent(0), seed);
}

// Slices are rows.
void GroupedGemm::reference(const Problem& problem, Slice slice,
                            std::span<double* const> expected) {
  const Call call = GroupedGemm::call(problem);
  double* const out = expected[kOut];
  std::fill(out, out + (slice.last - slice.first) * call.n, 0.0);
  for (int64_t g = 0; g < call.groups; ++g) {
    const Slice rows{std::max(slice.first, end_of(problem, g - 1)),
                     std::min(slice.last, end_of(problem, g))};
    if (rows.first >= rows.last) continue;
    gemm::reference_product(call.dtype, call.a, part_of(call.b, call.dtype, g * call.b.batch),
                            call.n, call.k, rows, out + (rows.first - slice.first) * call.n);
  }
}

// ---- grouped_gemm_weight ------------------------------------------------------------------------

GroupedGemmWeight::Call GroupedGemmWeight::call(const Problem& problem) {
  const Tensor& out = problem.tensor(kOut);
  return call_of<Call>(problem, out.extent(1), out.extent(2), problem.tensor(0).extent(1));
}

void GroupedGemmWeight::infer(Problem& problem) {
  check(problem, 2);
  const Tensor& a = problem.tensor(0);
  problem.tensor(kOut) =
      Tensor::dense(out_dtype_of(problem),
                    {problem.tensor(kOffs).extent(0), a.extent(0), problem.tensor(1).extent(1)});
}

void GroupedGemmWeight::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [groups, m, n, depth, views, unused1, unused2, unused3] = chosen.extents;
  problem.tensor(0) = laid(dtype, {m, depth}, (views & kATransposed) != 0, chosen.padding);
  problem.tensor(1) = laid(dtype, {depth, n}, (views & kBTransposed) != 0, chosen.padding);
  problem.tensor(kOffs) = Tensor::dense(DType::kI32, {groups});
  problem.tensor(kOut) = laid(out_dtype_of(problem), {groups, m, n}, false, chosen.padding);
}

// As if all of T were in groups, which data says.
Cost GroupedGemmWeight::cost(const Problem& problem) {
  const Call call = GroupedGemmWeight::call(problem);
  return {.bytes = bytes_of(problem),
          .flops = 2.0 * static_cast<double>(call.m) * static_cast<double>(call.n) *
                   static_cast<double>(call.k),
          .at_most = true};
}

// As if a group were all of T: the largest sums there can be.
Tolerance GroupedGemmWeight::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return product_tolerance(out_dtype_of(problem), problem.tensor(0).extent(1));
}

int64_t GroupedGemmWeight::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& out = problem.tensor(kOut);
  return out.extent(0) * out.extent(1);
}

void GroupedGemmWeight::fill(const Problem& problem, int index, uint64_t seed) {
  fill_group(problem, index, problem.tensor(0).extent(1), seed);
}

// Slices are rows of the products, one product after the other.
void GroupedGemmWeight::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  const Call call = GroupedGemmWeight::call(problem);
  for (int64_t at = slice.first; at < slice.last;) {
    const int64_t group = at / call.m;
    const int64_t last = std::min(slice.last, (group + 1) * call.m);
    const int64_t first = end_of(problem, group - 1);
    gemm::reference_product(
        call.dtype, part_of(call.a, call.dtype, first * call.a.column),
        part_of(call.b, call.dtype, first * call.b.row), call.n, end_of(problem, group) - first,
        {at - group * call.m, last - group * call.m}, expected[kOut] + (at - slice.first) * call.n);
    at = last;
  }
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

// By G, T, N, K, or by G, M, N, T; padding widens the rows of a, b and out.
constexpr Case grouped(int64_t groups, int64_t second, int64_t third, int64_t fourth, int views = 0,
                       int64_t padding = 0, int offset = 0) {
  return {.extents = {groups, second, third, fourth, views}, .offset = offset, .padding = padding};
}

// The same with out in f32, whatever a and b are.
constexpr Case wide(Case chosen) {
  chosen.attributes[0] = Value::choice(0);
  return chosen;
}

constexpr std::array kRowSmoke = {
    wide(grouped(3, 40, 24, 16)),         grouped(3, 40, 24, 16),
    grouped(4, 37, 16, 24, kBTransposed), grouped(2, 9, 13, 21, kATransposed, 3),
    grouped(3, 40, 24, 16, kATransposed), grouped(4, 40, 24, 24, kATransposed | kBTransposed)};

// Groups that end within a tile and within 16 rows; more groups than rows, and than lanes; one. All
// layouts; rows that the copy engine does not take, of operands and of the output alone.
constexpr std::array kRowVerify = {
    grouped(1, 1, 1, 1),
    grouped(0, 3, 8, 8),
    grouped(3, 0, 8, 8),
    grouped(2, 3, 5, 0),
    grouped(1, 128, 256, 64),
    grouped(1, 200, 136, 72, kBTransposed),
    grouped(3, 300, 136, 72),
    grouped(4, 530, 264, 136, kBTransposed),
    grouped(5, 530, 264, 64),
    grouped(6, 77, 72, 136, kBTransposed),
    grouped(70, 150, 40, 64),
    grouped(33, 20, 16, 16, kBTransposed),
    grouped(16, 1024, 72, 64),
    grouped(3, 130, 33, 65),
    grouped(3, 70, 40, 72, kBTransposed, 8),
    grouped(4, 70, 40, 72, kATransposed),
    grouped(4, 536, 264, 72, kATransposed),
    grouped(5, 304, 136, 136, kATransposed | kBTransposed),
    grouped(33, 40, 16, 24, kATransposed | kBTransposed),
    grouped(3, 75, 36, 65, kATransposed | kBTransposed),
    grouped(3, 90, 31, 72, kBTransposed),
    grouped(3, 90, 31, 33, kBTransposed, 1),
    grouped(3, 90, 64, 64, 0, 0, 1),
    wide(grouped(2, 3, 5, 0)),
    wide(grouped(4, 530, 264, 136, kBTransposed)),
    wide(grouped(6, 77, 72, 136)),
    wide(grouped(4, 536, 264, 72, kATransposed)),
    wide(grouped(16, 1024, 72, 64)),
    wide(grouped(3, 90, 31, 72, kBTransposed)),
    wide(grouped(3, 90, 31, 33, kATransposed, 1)),
};

// Experts: few large ones; many, of few rows each; the same as torch lays weights.
constexpr std::array kRowBench = {
    grouped(8, 32768, 4096, 4096),       grouped(8, 32768, 4096, 4096, kBTransposed),
    grouped(128, 8192, 7168, 2048),      grouped(128, 8192, 7168, 2048, kBTransposed),
    grouped(64, 65536, 1408, 2048),      grouped(8, 32768, 4096, 4096, kATransposed | kBTransposed),
    wide(grouped(8, 32768, 4096, 4096)), wide(grouped(128, 8192, 7168, 2048))};

constexpr std::array kDepthSmoke = {wide(grouped(3, 24, 16, 40, kATransposed)),
                                    grouped(3, 24, 16, 40, kATransposed),
                                    grouped(2, 9, 13, 21),
                                    grouped(4, 16, 24, 37, kATransposed, 8),
                                    grouped(3, 24, 16, 40),
                                    grouped(4, 16, 24, 40, kBTransposed),
                                    grouped(3, 24, 16, 40, kATransposed | kBTransposed)};

constexpr std::array kDepthVerify = {
    grouped(1, 1, 1, 1),
    grouped(0, 8, 8, 3),
    grouped(3, 8, 8, 0),
    grouped(2, 5, 0, 3),
    grouped(1, 128, 256, 128, kATransposed),
    grouped(3, 136, 264, 200, kATransposed),
    grouped(4, 264, 136, 150, kATransposed),
    grouped(5, 72, 40, 331, kATransposed),
    grouped(16, 72, 40, 1024, kATransposed),
    grouped(40, 8, 16, 100, kATransposed),
    grouped(3, 40, 72, 130),
    grouped(3, 40, 72, 130, kBTransposed),
    grouped(4, 136, 264, 200),
    grouped(3, 264, 136, 152, kBTransposed),
    grouped(5, 136, 72, 336, kATransposed | kBTransposed),
    grouped(40, 8, 16, 104),
    grouped(0, 8, 8, 16),
    grouped(3, 40, 31, 136, kBTransposed),
    grouped(3, 33, 31, 65, kATransposed | kBTransposed),
    grouped(3, 33, 31, 65, kATransposed, 1),
    grouped(3, 64, 64, 90, kATransposed, 0, 1),
    wide(grouped(3, 8, 8, 0)),
    wide(grouped(4, 264, 136, 150, kATransposed)),
    wide(grouped(40, 8, 16, 100, kATransposed)),
    wide(grouped(3, 264, 136, 152, kBTransposed)),
    wide(grouped(3, 40, 31, 136)),
    wide(grouped(3, 33, 31, 65, kATransposed, 1)),
};

constexpr std::array kDepthBench = {grouped(8, 4096, 4096, 32768, kATransposed),
                                    grouped(128, 2048, 7168, 8192, kATransposed),
                                    grouped(64, 2048, 1408, 65536, kATransposed),
                                    grouped(8, 4096, 4096, 32768),
                                    wide(grouped(8, 4096, 4096, 32768, kATransposed)),
                                    wide(grouped(128, 2048, 7168, 8192, kATransposed))};

}  // namespace

Cases GroupedGemm::cases() { return {kRowSmoke, kRowVerify, kRowBench}; }
Cases GroupedGemmWeight::cases() { return {kDepthSmoke, kDepthVerify, kDepthBench}; }

}  // namespace ws::grouped_gemm
