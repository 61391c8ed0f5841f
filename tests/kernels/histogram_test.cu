// What `verify` cannot ask of histograms: values that are no bins, edges that fall, counters of 16
// bits that fill, divisions by a reciprocal, and which rung a call gets.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "catalogue/catalogue.hpp"
#include "kernels/histogram/binning.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::histogram {
namespace {

using testing::HasSubstr;

// A call with memory, NaN or -7 around its output; the workspace is zero, and must be afterwards.
template <class T, class Out>
class Instance {
 public:
  Instance(std::string_view operation, const std::vector<T>& x,
           std::array<Value, kMaxAttributes> attributes, const std::vector<float>& second = {})
      : x_(x), second_(second.empty() ? std::vector<float>(1) : second) {
    problem_.operation = &operation_named(operation);
    problem_.attributes = attributes;
    problem_.tensor(0) = Tensor::dense(kDType<T>, {static_cast<int64_t>(x.size())});
    problem_.tensor(0).data = x_.data();
    if (!second.empty()) {
      problem_.tensor(1) = Tensor::dense(DType::kF32, {static_cast<int64_t>(second.size())});
      problem_.tensor(1).data = second_.data();
    }
    problem_ = AnyCall(problem_).problem();
    Tensor& out = output();
    out_ = std::make_unique<test::Buffer<Out>>(static_cast<size_t>(out.extent(0)) + 2 * kAround);
    out.data = out_->data() + kAround;
  }

  AnyCall call() const { return AnyCall(problem_); }
  Tensor& output() { return problem_.tensor(problem_.operation->parameters.size() == 3 ? 2 : 1); }
  std::string best_rung() const { return std::string(best(call(), 90).name); }

  // Throws what the device has found, after the call in the emulator, in a later one on a GPU.
  void start(const Rung& rung) {
    std::ranges::fill(*out_, Out(-7));
    const AnyCall call(problem_);
    const Workspace asked = workspace_of(rung, call);
    memory_ = std::make_unique<test::Buffer<std::byte>>(asked.bytes + 1);
    zeroed_ = asked.zeroed;
    ws::run(rung, call, {.workspace = memory_->data()});
  }
  std::vector<Out> result() {
    runtime::synchronize_device();
    for (size_t i = 0; i < zeroed_; ++i) EXPECT_EQ((*memory_)[i], std::byte{0}) << i;
    for (size_t i = 0; i < kAround; ++i) {
      EXPECT_EQ((*out_)[i], Out(-7)) << i;
      EXPECT_EQ((*out_)[out_->size() - 1 - i], Out(-7)) << i;
    }
    return {out_->begin() + kAround, out_->end() - kAround};
  }
  std::vector<Out> run(const Rung& rung) {
    start(rung);
    return result();
  }
  std::string error_of(const Rung& rung) {
    try {
      start(rung);
      runtime::synchronize_device();
      raise_device_error();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "none";
  }
  // f(rung) for each that takes the call.
  template <class F>
  void for_rungs(const F& f) {
    int takers = 0;
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call(), runtime::capability())) continue;
      SCOPED_TRACE(rung->name);
      ++takers;
      f(*rung);
    }
    EXPECT_GE(takers, 1);
  }

 private:
  static constexpr size_t kAround = 64;

  test::Buffer<T> x_;
  test::Buffer<float> second_;
  Problem problem_;
  std::unique_ptr<test::Buffer<Out>> out_;
  std::unique_ptr<test::Buffer<std::byte>> memory_;
  size_t zeroed_ = 0;
};

std::array<Value, kMaxAttributes> with_bins(int64_t bins) { return {bins}; }

template <class T>
void expect_told(const std::vector<T>& x, int64_t bins, size_t wrong, int64_t value) {
  Instance<T, int64_t> instance("count_bins", x, with_bins(bins));
  std::vector<int64_t> expected(static_cast<size_t>(bins));
  for (size_t i = 0; i < x.size(); ++i) {
    if (i != wrong) ++expected[static_cast<size_t>(x[i])];
  }
  instance.for_rungs([&](const Rung& rung) {
    EXPECT_THAT(instance.error_of(rung),
                HasSubstr(concatenate("count_bins/", rung.name, ": index ", value, " at position ",
                                      wrong, " of 'x' is outside [0, ", bins, ")")));
    EXPECT_EQ(instance.result(), expected);
  });
}

template <class T>
std::vector<T> values(size_t count, int64_t bins) {
  std::mt19937 engine(3);
  std::uniform_int_distribution<int> any(0, static_cast<int>(bins - 1));
  std::vector<T> x(count);
  for (T& value : x) value = static_cast<T>(any(engine));
  return x;
}

