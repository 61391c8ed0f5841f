// What `verify` cannot ask of transpose: rows that begin anywhere, at every border of a tile and at
// every address, and which rung a call gets.
#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "kernels/transpose/plan.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::transpose {
namespace {

// Matrices of x that begin some elements past a multiple of 16 bytes, with gaps between rows, and
// what `realigned` and `gathered` write into y, which begins elsewhere. `run` elements stay
// together at each row and column.
struct Shape {
  int64_t batch = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t gap = 0;
  int64_t x_offset = 0;
  int64_t y_offset = 0;
  int64_t run = 1;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.batch << " x " << s.rows << " x " << s.columns << ", gap " << s.gap << ", from "
             << s.x_offset << " to " << s.y_offset << ", runs of " << s.run;
}

// Says whether the rung takes the call.
template <class T>
bool is_right(std::string_view name, DType dtype, const Shape& s) {
  constexpr int64_t kAround = 64;
  const int64_t pitch = s.columns * s.run + s.gap;
  const int64_t matrix = s.rows * pitch;
  const int64_t elements = s.batch * s.rows * s.columns * s.run;
  // x ends where its memory does.
  test::Buffer<T> x(static_cast<size_t>(s.x_offset + s.batch * matrix - s.gap));
  test::Buffer<T> y(static_cast<size_t>(elements + 2 * kAround + s.y_offset));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 37 + i / 251 + 1);
  constexpr T kUntouched = 0x5A;
  std::ranges::fill(y, kUntouched);

  Problem problem{.operation = &operation_named("transpose")};
  problem.attributes[0] = int64_t{1};
  problem.attributes[1] = int64_t{2};
  Tensor from = Tensor::dense(dtype, {s.batch, s.rows, s.columns, s.run});
  from.strides = {matrix, pitch, s.run, 1};
  from.data = x.data() + s.x_offset;
  Tensor to = Tensor::dense(dtype, {s.batch, s.columns, s.rows, s.run});
  T* const first = y.data() + kAround + s.y_offset;
  to.data = first;
  problem.tensor(kX) = from;
  problem.tensor(kY) = to;

  const AnyCall call(problem);
  const Rung& rung = *rung_named(family_of(*problem.operation), name);
  if (!takes(rung, call, runtime::capability())) return false;
  run(rung, call, {});
  runtime::synchronize_device();
  const T* next = first;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t c = 0; c < s.columns; ++c) {
      for (int64_t i = 0; i < s.rows * s.run; ++i, ++next) {
        const int64_t r = i / s.run;
        const int64_t from_start = b * matrix + r * pitch + c * s.run + i % s.run;
        if (*next != x[static_cast<size_t>(s.x_offset + from_start)]) {
          ADD_FAILURE() << s << ": row " << r << ", column " << c << " of " << b;
          return true;
        }
      }
    }
  }
  for (const T* at = y.begin(); at < first; ++at) EXPECT_EQ(*at, kUntouched) << s;
  for (const T* at = next; at < y.end(); ++at) EXPECT_EQ(*at, kUntouched) << s;
  return true;
}

template <class T>
void check(DType dtype) {
  constexpr int64_t kWidth = 16 / sizeof(T);
  constexpr int64_t kRows = RealignedShape::useful_rows(sizeof(T));
  constexpr int64_t kColumns = RealignedShape::of(sizeof(T)).columns;
  test::in_every_order([&] {
    int taken = 0;
    const auto at = [&](const Shape& shape) { taken += is_right<T>("realigned", dtype, shape); };
    for (int64_t n = 1; n <= 40; ++n) {
      at({.batch = 1 + n % 3,
          .rows = n,
          .columns = n * 7 % 41,
          .gap = n % 4,
          .x_offset = n % kWidth,
          .y_offset = n * 5 % kWidth});
    }
    for (int64_t n = 0; n < 2 * kWidth + 2; ++n) {  // the last tile has a few rows, or none
      at({.rows = kRows - kWidth + n,
          .columns = 3 + n % 2,
          .x_offset = n * 3 % kWidth,
          .y_offset = n * 7 % kWidth});
    }
    for (int64_t n = -1; n < 2; ++n) {
      at({.rows = 2 * kRows + n, .columns = kColumns + n, .y_offset = 1});
      at({.batch = 2, .rows = 3 * kRows - 5, .columns = 2 * kColumns + n, .gap = 1});
    }
    EXPECT_EQ(taken, 46 + 2 * kWidth) << "all but a single row and a single column";
  });
}

