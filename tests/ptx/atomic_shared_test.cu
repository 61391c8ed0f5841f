// Atomic additions in shared memory: all of them arrive, and each ticket is handed out once.
#include "warpsmith/ptx/atomic_shared.hpp"

#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

struct SharedAtomics {
  static constexpr int kThreads = 128;
  static constexpr int kWords = 5;
  struct Arguments {
    uint32_t* words;    // kWords
    uint32_t* tickets;  // kThreads: what each thread saw
  };
  struct SharedStorage {
    SharedArray<uint32_t, kWords> words;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    if (t < kWords) shared.words[t] = 0;
    ptx::barrier_sync();
    ptx::red_shared_increment(shared.words.pointer(0));          // all meet
    ptx::red_shared_increment(shared.words.pointer(1 + t % 2));  // half of them
    ptx::red_shared_add(shared.words.pointer(3), 0U - 5U);       // wraps
    const uint32_t ticket = ptx::atom_shared_add(shared.words.pointer(4), 1);
    thread::store(a.tickets + ticket, 1U);
    ptx::barrier_sync();
    if (t < kWords) thread::store(a.words + t, shared.words[t]);
  }
};

TEST(SharedAtomics, EveryAdditionCountsOnce) {
  test::in_every_order([] {
    constexpr auto kCount = static_cast<size_t>(SharedAtomics::kThreads);
    test::Buffer<uint32_t> words(SharedAtomics::kWords);
    test::Buffer<uint32_t> tickets(kCount);
    test::run<SharedAtomics>({.threads = SharedAtomics::kThreads}, {words.data(), tickets.data()});
    const std::vector<uint32_t> expected = {128, 64, 64, 0U - 5U * 128U, 128};
    EXPECT_EQ(std::vector<uint32_t>(words.begin(), words.end()), expected);
    EXPECT_EQ(std::accumulate(tickets.begin(), tickets.end(), 0U), kCount);
  });
}

}  // namespace
}  // namespace ws