// In a whole tile, in what is left of one, and in what is in no vector.
TEST(Histogram, AValueThatIsNoBinIsToldWithItsPlace) {
  for (const size_t wrong : {size_t{5}, size_t{9000}, size_t{20002}}) {
    for (const int64_t value : {int64_t{77}, int64_t{-1}, int64_t{1} << 30}) {
      auto x = values<int32_t>(20003, 77);
      x[wrong] = static_cast<int32_t>(value);
      expect_told(x, 77, wrong, value);
    }
    for (const int64_t value : {int64_t{1} << 32, int64_t{-1} - (int64_t{1} << 33), int64_t{77}}) {
      auto x = values<int64_t>(20003, 77);
      x[wrong] = value;
      expect_told(x, 77, wrong, value);
    }
    auto x = values<uint8_t>(40003, 200);
    x[2 * wrong - 2] = 201;
    expect_told(x, 200, 2 * wrong - 2, 201);
  }
}

TEST(Histogram, AWrongValueHasNoWeight) {
  auto x = values<int32_t>(3000, 50);
  const std::vector<float> weights(x.size(), 0.5F);
  std::vector<float> expected(50);
  for (size_t i = 0; i < x.size(); ++i) {
    if (i != 1234) expected[static_cast<size_t>(x[i])] += 0.5F;  // exact
  }
  x[1234] = 50;
  Instance<int32_t, float> instance("sum_bins", x, with_bins(50), weights);
  instance.for_rungs([&](const Rung& rung) {
    EXPECT_THAT(instance.error_of(rung),
                HasSubstr("index 50 at position 1234 of 'x' is outside [0, 50)"));
    EXPECT_EQ(instance.result(), expected);
  });
}

TEST(Histogram, EdgesThatFallAreTold) {
  for (const float wrong : {0.05F, NAN}) {
    Instance<float, int64_t> instance("count_between", {0.1F, 0.2F, 0.35F}, {},
                                      {0.0F, 0.1F, wrong, 0.3F, 0.4F});
    instance.for_rungs([&](const Rung& rung) {
      EXPECT_THAT(instance.error_of(rung), HasSubstr("of 'edges' is out of order after"));
      EXPECT_EQ(instance.result(), (std::vector<int64_t>{0, 0, 0, 0}));
    });
  }
}

TEST(Histogram, InfiniteEdgesAndOneBin) {
  Instance<float, int64_t> instance("count_between", {-INFINITY, 0.0F, INFINITY, NAN}, {},
                                    {-INFINITY, INFINITY});
  instance.for_rungs(
      [&](const Rung& rung) { EXPECT_EQ(instance.run(rung), (std::vector<int64_t>{3})); });
}

// Edges at even steps, by powers, at random, in groups of equal ones and far from 0; numbers on
// edges and next to them.
TEST(Histogram, EdgesOfAllKinds) {
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> any(-1, 1);
  const auto expect_counts = [&](std::vector<float> edges) {
    std::ranges::sort(edges);
    std::vector<float> x = {NAN, INFINITY, -INFINITY, 0.0F, -0.0F};
    for (const float edge : edges) {
      for (const float number : {edge, std::nextafter(edge, -INFINITY),
                                 std::nextafter(edge, INFINITY), edge * any(engine)}) {
        x.push_back(number);
      }
    }
    const auto bins = static_cast<int64_t>(edges.size()) - 1;
    std::vector<int64_t> expected(static_cast<size_t>(bins));
    for (const float number : x) {
      if (!(number >= edges.front() && number <= edges.back())) continue;
      const auto above = std::ranges::upper_bound(edges, number) - edges.begin();
      ++expected[static_cast<size_t>(std::min<int64_t>(above, bins) - 1)];
    }
    Instance<float, int64_t> instance("count_between", x, {}, edges);
    instance.for_rungs([&](const Rung& rung) { EXPECT_EQ(instance.run(rung), expected); });
  };
  for (const int bins : {1, 2, 17, 100, 256}) {
    SCOPED_TRACE(bins);
    std::vector<std::vector<float>> all(7);
    for (int i = 0; i <= bins; ++i) {
      const auto at = static_cast<float>(i);
      all[0].push_back(at / static_cast<float>(bins) - 0.5F);
      all[1].push_back(std::ldexp(1.0F, i - 120));
      all[2].push_back(any(engine));
      all[3].push_back(std::floor(at / 5));
      all[4].push_back(16777216 + at);
      all[5].push_back(0.25F);
      all[6].push_back(i == 0 ? -INFINITY : i == bins ? INFINITY : any(engine));
    }
    for (const auto& edges : all) expect_counts(edges);
  }
}

