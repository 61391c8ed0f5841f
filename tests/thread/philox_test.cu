// Philox4x32-10 gives what its authors' known answers say, on the host and in a kernel.
#include "warpsmith/thread/philox.hpp"

#include <gmock/gmock.h>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

struct Answer {
  uint64_t low, high;  // the counter
  uint64_t key;
  std::array<uint32_t, 4> words;
};
// The kat_vectors of Random123, "philox4x32 10".
constexpr Answer kAnswers[] = {
    {0, 0, 0, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
    {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
    {0x85A308D3243F6A88,
     0x0370734413198A2E,
     0x299F31D0A4093822,
     {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
};

struct PhiloxKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    thread::Philox random;
    uint64_t low, high;
    uint32_t* words;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    if (thread_index() == 0) thread::store(a.words, a.random(a.low, a.high));
  }
};

TEST(Philox, GivesTheKnownAnswers) {
  for (const Answer& answer : kAnswers) {
    const thread::Philox random(answer.key);
    const Vec<uint32_t, 4> host = random(answer.low, answer.high);
    EXPECT_THAT(host.values, testing::ElementsAreArray(answer.words));
    test::Buffer<uint32_t> words(4);
    test::run<PhiloxKernel>({.threads = 32}, {random, answer.low, answer.high, words.data()});
    EXPECT_THAT(std::vector<uint32_t>(words.begin(), words.end()),
                testing::ElementsAreArray(answer.words));
  }
}

}  // namespace
}  // namespace ws