template <class T>
void check_gathered(DType dtype) {
  constexpr int64_t kWidth = 16 / sizeof(T);
  constexpr GatheredShape kShape = GatheredShape::of(sizeof(T));
  test::in_every_order([&] {
    const auto at = [&](const Shape& shape) {
      EXPECT_TRUE(is_right<T>("gathered", dtype, shape)) << shape;
    };
    for (int64_t n = 2; n <= 24; ++n) {
      at({.batch = 1 + n % 3,
          .rows = n,
          .columns = 2 + n * 7 % 23,
          .gap = n % 4,
          .x_offset = n % kWidth,
          .y_offset = n * 5 % kWidth,
          .run = n % 2 == 0 ? 1 : 1 + n % 16});
    }
    for (int64_t n = -1; n < 2; ++n) {  // the last tile has a few rows, or what a sector lacks
      at({.rows = kShape.rows + n, .columns = 5, .x_offset = 1, .y_offset = n + 1});
      at({.rows = 2 * kShape.rows + n, .columns = kShape.columns + n, .y_offset = 1});
      at({.rows = 2 * kShape.rows + n,
          .columns = kShape.columns / 3 + n,
          .y_offset = n + 1,
          .run = 3});
    }
    at({.batch = 2, .rows = 2 * kShape.rows, .columns = 2 * kShape.columns + 1, .gap = 1});
  });
}

TEST(Gathered, Bytes) { check_gathered<uint8_t>(DType::kU8); }
TEST(Gathered, PairsOfBytes) { check_gathered<uint16_t>(DType::kF16); }
TEST(Gathered, FourBytes) { check_gathered<uint32_t>(DType::kI32); }
TEST(Gathered, EightBytes) { check_gathered<uint64_t>(DType::kI64); }

TEST(Realigned, BytesFromAnywhereToAnywhere) { check<uint8_t>(DType::kU8); }
TEST(Realigned, PairsOfBytes) { check<uint16_t>(DType::kF16); }
TEST(Realigned, FourBytes) { check<uint32_t>(DType::kI32); }
TEST(Realigned, EightBytes) { check<uint64_t>(DType::kI64); }

// x and y are columns of one matrix: whole pieces around rows of x would be y's.
TEST(Realigned, LeavesWhatLiesBetweenRowsToOthers) {
  constexpr int64_t kSide = 301;
  constexpr int64_t kPitch = 700;
  test::Buffer<uint16_t> both(static_cast<size_t>(kSide * kPitch));
  for (size_t i = 0; i < both.size(); ++i) both[i] = static_cast<uint16_t>(i * 37);
  Problem problem{.operation = &operation_named("transpose")};
  problem.attributes[0] = int64_t{0};
  problem.attributes[1] = int64_t{1};
  Tensor x = Tensor::dense(DType::kF16, {kSide, kSide});
  x.strides[0] = kPitch;
  x.data = both.data();
  Tensor y = x;
  y.data = both.data() + kSide + 1;
  problem.tensor(kX) = x;
  problem.tensor(kY) = y;
  const AnyCall call(problem);
  EXPECT_FALSE(takes(*rung_named(family_of(*problem.operation), "realigned"), call, 90));
  EXPECT_FALSE(takes(*rung_named(family_of(*problem.operation), "gathered"), call, 90));
  const Rung& rung = best(call, runtime::capability());
  EXPECT_EQ(rung.name, "tiles");
  run(rung, call, {});
  runtime::synchronize_device();
  for (int64_t r = 0; r < kSide; ++r) {
    for (int64_t c = 0; c < kSide; ++c) {
      ASSERT_EQ(both[static_cast<size_t>(c * kPitch + kSide + 1 + r)],
                static_cast<uint16_t>((r * kPitch + c) * 37));
    }
  }
}

std::string chosen(std::array<int64_t, kMaxExtents> extents, DType dtype) {
  const Case of{.extents = extents, .attributes = {int64_t{-2}, int64_t{-1}}};
  return std::string(best(AnyCall(make_problem(operation_named("transpose"), of, dtype)), 90).name);
}

TEST(Transpose, RungsThatCallsGet) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kF64}) {
    const std::string_view odd = dtype == DType::kF64 ? "gathered" : "realigned";
    EXPECT_EQ(chosen({4097, 16383}, dtype), odd);
    EXPECT_EQ(chosen({4096, 16383}, dtype), odd) << "rows of y alone are whole";
    EXPECT_EQ(chosen({4097, 16384}, dtype),
              dtype == DType::kF32 || dtype == DType::kF64 ? "gathered" : "realigned")
        << "rows of x alone are whole";
    EXPECT_EQ(chosen({16, 1023, 1025}, dtype), odd);
    EXPECT_EQ(chosen({16384, 4096}, dtype), "swizzled");
    EXPECT_EQ(chosen({1 << 24, 3}, dtype), "interleave");
    EXPECT_EQ(chosen({1 << 16, 16, 16}, dtype), "windows");
    EXPECT_EQ(chosen({(1 << 24) + 1, 3}, dtype), "tiles") << "lines, of which tiles are one piece";
    EXPECT_EQ(chosen({4096, 100, 70}, dtype), "tiles") << "less than half of its tiles";
  }
}

}  // namespace
}  // namespace ws::transpose
