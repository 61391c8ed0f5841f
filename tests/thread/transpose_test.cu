// Squares of elements in words.
#include "warpsmith/thread/transpose.hpp"

#include "tests/run.hpp"

namespace ws {
namespace {

template <class Element>
struct Square {
  static constexpr int kThreads = 1;
  static constexpr int kSide = thread::elements_of_word(sizeof(Element));
  using Word = std::conditional_t<sizeof(Element) == 8, uint64_t, uint32_t>;
  struct Arguments {
    const Word* from;
    Word* to;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    Word words[kSide];
    for (int i = 0; i < kSide; ++i) words[i] = a.from[i];
    thread::transpose_square<sizeof(Element)>(words);
    for (int i = 0; i < kSide; ++i) a.to[i] = words[i];
  }
};

template <class Element>
void check() {
  using Kernel = Square<Element>;
  constexpr int kSide = Kernel::kSide;
  test::Buffer<typename Kernel::Word> from(kSide);
  test::Buffer<typename Kernel::Word> to(kSide);
  const auto number = [](int row, int column) {
    return static_cast<Element>(row * 16 + column + 1);
  };
  for (int row = 0; row < kSide; ++row) {
    Element elements[kSide];
    for (int column = 0; column < kSide; ++column) elements[column] = number(row, column);
    std::memcpy(&from[static_cast<size_t>(row)], elements, sizeof elements);
  }
  test::run<Kernel>({.threads = 1}, {from.data(), to.data()});
  for (int row = 0; row < kSide; ++row) {
    Element elements[kSide];
    std::memcpy(elements, &to[static_cast<size_t>(row)], sizeof elements);
    for (int column = 0; column < kSide; ++column) {
      EXPECT_EQ(elements[column], number(column, row)) << row << ", " << column;
    }
  }
}

TEST(TransposeSquare, OfEachSize) {
  check<uint8_t>();
  check<uint16_t>();
  check<uint32_t>();
  check<uint64_t>();
}

}  // namespace
}  // namespace ws
