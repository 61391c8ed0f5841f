// The sort of indices, by merged runs and by digits.
#include "kernels/embedding/sorted_indices.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "kernels/embedding/radix_passes.hpp"
#include "tests/run.hpp"

namespace ws::embedding {
namespace {

void wait() {
#ifndef WS_EMULATED
  ws::detail::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
#endif
}

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
  wait();
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
  const Indices index(rows.data(), false, 1, "test", limit);
  const uint64_t* const sorted = sort_indices(index, count, kIgnored, memory.data(), {});
  wait();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorted)) << count << " " << limit;
}

TEST(SortIndices, OfFewAndOfMany) {
  sorts_indices(1000, 50);
  sorts_indices(5000, 4096);
  sorts_indices(kMostMerged, 100);
  sorts_indices(kMostMerged + 1, 1023);
  sorts_indices(kMostMerged + 1, 4);
}

}  // namespace
}  // namespace ws::embedding
