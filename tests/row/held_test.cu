// Rows in registers: every element of a row is some thread's, and no other is touched.
#include "warpsmith/row/held.hpp"

#include <cmath>

#include "tests/run.hpp"

namespace ws {
namespace {

template <class T, int kWidth, int kLanes, int kVectors, row::Fit kFit>
struct PlusOne {
  static constexpr int kThreads = kLanes;
  struct Arguments {
    const T* x;
    T* y;
    int64_t columns;
    int parts;
    int64_t part;  // of a row, in vectors
  };
  struct SharedStorage {};
  using Share = row::Share<kWidth, kLanes, kVectors, kFit>;

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    row::Cut<kWidth, kFit> cut(a.y, a.columns);
    const int64_t first = cut.keep_part(static_cast<int>(block_index()), a.part);
    const Share share(cut, thread_index());
    row::Held<T, Share> held;
    held.load(share, a.x + first, -7);
    const auto values = held.values();
    row::store(share, a.y + first, [&](int i) { return values[i] + 1; });
  }
};

template <class T, int kWidth, int kLanes, int kVectors, row::Fit kFit>
void check(int64_t columns, int offset, int parts) {
  SCOPED_TRACE(concatenate(columns, " columns from ", offset, " in ", parts, " parts"));
  constexpr int64_t kMargin = 64;
  const auto size = static_cast<size_t>(columns + 2 * kMargin);
  test::Buffer<T> x(size);
  test::Buffer<T> y(size);
  for (size_t i = 0; i < size; ++i) {
    x[i] = from_float<T>(static_cast<float>(i % 97));
    y[i] = from_float<T>(-1);
  }
  const int64_t start = kMargin + offset;
  const int64_t part = (columns / kWidth + parts - 1) / parts;
  test::run<PlusOne<T, kWidth, kLanes, kVectors, kFit>>(
      {.blocks = parts, .threads = kLanes},
      {x.data() + start, y.data() + start, columns, parts, part});
  for (int64_t i = 0; i < static_cast<int64_t>(size); ++i) {
    const bool inside = i >= start && i < start + columns;
    const auto at = static_cast<size_t>(i);
    ASSERT_EQ(to_float(y[at]), inside ? to_float(x[at]) + 1 : -1.0F) << "element " << i - start;
  }
}

TEST(Held, RowsOfAnyStartAndLength) {
  for (const int64_t columns : {1, 3, 7, 8, 9, 64, 250, 255, 256, 500, 512}) {
    for (const int offset : {0, 1, 5, 7})
      check<half, 8, 32, 2, row::Fit::kAnywhere>(columns, offset, 1);
    for (const int offset : {0, 1, 3})
      check<float, 4, 32, 4, row::Fit::kAnywhere>(columns, offset, 1);
  }
}
TEST(Held, PartsOfARow) {
  for (const int64_t columns : {5, 40, 777, 1000, 1024}) {
    for (const int parts : {2, 3, 4}) check<bf16, 8, 32, 4, row::Fit::kAnywhere>(columns, 3, parts);
  }
}
TEST(Held, AlignedAndFullRows) {
  for (const int64_t columns : {8, 64, 248, 256, 504}) {
    check<half, 8, 32, 2, row::Fit::kAligned>(columns, 0, 1);
  }
  check<half, 8, 32, 2, row::Fit::kFull>(512, 0, 1);
  check<float, 4, 64, 1, row::Fit::kFull>(512, 0, 2);
}

#ifdef WS_EMULATED  // device code, called by the host
TEST(Cut, FewerElementsThanUpToTheFirstVector) {
  test::Buffer<float> x(16);
  const row::Cut<4> cut(x.data() + 1, 2);
  EXPECT_EQ(cut.head, 2);
  EXPECT_EQ(cut.vectors, 0);
  EXPECT_EQ(cut.edges, 2);
  EXPECT_EQ(cut.edge(1), 1);
}

TEST(Packed, PaddingAndElements) {
  const auto negative = row::Packed<half, 8>::filled(-INFINITY);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(negative[i], -INFINITY);
  const auto one = row::Packed<bf16, 1>::filled(1);
  EXPECT_EQ(one[0], 1.0F);
}
#endif

}  // namespace
}  // namespace ws
