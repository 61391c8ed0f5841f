// The sort of indices, by merged runs and by digits, and what is added in their order.
#include "kernels/embedding/sorted_indices.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "kernels/embedding/radix_passes.hpp"
#include "tests/run.hpp"

namespace ws::embedding {
namespace {

void sorts_by_digits(size_t count, int row_bits) {
  const auto size = static_cast<int64_t>(count);
  test::Buffer<uint64_t> keys(count);
  test::Buffer<uint64_t> others(count);
  test::Buffer<uint32_t> counts(
      static_cast<size_t>(kRadixDigits * (divide_up(size, kRadixTile) + 1)));
  std::mt19937_64 engine(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t row = i % 7 == 3 ? uint64_t{kNoRow} : engine() >> (64 - row_bits);
    keys[i] = ~(row << 32 | i);
  }
  std::vector<uint64_t> expected(keys.begin(), keys.end());
  std::ranges::sort(expected, std::greater{});
  const uint64_t* const sorted =
      sort_by_digits(keys.data(), others.data(), counts.data(), size, row_bits, {});
  test::wait();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorted)) << count << " " << row_bits;
}

TEST(SortByDigits, OfRowsOfAnyNumberOfBits) {
  sorts_by_digits(1, 32);
  sorts_by_digits(4096, 1);
  sorts_by_digits(4097, 11);
  sorts_by_digits(9000, 21);
  sorts_by_digits(5000, 32);
}

// More tiles than a block adds up at a time.
TEST(AddUpDigit, OfManyTiles) {
  constexpr int64_t kTiles = 2100;
  test::Buffer<uint32_t> counts(2 * kTiles);
  test::Buffer<uint32_t> totals(2);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<uint32_t>(i % 11);
  const std::vector<uint32_t> before(counts.begin(), counts.end());
  test::run<AddUpDigitKernel>({.blocks = 2, .threads = AddUpDigitKernel::kThreads},
                              {counts.data(), totals.data(), kTiles});
  for (size_t digit = 0; digit < 2; ++digit) {
    uint32_t sum = 0;
    for (size_t i = digit * kTiles; i < (digit + 1) * kTiles; ++i) {
      EXPECT_EQ(counts[i], sum) << i;
      sum += before[i];
    }
    EXPECT_EQ(totals[digit], sum);
  }
}

// Those of one row, which are ignored, come last.
void sorts_indices(int64_t count, int64_t limit) {
  constexpr int64_t kIgnored = 3;
  test::Buffer<int32_t> rows(static_cast<size_t>(count));
  std::mt19937 engine(static_cast<uint32_t>(count));
  for (int32_t& row : rows) row = static_cast<int32_t>(engine() % limit);
  std::vector<uint64_t> expected;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows[static_cast<size_t>(i)];
    expected.push_back(
        ~(static_cast<uint64_t>(row == kIgnored ? kNoRow : row) << 32 | static_cast<uint64_t>(i)));
  }
  std::ranges::sort(expected, std::greater{});
  test::Buffer<uint64_t> memory(sort_bytes(count) / sizeof(uint64_t));
  test::Buffer<Touched> touched(static_cast<size_t>(limit));
  const Indices index(rows.data(), false, 1, "test", limit);
  const uint64_t* const sorted =
      sort_indices({index, count, kIgnored, touched.data()}, memory.data(), {});
  test::wait();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorted)) << count << " " << limit;
  for (int64_t row = 0; row < limit; ++row) {
    const bool is_named = row != kIgnored && std::ranges::find(rows, row) != rows.end();
    EXPECT_EQ(touched[static_cast<size_t>(row)], is_named ? 1 : 0) << count << " " << row;
  }
}

TEST(SortIndices, OfFewAndOfMany) {
  sorts_indices(1, 5);
  sorts_indices(1024, 50);
  sorts_indices(1025, 50);
  sorts_indices(5000, 4096);
  sorts_indices(8192, 9000);
  sorts_indices(8193, 70);
  sorts_indices(kMostMerged, 100);
  sorts_indices(kMostMerged + 1, 1023);
  sorts_indices(kMostMerged + 1, 4);
}

enum class Start : uint8_t { kZeros, kCopy, kInPlace };

// Whole numbers, whose sums are exact in f32; `offset`: elements behind an address of whole
// vectors.
template <class T>
void adds_sorted(int64_t count, int64_t rows, int64_t columns, Start from, int64_t offset = 0) {
  const auto size = [&](int64_t lines) { return static_cast<size_t>(lines * columns + offset); };
  const auto value = [](size_t i, size_t of) {
    return from_float<T>(static_cast<float>((i * 7 + i / of) % of));
  };
  test::Buffer<int64_t> index(static_cast<size_t>(count));
  std::mt19937 engine(static_cast<uint32_t>(count));
  for (int64_t& row : index) row = static_cast<int64_t>(engine() % static_cast<uint32_t>(rows));
  test::Buffer<T> x(size(rows));
  test::Buffer<T> y(size(rows));
  test::Buffer<T> source(size(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = value(i, 13);
  for (size_t i = 0; i < y.size(); ++i) y[i] = from_float<T>(-1);
  for (size_t i = 0; i < source.size(); ++i) source[i] = value(i, 31);

  std::vector<float> expected(size(rows));
  const auto first = static_cast<size_t>(offset);
  for (size_t i = first; i < expected.size(); ++i)
    expected[i] = from == Start::kZeros ? 0 : to_float(x[i]);
  for (size_t i = 0; i < index.size(); ++i) {
    for (size_t c = 0; c < static_cast<size_t>(columns); ++c) {
      const size_t of_row = static_cast<size_t>(columns);
      expected[first + static_cast<size_t>(index[i]) * of_row + c] +=
          2 * to_float(source[first + i * of_row + c]);
    }
  }

  AddSorted call;
  test::Buffer<T>& target = from == Start::kInPlace ? x : y;
  call.data = {from == Start::kZeros ? nullptr : x.data() + offset, target.data() + offset,
               source.data() + offset};
  call.rows = rows;
  call.count = count;
  call.inner = columns;
  call.row_strides = {columns, columns, columns};
  call.inner_strides = {1, 1, 1};
  call.scale = 2;
  test::Buffer<uint64_t> workspace(call.workspace().bytes / sizeof(uint64_t) + 1);
  add_sorted(call, kDType<T>, {index.data(), true, 1, "test", rows}, -1,
             {.workspace = workspace.data()});
  test::wait();
  size_t wrong = 0;
  for (size_t i = first; i < expected.size(); ++i) {
    wrong += to_float(target[i]) != to_float(from_float<T>(expected[i])) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0U) << count << " into " << rows << " of " << columns << ", offset " << offset;
}

// Rows that are kept beside a merge, beside none, and after a sort by digits; a thread's last
// vectors are none where a row has five; rows are many and few.
template <class T>
void adds_in_all_ways() {
  for (const Start from : {Start::kZeros, Start::kCopy, Start::kInPlace}) {
    adds_sorted<T>(2050, 900, 40, from);
    adds_sorted<T>(2050, 900, 3, from, 1);
    adds_sorted<T>(1024, 40, 24, from);
    adds_sorted<T>(30, 300, 36, from);
  }
  adds_sorted<T>(kMostMerged + 1, 6000, 8, Start::kCopy);
}
TEST(AddSorted, InAllWaysOfSorting) {
  adds_in_all_ways<float>();
  adds_in_all_ways<half>();
  adds_in_all_ways<bf16>();
}

}  // namespace
}  // namespace ws::embedding
