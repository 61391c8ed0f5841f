// The swizzle patterns, against the figures of the PTX ISA ("Swizzling modes").
#include "warpsmith/ptx/swizzle.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ws::ptx {
namespace {

// Where the documentation's tables put the chunks of the first 8 lines of 128 bytes.
void expect_table(Swizzle swizzle, const int (&chunks)[8][8]) {
  for (uint32_t line = 0; line < 8; ++line) {
    for (uint32_t chunk = 0; chunk < 8; ++chunk) {
      EXPECT_EQ(swizzled(swizzle, line * 128 + chunk * 16),
                line * 128 + static_cast<uint32_t>(chunks[line][chunk]) * 16)
          << line << ", " << chunk;
    }
  }
}

TEST(Swizzle, FollowsTheDocumentedTables) {
  expect_table(Swizzle::k128, {{0, 1, 2, 3, 4, 5, 6, 7},
                               {1, 0, 3, 2, 5, 4, 7, 6},
                               {2, 3, 0, 1, 6, 7, 4, 5},
                               {3, 2, 1, 0, 7, 6, 5, 4},
                               {4, 5, 6, 7, 0, 1, 2, 3},
                               {5, 4, 7, 6, 1, 0, 3, 2},
                               {6, 7, 4, 5, 2, 3, 0, 1},
                               {7, 6, 5, 4, 3, 2, 1, 0}});
  expect_table(Swizzle::k64, {{0, 1, 2, 3, 4, 5, 6, 7},
                              {1, 0, 3, 2, 5, 4, 7, 6},
                              {2, 3, 0, 1, 6, 7, 4, 5},
                              {3, 2, 1, 0, 7, 6, 5, 4},
                              {0, 1, 2, 3, 4, 5, 6, 7},
                              {1, 0, 3, 2, 5, 4, 7, 6},
                              {2, 3, 0, 1, 6, 7, 4, 5},
                              {3, 2, 1, 0, 7, 6, 5, 4}});
  expect_table(Swizzle::k32, {{0, 1, 2, 3, 4, 5, 6, 7},
                              {1, 0, 3, 2, 5, 4, 7, 6},
                              {0, 1, 2, 3, 4, 5, 6, 7},
                              {1, 0, 3, 2, 5, 4, 7, 6},
                              {0, 1, 2, 3, 4, 5, 6, 7},
                              {1, 0, 3, 2, 5, 4, 7, 6},
                              {0, 1, 2, 3, 4, 5, 6, 7},
                              {1, 0, 3, 2, 5, 4, 7, 6}});
  for (uint32_t offset = 0; offset < 4096; ++offset) {
    EXPECT_EQ(swizzled(Swizzle::kNone, offset), offset);
  }
}

TEST(Swizzle, RepeatsAndIsItsOwnInverse) {
  for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k32, Swizzle::k64, Swizzle::k128}) {
    const auto period = static_cast<uint32_t>(swizzle_period(swizzle));
    for (uint32_t offset = 0; offset < 8192; ++offset) {
      EXPECT_EQ(swizzled(swizzle, swizzled(swizzle, offset)), offset);
      EXPECT_EQ(swizzled(swizzle, offset + period), swizzled(swizzle, offset) + period);
    }
  }
}

// A column of 8 chunks touches 8 / (lines it spans per bank group) different groups of banks: all 8
// with 128-byte rows, which is what ldmatrix needs.
TEST(Swizzle, SpreadsAColumnOverTheBanks) {
  for (uint32_t chunk = 0; chunk < 8; ++chunk) {
    std::set<uint32_t> banks;
    for (uint32_t row = 0; row < 8; ++row) {
      banks.insert(swizzled_chunk<Swizzle::k128>(row, chunk) % 128 / 16);
    }
    EXPECT_EQ(banks.size(), 8);
  }
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    std::set<uint32_t> banks;
    for (uint32_t row = 0; row < 8; ++row) {
      banks.insert(swizzled_chunk<Swizzle::k64>(row, chunk) % 128 / 16);
    }
    EXPECT_EQ(banks.size(), 8);
  }
}

}  // namespace
}  // namespace ws::ptx
