#include "warpsmith/block/sort.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

template <class Key, int kThreads_, int kKeys>
struct SortKeys {
  static constexpr int kThreads = kThreads_;
  using Sorter = block::BitonicSort<Key, kThreads, kKeys>;
  struct Arguments {
    Key* keys;
  };
  struct SharedStorage {
    typename Sorter::Storage sort;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Key* mine = a.keys + (block_index() * kThreads + thread_index()) * kKeys;
    typename Sorter::Keys keys;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) keys[j] = thread::load(mine + j);
    Sorter{shared.sort}(keys);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) thread::store(mine + j, keys[j]);
  }
};

template <class Key, int kThreads, int kKeys>
void sorts(uint64_t below) {
  constexpr size_t kCount = size_t{kThreads} * kKeys;
  constexpr int kBlocks = 2;
  test::Buffer<Key> keys(kBlocks * kCount);
  std::mt19937_64 engine(kCount);
  for (Key& key : keys) key = static_cast<Key>(engine() % below);
  std::vector<Key> expected(keys.begin(), keys.end());
  for (size_t block = 0; block < kBlocks; ++block) {
    const auto first = expected.begin() + static_cast<ptrdiff_t>(block * kCount);
    std::sort(first, first + kCount, std::greater{});
  }
  test::run<SortKeys<Key, kThreads, kKeys>>({.blocks = kBlocks, .threads = kThreads},
                                            {keys.data()});
  EXPECT_TRUE(std::ranges::equal(keys, expected)) << kThreads << " x " << kKeys;
}

TEST(BitonicSort, OfAWarp) {
  sorts<uint32_t, 32, 1>(uint64_t{1} << 32);
  sorts<uint32_t, 32, 8>(uint64_t{1} << 32);
  sorts<uint64_t, 32, 4>(~uint64_t{0});
}

TEST(BitonicSort, OfABlock) {
  sorts<uint32_t, 64, 2>(uint64_t{1} << 32);
  sorts<uint64_t, 128, 8>(~uint64_t{0});
  sorts<uint64_t, 256, 1>(~uint64_t{0});
}

TEST(BitonicSort, OfEquals) {
  sorts<uint32_t, 32, 4>(1);
  sorts<uint64_t, 128, 2>(7);
}

}  // namespace
}  // namespace ws
