// What topk's rungs share: the order of keys, and bounds where rows make them weak.
#include <cmath>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "kernels/topk/candidates_of_row.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::topk {
namespace {

// ---- Keys -------------------------------------------------------------------------------------

template <class T>
struct WorthKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    const T* x;
    uint32_t* worth;
    T* back;
    int count;
    uint32_t flip;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int i = thread_index();
    if (i >= a.count) return;
    const uint32_t worth = Worth<T>::of(thread::load(a.x + i), a.flip);
    thread::store(a.worth + i, worth);
    thread::store(a.back + i, Worth<T>::back(worth, a.flip, a.x + i));
  }
};

// From the least to the largest; zeros are equal, and so are NaN.
template <class T>
void keeps_the_order() {
  const float tiny = std::is_same_v<T, half> ? 0x1p-24F : 0x1p-126F;
  const std::vector<float> ordered = {-INFINITY, -1000, -1.5F, -1,      -tiny,    -0.0F, 0.0F,
                                      tiny,      1,     1.5F,  1000.0F, INFINITY, NAN,   -NAN};
  for (const bool largest : {true, false}) {
    test::Buffer<T> x(ordered.size());
    test::Buffer<T> back(ordered.size());
    test::Buffer<uint32_t> worth(ordered.size());
    for (size_t i = 0; i < ordered.size(); ++i) x[i] = from_float<T>(ordered[i]);
    test::run<WorthKernel<T>>(
        {.threads = 32},
        {x.data(), worth.data(), back.data(), static_cast<int>(x.size()), Worth<T>::flip(largest)});
    for (size_t i = 0; i < ordered.size(); ++i) {
      EXPECT_EQ(std::memcmp(&x[i], &back[i], sizeof(T)), 0) << ordered[i];
      EXPECT_NE(worth[i], 0U) << "stands for none";
      if (i == 0) continue;
      const bool equal = ordered[i] == ordered[i - 1] || std::isnan(ordered[i - 1]);
      EXPECT_EQ(worth[i] == worth[i - 1], equal) << ordered[i];
      if (!equal) {
        EXPECT_EQ(worth[i] > worth[i - 1], largest) << ordered[i];
      }
    }
  }
}

TEST(TopkWorth, KeepsTheOrder) {
  keeps_the_order<float>();
  keeps_the_order<half>();
  keeps_the_order<bf16>();
}

// ---- Rows that make bounds weak ---------------------------------------------------------------

