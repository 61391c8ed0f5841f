// Philox4x32 gives what its authors' known answers say, on the host and in a kernel.
#include "warpsmith/thread/philox.hpp"

#include <gmock/gmock.h>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

struct Answer {
  uint64_t low, high;  // the counter
  uint64_t key;
  std::array<uint32_t, 4> of_7_rounds;
  std::array<uint32_t, 4> of_10_rounds;
};
// The kat_vectors of Random123, "philox4x32 7" and "philox4x32 10".
constexpr Answer kAnswers[] = {
    {0,
     0,
     0,
     {0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48},
     {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
    {~uint64_t{0},
     ~uint64_t{0},
     ~uint64_t{0},
     {0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662},
     {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
    {0x85A308D3243F6A88,
     0x0370734413198A2E,
     0x299F31D0A4093822,
     {0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A},
     {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
};

template <class Philox>
struct PhiloxKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    Philox random;
    uint64_t low, high;
    uint32_t* words;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    if (thread_index() == 0) thread::store(a.words, a.random(a.low, a.high));
  }
};

template <int kRounds>
void expect_words(const Answer& answer, const std::array<uint32_t, 4>& expected) {
  const thread::PhiloxOf<kRounds> random(answer.key);
  const Vec<uint32_t, 4> host = random(answer.low, answer.high);
  EXPECT_THAT(host.values, testing::ElementsAreArray(expected));
  test::Buffer<uint32_t> words(4);
  test::run<PhiloxKernel<thread::PhiloxOf<kRounds>>>(
      {.threads = 32}, {random, answer.low, answer.high, words.data()});
  EXPECT_THAT(std::vector<uint32_t>(words.begin(), words.end()),
              testing::ElementsAreArray(expected));
}

TEST(Philox, GivesTheKnownAnswers) {
  for (const Answer& answer : kAnswers) {
    expect_words<7>(answer, answer.of_7_rounds);
    expect_words<10>(answer, answer.of_10_rounds);
  }
}

}  // namespace
}  // namespace ws
