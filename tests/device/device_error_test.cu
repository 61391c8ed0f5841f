// An index out of range writes nothing, and the first of them is told with its values.
#include "warpsmith/device_error.hpp"

#include <cmath>

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

// out[i] = x[i] * scales[i]
struct Scale {
  static constexpr int kThreads = 32;
  struct Arguments {
    const float* scales;
    float* out;
    ScaleCheck check;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t i = thread_index();
    const float scale = thread::load(a.scales + i);
    if (a.check(scale, i)) thread::store(a.out + i, scale);
  }
};

TEST(DeviceError, ABadScaleWritesNothingAndIsTold) {
  const std::pair<float, const char*> bad[] = {
      {0.0F, "0"}, {-2.5F, "-2.5"}, {INFINITY, "inf"}, {NAN, "nan"}};
  for (const auto& [scale, name] : bad) {
    test::Buffer<float> scales(std::vector<float>(32, 0.5F));
    test::Buffer<float> out(std::vector<float>(32, -1));
    scales[3] = scale;
    test::run<Scale>({.threads = 32}, {scales.data(), out.data(), ScaleCheck("a/b", "scale_q")});
    EXPECT_EQ(out[2], 0.5F);
    EXPECT_EQ(out[3], -1);
    EXPECT_EQ(take_device_error(),
              concatenate("a/b: scale ", name,
                          " at position 3 of 'scale_q' is not above 0 and finite; nothing was "
                          "written for it"));
    EXPECT_EQ(take_device_error(), std::nullopt);
  }
}

// out[i] = x[i], of a list that must not fall.
struct Ordered {
  static constexpr int kThreads = 32;
  struct Arguments {
    const float* x;
    float* out;
    OrderCheck check;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t i = thread_index();
    const float number = thread::load(a.x + i);
    if (i == 0 || a.check(thread::load(a.x + i - 1), number, i)) thread::store(a.out + i, number);
  }
};

TEST(DeviceError, ANumberOutOfOrderIsToldWithTheOneBeforeIt) {
  const std::pair<float, const char*> bad[] = {{0.25F, "0.25"}, {NAN, "nan"}};
  for (const auto& [number, name] : bad) {
    test::Buffer<float> x(std::vector<float>(32, 0.5F));
    test::Buffer<float> out(std::vector<float>(32, -1));
    x[31] = number;
    test::run<Ordered>({.threads = 32}, {x.data(), out.data(), OrderCheck("a/b", "edges")});
    EXPECT_EQ(out[30], 0.5F);
    EXPECT_EQ(out[31], -1);
    EXPECT_EQ(take_device_error(),
              concatenate("a/b: ", name,
                          " at position 31 of 'edges' is out of order after 0.5; nothing was "
                          "written for it"));
  }
}

}  // namespace
}  // namespace ws
