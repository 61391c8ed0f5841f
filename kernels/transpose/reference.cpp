// What the operations are checked against: cases, and a walk over y's elements in their order.
#include <algorithm>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/transpose/operations.hpp"

namespace ws::transpose {

void copy_of(const Tensor& view, Slice slice, double* expected) {
  parallel_for(slice.last - slice.first, 4096, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) expected[i] = element(view, slice.first + i);
  });
}

// ---- Cases --------------------------------------------------------------------------------------

void make_tensor(const Case& chosen, DType dtype, Problem& problem) {
  enum Layout : int64_t { kSwapped = 1, kRepeated = 2 };
  Tensor x{.dtype = dtype, .rank = 0};
  for (size_t d = 0; d < kMaxRank; ++d) {
    if (chosen.extents[d] == 0) continue;
    x.shape[static_cast<size_t>(x.rank++)] = std::max<int64_t>(chosen.extents[d], 0);
  }
  const int64_t layout = chosen.extents[6];
  int64_t stride = std::max<int64_t>(chosen.extents[7], 1);
  for (int i = x.rank - 1; i >= 0; --i) {
    const bool swaps = layout == kSwapped && x.rank >= 2 && i >= x.rank - 2;
    const int d = swaps ? 2 * x.rank - 3 - i : i;
    x.strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(x.extent(d), 1);
    if (i == x.rank - 1) stride += chosen.padding;
  }
  if (layout == kRepeated && x.rank > 0) x.strides[0] = 0;
  problem.tensor(kX) = x;
}

namespace {

// A kernel is made for a size of elements: one dtype of each does for most cases.
constexpr DTypes kOneOfEach = {DType::kU8, DType::kF16, DType::kF32, DType::kF64};
constexpr DTypes kF32 = {DType::kF32};

constexpr Case of(std::array<int64_t, kMaxExtents> extents, DTypes dtypes = kOneOfEach,
                  int offset = 0, int64_t padding = 0) {
  return {.extents = extents, .offset = offset, .padding = padding, .dtypes = dtypes};
}
constexpr Case along(Case one, int dim0, int dim1) {
  one.attributes[0] = dim0;
  one.attributes[1] = dim1;
  return one;
}
constexpr Case in_order(const Dims& dims, Case one) {
  one.attributes[0] = dims;
  return one;
}

}  // namespace

// Whole tiles and parts of them, thin matrices, pieces of 16 bytes that do and do not fit, batches,
// strides, nothing at all.
Cases Transpose::cases() {
  static const std::vector<Case> kSmoke = {
      of({16, 32}, kEveryDType), of({20, 37}),
      of({2, 32, 48}),           along(of({2, 3, 32}, kEveryDType), 0, 1),
      of({64, 3}, kEveryDType),  of({125, 67}, {DType::kF32, DType::kF64}, 1),
  };
  static const std::vector<Case> kVerify = {
      of({64, 32}, kEveryDType),
      of({3, 80}, kEveryDType),
      along(of({5, 6, 64}, kEveryDType), 0, 1),
      along(of({}, kF32), 0, -1),
      along(of({7}, kF32), 0, 0),
      along(of({5, 8}, kF32), 1, 1),
      of({1, 1}, kF32),
      of({1, 37}, kF32),
      of({40, 1}, kF32),
      of({33, 65}),
      of({48, 20}, kF32),
      of({144, 160}),
      of({160, 144, 0, 0, 0, 0, 1}, kF32),
      of({37, 53}, kOneOfEach, 1),
      of({32, 64}, kOneOfEach, 0, 16),
      of({32, 48}, kF32, 0, 1),
      of({700, 3}),
      of({3, 700}),
      of({600, 2}, {DType::kU8, DType::kF16}),
      of({10256, 3}),
      of({3, 5136}),
      of({2, 1040, 8}, {DType::kU8, DType::kF64}),
      of({2, 7, 1040}, {DType::kU8, DType::kF16}),
      of({2, 1040, 4}, {DType::kU8, DType::kF32}, 1),
      of({257, 131}, kOneOfEach, 1),
      of({2, 241, 67}, kOneOfEach, 3, 1),
      of({37, 32, 32}, kOneOfEach),
      of({19, 24, 40}, kOneOfEach),
      of({70, 16, 17}, {DType::kU8}),
      of({67, 5, 48}, {DType::kU8, DType::kF16}),
      of({300, 4, 8}, kOneOfEach),
      of({300, 4, 4}, kOneOfEach),
      along(of({149, 3, 75}, {DType::kU8, DType::kF16}, 1), 0, 2),
      along(of({6, 5, 130}), 0, 2),
      along(of({16, 5, 32}), 0, -1),
      along(of({9, 33, 6}), 0, 1),
      of({3, 40, 24, 0, 0, 0, 2}),
      of({24, 40, 0, 0, 0, 0, 0, 2}),
      of({16, kEmpty}, kF32),
      of({kEmpty, 5}, kF32),
  };
  static const std::vector<Case> kBench = {
      of({16384, 4096}), of({4096, 16384}),   of({8192, 8192}),    of({16384, 16384}),
      of({1048576, 64}), of({64, 1048576}),   of({4097, 16383}),   of({16777216, 3}),
      of({3, 16777216}), of({512, 512, 256}), of({65536, 32, 32}), of({1024, 1024}),
  };
  return {kSmoke, kVerify, kBench};
}