// Runs a rung on one row without NaN and compares it with a sort.
template <class T>
void selects(std::string_view rung, const std::vector<T>& row, int64_t k, bool largest) {
  constexpr DType kDType = dtype_traits<T>::kValue;
  const auto columns = static_cast<int64_t>(row.size());
  test::Buffer<T> x(row);
  test::Buffer<T> values(static_cast<size_t>(k));
  test::Buffer<int64_t> indices(static_cast<size_t>(k));
  Problem problem;
  problem.operation = &operation_named("topk");
  problem.tensor(kX) = Tensor::dense(kDType, {1, columns});
  problem.tensor(kX).data = x.data();
  problem.tensor(kValues) = Tensor::dense(kDType, {1, k});
  problem.tensor(kValues).data = values.data();
  problem.tensor(kIndices) = Tensor::dense(DType::kI64, {1, k});
  problem.tensor(kIndices).data = indices.data();
  problem.attributes[0] = k;
  problem.attributes[2] = largest;
  const AnyCall call(problem);
  const Rung& with = *rung_named(family_of(*problem.operation), rung);
  ASSERT_EQ(why_not(with, call, 90), "");
  test::Buffer<uint8_t> workspace(workspace_of(with, call).bytes);
  run(with, call, {.workspace = workspace.data()});
  test::wait();
  std::vector<int64_t> places(row.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  std::ranges::stable_sort(places, [&](int64_t a, int64_t b) {
    const T one = row[static_cast<size_t>(a)];
    const T other = row[static_cast<size_t>(b)];
    return largest ? one > other : one < other;
  });
  for (size_t j = 0; j < static_cast<size_t>(k); ++j) {
    EXPECT_EQ(indices[j], places[j]) << rung << " " << j;
    EXPECT_EQ(values[j], row[static_cast<size_t>(places[j])]) << rung << " " << j;
  }
}

// Rows that rise raise the bound time and again; of one number nobody reaches more than another;
// with few that differ the warps' shares of k are anywhere.
void selects_all(std::string_view rung, size_t columns, int64_t k) {
  std::vector<float> rising(columns);
  std::vector<float> flat(columns, 1.5F);
  std::vector<float> sparse(columns, 0.0F);
  for (size_t i = 0; i < columns; ++i) rising[i] = static_cast<float>(i) - 100;
  for (size_t i = 0; i < 40 && i < columns; ++i)
    sparse[columns - 1 - i] = 1 + static_cast<float>(i);
  for (const bool largest : {true, false}) {
    for (const std::vector<float>& row : {rising, flat, sparse}) selects(rung, row, k, largest);
  }
}

TEST(TopkCandidates, OfRowsThatMakeBoundsWeak) {
  for (const int64_t k : {1, 33, 128}) {
    selects_all("threshold", 1000, k);
    selects_all("filter", 6000, k);
  }
  selects_all("filter", 40003, 64);
}

// What stands behind a row's end is as bad as the worst element, and stays behind it.
TEST(TopkRadixRows, OfTheWorstElements) {
  std::vector<int32_t> row(700, 0x7FFFFFFF);
  for (size_t i = 0; i < row.size(); i += 3) row[i] = -0x7FFFFFFF - 1;
  for (size_t i = 0; i < row.size(); i += 7) row[i] = static_cast<int32_t>(i << 16 | i % 5);
  for (const bool largest : {true, false}) {
    selects("radix_rows", row, 700, largest);
    selects("radix_rows", std::vector<int32_t>(33, largest ? row[3] : row[1]), 33, largest);
  }
}

// The same behind the end of a tile; rows that end with one, or just before or behind; of one key,
// and of all digits.
TEST(TopkRadixPasses, OfRowsThatEndWithATile) {
  for (const size_t columns : {8191, 8192, 8193}) {
    std::vector<int32_t> mixed(columns);
    for (size_t i = 0; i < columns; ++i) {
      mixed[i] = static_cast<int32_t>(static_cast<uint32_t>(i) * 0x9E3779B1U);
      if (i % 9 == 0) mixed[i] = 0x7FFFFFFF;
      if (i % 9 == 1) mixed[i] = -0x7FFFFFFF - 1;
    }
    for (const bool largest : {true, false}) selects("radix_passes", mixed, 8191, largest);
    selects("radix_passes", std::vector<int32_t>(columns, -0x7FFFFFFF - 1), 8000, true);
  }
}

// Beyond a block's rows passes are chosen; for few words of 32 bits, merges.
TEST(TopkRadixPasses, AreChosenForLongRows) {
  const auto chosen = [](DType dtype, int64_t rows, int64_t columns) {
    Problem problem;
    problem.operation = &operation_named("sort");
    problem.tensor(kX) = Tensor::dense(dtype, {rows, columns});
    problem.tensor(kValues) = Tensor::dense(dtype, {rows, columns});
    problem.tensor(kIndices) = Tensor::dense(DType::kI64, {rows, columns});
    return std::string(best(AnyCall(problem), 90).name);
  };
  EXPECT_EQ(chosen(DType::kBf16, 1, 16384), "radix_rows");
  EXPECT_EQ(chosen(DType::kBf16, 1, 16385), "radix_passes");
  EXPECT_EQ(chosen(DType::kF32, 63, 16385), "merge_runs");
  EXPECT_EQ(chosen(DType::kF32, 64, 16385), "radix_passes");
}

}  // namespace
}  // namespace ws::topk
