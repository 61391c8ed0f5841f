// An index out of range writes nothing, and the first of them is told with its values.
#include "warpsmith/device_error.hpp"

#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// out[i] = table[indices[i]]
struct Gather {
  static constexpr int kThreads = 64;
  struct Arguments {
    const float* table;
    const int64_t* indices;
    float* out;
    int64_t count;
    IndexCheck check;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const int64_t index = thread::load(a.indices + i);
    if (!a.check(index, i)) return;
    thread::store(a.out + i, thread::load(a.table + index));
  }
};

std::vector<float> gather(const std::vector<int64_t>& indices) {
  test::Buffer<float> table(std::vector<float>{10, 11, 12, 13});
  test::Buffer<int64_t> where(indices);
  test::Buffer<float> out(std::vector<float>(indices.size(), -1));
  const auto count = static_cast<int64_t>(indices.size());
  test::run<Gather>(
      {.blocks = 1 + count / 64, .threads = 64},
      {table.data(), where.data(), out.data(), count, IndexCheck("gather/plain", "indices", 4)});
  return {out.begin(), out.end()};
}

TEST(DeviceError, GoodIndicesReportNothing) {
  EXPECT_EQ(gather({3, 0, 2}), (std::vector<float>{13, 10, 12}));
  EXPECT_EQ(take_device_error(), std::nullopt);
}

TEST(DeviceError, ABadIndexWritesNothingAndIsToldOnce) {
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_EQ(gather({3, bad, 2}), (std::vector<float>{13, -1, 12}));
    const std::optional<std::string> text = take_device_error();
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(*text, concatenate("gather/plain: index ", bad,
                                 " at position 1 of 'indices' is outside [0, 4); nothing was "
                                 "written for it"));
    EXPECT_EQ(take_device_error(), std::nullopt);
  }
}

TEST(DeviceError, OfManyOneIsTold) {
  gather(std::vector<int64_t>(1000, 7));
  EXPECT_THROW(raise_device_error(), InvalidArgument);
  EXPECT_NO_THROW(raise_device_error());
}

}  // namespace
}  // namespace ws