Cases Permute::cases() {
  static const std::vector<Case> kSmoke = {
      in_order({2, 0, 1}, of({4, 8, 16}, kEveryDType)),
      in_order({0, 2, 1, 3}, of({2, 3, 5, 16}, kEveryDType)),
      in_order({3, 2, 1, 0}, of({4, 3, 5, 6})),
      in_order({1, 0}, of({64, 32})),
      in_order({2, 0, 1}, of({8, 8, 3}, kEveryDType)),
  };
  static const std::vector<Case> kVerify = {
      in_order({1, 0}, of({64, 48}, kEveryDType)),
      in_order({0, 3, 1, 2}, of({2, 4, 12, 3}, kEveryDType)),
      in_order({}, of({}, kF32)),
      in_order({0, 1, 2}, of({5, 7, 9})),
      in_order({-1, 0, 1}, of({3, 5, 7}, kF32, 1)),
      in_order({0, 2, 1, 3}, of({3, 10, 7, 24}, kEveryDType)),
      in_order({1, 0, 2}, of({40, 30, 3})),
      in_order({1, 0, 2}, of({33, 20, 6}, kOneOfEach, 1)),
      in_order({1, 0, 2}, of({3, 5, 201}, kF32, 1)),
      in_order({0, 3, 1, 2}, of({2, 16, 24, 3})),
      in_order({0, 2, 3, 1}, of({2, 3, 16, 24})),
      in_order({3, 2, 1, 0}, of({16, 6, 10, 32})),
      in_order({0, 3, 1, 2}, of({2, 9, 16, 80})),
      in_order({0, 2, 3, 1}, of({2, 96, 9, 16})),
      in_order({3, 1, 2, 0}, of({16, 5, 3, 48})),
      in_order({2, 1, 0}, of({7, 3, 11, 0, 0, 0, 0, 3})),
      in_order({2, 0, 1}, of({5, 12, 40, 0, 0, 0, 2})),
      in_order({5, 3, 1, 4, 2, 0}, of({4, 3, 2, 5, 3, 8})),
      in_order({4, 5, 0, 1, 2, 3}, of({2, 3, 2, 3, 16, 2}, kF32)),
      in_order({2, 1, 0}, of({4, kEmpty, 3}, kF32)),
      in_order({0, 2, 1, 3}, of({1, 40, 1, 8}, kF32)),
      in_order({3, 1, 2, 0}, of({77, 2, 3, 65}, kOneOfEach, 1)),
      in_order({1, 0, 2}, of({131, 90, 3}, kOneOfEach, 1, 1)),
      in_order({1, 0, 3, 2}, of({5, 7, 16, 8}, kOneOfEach)),
      in_order({0, 1, 4, 3, 2}, of({3, 11, 4, 6, 8}, kOneOfEach)),
      in_order({0, 1, 3, 2}, of({3, 9, 16, 8, 0, 0, 2}, kOneOfEach)),
      in_order({2, 0, 1, 3}, of({3, 259, 25, 5}, {DType::kU8, DType::kF16})),
  };
  static const std::vector<Case> kBench = {
      in_order({0, 2, 1, 3}, of({64, 128, 96, 128})),
      in_order({3, 2, 1, 0}, of({64, 128, 96, 128})),
      in_order({0, 3, 1, 2}, of({64, 128, 96, 128})),
      in_order({1, 0, 2, 3}, of({64, 128, 96, 128})),
      in_order({0, 2, 3, 1}, of({64, 128, 96, 128})),
      in_order({3, 0, 2, 1}, of({64, 128, 96, 128})),
      in_order({3, 2, 1, 0}, of({96, 96, 32, 256})),
      in_order({1, 0, 2}, of({4096, 4096, 3})),
      in_order({2, 0, 1}, of({2160, 3840, 3})),
      in_order({5, 3, 1, 4, 2, 0}, of({16, 16, 16, 16, 16, 16})),
  };
  return {kSmoke, kVerify, kBench};
}

}  // namespace ws::transpose