// A value that no warp counts in registers fills its 16 bits again and again; its neighbour in the
// word must not notice.
TEST(Histogram, CountersOf16BitsCarryOver) {
#ifdef WS_EMULATED
  constexpr int64_t kCount = 300000;
#else
  constexpr int64_t kCount = 15000000;  // over 2^16 for each of many blocks
#endif
  std::vector<int32_t> x(kCount, 5);
  // Of a warp's tile two of the first three values, which are four elements apart.
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 128 == 0 || i % 128 == 4 ? 4 : 5;
  const auto fours = static_cast<int64_t>(std::ranges::count(x, 4));
  Instance<int32_t, int64_t> instance("count_bins", x, with_bins(8));
  const Rung* packed = rung_named(family_of(operation_named("count_bins")), "packed_counters");
  test::in_every_order([&] {
    EXPECT_EQ(instance.run(*packed),
              (std::vector<int64_t>{0, 0, 0, 0, fours, kCount - fours, 0, 0}));
  });
}

TEST(Histogram, BestTakesWhatFits) {
  const std::vector<int32_t> x = values<int32_t>(100, 2);
  using Counts = Instance<int32_t, int64_t>;
  EXPECT_EQ(Counts("count_bins", x, with_bins(256)).best_rung(), "streamed");
  EXPECT_EQ(Counts("count_bins", x, with_bins(65536)).best_rung(), "packed_counters");
  EXPECT_EQ(Counts("count_bins", x, with_bins(200000)).best_rung(), "any_layout");
  using Bytes = Instance<uint8_t, int64_t>;
  EXPECT_EQ(Bytes("count_bins", values<uint8_t>(100, 2), with_bins(256)).best_rung(), "bytes");
  using Numbers = Instance<float, float>;
  const std::vector<float> numbers(10, 0.5F);
  EXPECT_EQ(Numbers("histc", numbers, {int64_t{100}, 0.0, 1.0}).best_rung(), "streamed");
  EXPECT_EQ(Numbers("histc", numbers, {int64_t{100}, 0.0, 1e-25}).best_rung(), "one_comparison");
  EXPECT_EQ(Numbers("histc", numbers, {int64_t{1000}, 0.0, 1e-25}).best_rung(), "any_layout");
  using Between = Instance<float, int64_t>;
  EXPECT_EQ(Between("count_between", numbers, {}, {0.0F, 0.5F, 1.0F}).best_rung(),
            "one_comparison");
}

TEST(Histogram, BadCallsAreRefusedWithTheirNumbers) {
  const std::vector<float> x(4);
  using Numbers = Instance<float, float>;
  const auto refused = [&](std::array<Value, kMaxAttributes> attributes) {
    try {
      Numbers("histc", x, attributes);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused({int64_t{0}, 0.0, 1.0}), HasSubstr("bins is 0"));
  EXPECT_THAT(refused({int64_t{3}, 1.0, 1.0}), HasSubstr("min is 1, max is 1"));
  EXPECT_THAT(refused({int64_t{3}, 0.0, static_cast<double>(INFINITY)}), HasSubstr("max is inf"));
  EXPECT_THAT(refused({int64_t{300}, 0.0, 3e38}), HasSubstr("overflows f32"));
}

// floor(t / width) by a reciprocal is that by a division, also where t lies next to a multiple.
struct QuotientKernel {
  static constexpr int kThreads = 128;
  static constexpr int kEach = 2000;
  struct Arguments {
    uint32_t* wrong;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto thread = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    uint32_t state = 2654435761U * (thread + 1);
    const auto random = [&] {
      state ^= state << 13;
      state ^= state >> 17;
      state ^= state << 5;
      return state;
    };
    uint32_t wrong = 0;
    for (int i = 0; i < kEach; ++i) {
      // From 2^-60 to 2^60, any mantissa.
      const uint32_t exponent = 127 - 59 + random() % 119;
      const uint32_t bits = exponent << 23 | random() >> 9;
      float width = 0;
      memcpy(&width, &bits, sizeof(width));
      const Quotient quotient(width);
      const auto multiple = static_cast<float>(random() >> (8 + random() % 20));
      float t = multiple * width;  // rounded: on either side
      uint32_t near = 0;
      memcpy(&near, &t, sizeof(near));
      near += random() % 5;
      near -= near > 2 ? 2 : 0;
      memcpy(&t, &near, sizeof(t));
      wrong += floorf(quotient(t)) == floorf(t / width) ? 0 : 1;
    }
    thread::store(a.wrong + thread, wrong);
  }
};

TEST(Histogram, AReciprocalDividesExactly) {
  constexpr int kBlocks = 8;
  test::Buffer<uint32_t> wrong(size_t{kBlocks} * QuotientKernel::kThreads);
  test::run<QuotientKernel>({.blocks = kBlocks, .threads = QuotientKernel::kThreads},
                            {wrong.data()});
  for (const uint32_t count : wrong) ASSERT_EQ(count, 0U);
}

}  // namespace
}  // namespace ws::histogram
