// What lies across two pieces.
#include "warpsmith/thread/realign.hpp"

#include "tests/run.hpp"

namespace ws {
namespace {

template <class Element, class Word>
struct Realign {
  static constexpr int kThreads = 32;
  static constexpr int kWords = 16 / sizeof(Word);
  struct Arguments {
    const Word* from;
    Word* to;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int elements = lane_index();
    if (elements * sizeof(Element) >= 16) return;
    Vec<Word, kWords> first;
    Vec<Word, kWords> second;
    for (int i = 0; i < kWords; ++i) {
      first[i] = a.from[i];
      second[i] = a.from[kWords + i];
    }
    const auto result = thread::realign<sizeof(Element)>(
        first, second, static_cast<uint32_t>(elements * sizeof(Element)));
    for (int i = 0; i < kWords; ++i) a.to[elements * kWords + i] = result[i];
  }
};

template <class Element, class Word>
void check() {
  using Kernel = Realign<Element, Word>;
  uint8_t bytes[32];
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  test::Buffer<Word> from(2 * Kernel::kWords);
  std::memcpy(from.data(), bytes, sizeof bytes);
  test::Buffer<Word> to(Kernel::kWords * 16 / sizeof(Element));
  test::run<Kernel>({.threads = 32}, {from.data(), to.data()});
  for (size_t n = 0; n * sizeof(Element) < 16; ++n) {
    EXPECT_EQ(std::memcmp(&to[n * Kernel::kWords], bytes + n * sizeof(Element), 16), 0) << n;
  }
}

TEST(Realign, FromEachPlace) {
  check<uint8_t, uint32_t>();
  check<uint16_t, uint32_t>();
  check<uint32_t, uint32_t>();
  check<uint64_t, uint32_t>();
  check<uint64_t, uint64_t>();
}

}  // namespace
}  // namespace ws
