// What `verify` cannot ask of the grouped products: offsets that are wrong, numbers of a
// neighbouring group that must not be seen, every tile, and which rung a call gets.
#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <random>

#include "catalogue/catalogue.hpp"
#include "kernels/grouped_gemm/05_wgmma.cuh"
#include "kernels/grouped_gemm/06_wgmma_weight.cuh"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::grouped_gemm {
namespace {

using testing::HasSubstr;

constexpr int kLayouts[] = {0, kATransposed, kBTransposed, kATransposed | kBTransposed};

const Operation& by_rows() { return operation_named("grouped_gemm"); }
const Operation& by_depth() { return operation_named("grouped_gemm_weight"); }

// A call with memory: inputs random, the output NaN, and NaN around each of them.
template <class T>
class Instance {
 public:
  // Extents as of the operation's cases; `ends` where groups end.
  Instance(const Operation& operation, const std::array<int64_t, 4>& extents,
           const std::vector<int32_t>& ends, int views = 0)
      : ends_(ends.empty() ? std::vector<int32_t>(1) : ends) {
    const Case chosen{.extents = {extents[0], extents[1], extents[2], extents[3], views}};
    problem_ = AnyCall(make_problem(operation, chosen, kDType<T>)).problem();
    std::mt19937 engine(5);
    std::normal_distribution<float> normal;
    for (const int i : {0, 1, 3}) {
      Tensor& tensor = problem_.tensor(i);
      buffers_.push_back(
          std::make_unique<test::Buffer<T>>(static_cast<size_t>(tensor.elements()) + 2 * kAround));
      std::ranges::fill(*buffers_.back(), T(NAN));
      tensor.data = buffers_.back()->data() + kAround;
      for (int64_t at = 0; i < 3 && at < tensor.elements(); ++at) {
        tensor.as<T>()[offset_of(tensor, at)] = T(normal(engine));
      }
    }
    problem_.tensor(2).data = ends_.data();
  }

  Problem& problem() { return problem_; }
  AnyCall call() const { return AnyCall(problem_); }
  std::string best_rung(int capability) const { return std::string(best(call(), capability).name); }

  void run(const Rung& rung) {
    std::ranges::fill(*buffers_.back(), T(NAN));
    test::Buffer<std::byte> workspace(workspace_of(rung, call()).bytes + 256);
    void* place = workspace.data();
    size_t space = workspace.size();
    std::align(256, 1, place, space);
    ws::run(rung, call(), {.workspace = place});
    runtime::synchronize_device();
  }
  // Every rung that takes the call.
  void expect_right() {
    int takers = 0;
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call(), runtime::capability())) continue;
      SCOPED_TRACE(rung->name);
      ++takers;
      run(*rung);
      compare();
    }
    EXPECT_GE(takers, 1);
  }
  void compare() {
    const Tensor& out = problem_.tensor(3);
    std::vector<double> expected(static_cast<size_t>(out.elements()));
    std::array<double*, kMaxTensors> targets{};
    targets[3] = expected.data();
    const Parameter& output = problem_.operation->parameters[3];
    problem_.operation->reference(problem_, {0, problem_.operation->items(problem_, output)},
                                  targets);
    const Tolerance allowed = problem_.operation->tolerance(problem_, output);
    for (int64_t i = 0; i < out.elements(); ++i) {
      const double want = expected[static_cast<size_t>(i)];
      if (!std::isfinite(want)) continue;  // of a group that has an infinity
      ASSERT_LE(std::abs(element(out, i) - want), allowed.worst * (std::abs(want) + allowed.floor))
          << "element " << i;
    }
    expect_margins();
  }
  void expect_margins() {
    test::Buffer<T>& out = *buffers_.back();
    for (size_t i = 0; i < kAround; ++i) {
      ASSERT_TRUE(std::isnan(to_float(out[i]))) << i;
      ASSERT_TRUE(std::isnan(to_float(out[out.size() - 1 - i]))) << i;
    }
  }

 private:
  static constexpr size_t kAround = 256;
  Problem problem_;
  std::vector<std::unique_ptr<test::Buffer<T>>> buffers_;  // a, b, out
  test::Buffer<int32_t> ends_;
};

TEST(GroupedGemm, ABadOffsetIsToldAndWritesNothingElsewhere) {
  struct Bad {
    std::vector<int32_t> ends;
    const char* words;
  };
  const Bad all[] = {
      {{40, 30, 50, 60}, "index 30 at position 1 of 'offs' is outside [40, 71)"},
      {{-8, 30, 50, 60}, "index -8 at position 0 of 'offs' is outside [0, 71)"},
      {{10, 30, 71, 70}, "index 71 at position 2 of 'offs' is outside [30, 71)"},
      {{10, 30, 50, 2000000000}, "index 2000000000 at position 3 of 'offs' is outside [50, 71)"},
  };
  for (const Bad& bad : all) {
    for (const Operation* operation : {&by_rows(), &by_depth()}) {
      for (const int64_t odd : {0, 1}) {  // rows that are copied as they lie, and realigned
        const std::array<int64_t, 4> extents = operation == &by_rows()
                                                   ? std::array<int64_t, 4>{4, 70, 24, 16 + odd}
                                                   : std::array<int64_t, 4>{4, 16 + odd, 24, 70};
        Instance<half> instance(*operation, extents, bad.ends,
                                operation == &by_rows() ? 0 : int{kATransposed});
        for (const Rung* rung : family_of(*operation).rungs) {
          if (!takes(*rung, instance.call(), runtime::capability())) continue;
          SCOPED_TRACE(concatenate(operation->name, "/", rung->name));
          std::string told;
          try {
            instance.run(*rung);
            if (const std::optional<std::string> text = take_device_error()) told = *text;
          } catch (const InvalidArgument& error) {  // in the emulator by the call itself
            told = error.what();
          }
          EXPECT_THAT(told, HasSubstr(bad.words));
          EXPECT_THAT(told, HasSubstr(concatenate(operation->name, "/", rung->name)));
          instance.expect_margins();
        }
      }
    }
  }
}

// More groups than a warp has lanes, most of them empty; the last of them exactly at a multiple.
TEST(GroupedGemm, ManyGroups) {
  for (const int64_t groups : {31, 32, 33, 64, 100}) {
    std::vector<int32_t> ends(static_cast<size_t>(groups));
    for (size_t g = 0; g < ends.size(); ++g) ends[g] = static_cast<int32_t>(g / 7 * 9);
    Instance<bf16>(by_rows(), {groups, 140, 8, 8}, ends, kBTransposed).expect_right();
    Instance<float>(by_rows(), {groups, 140, 8, 8}, ends).expect_right();
    // Of a few elements along the rows of an operand.
    Instance<half>(by_rows(), {groups, 144, 8, 8}, ends, kATransposed).expect_right();
    Instance<half>(by_depth(), {groups, 8, 8, 144}, ends).expect_right();
    Instance<half>(by_depth(), {groups, 8, 8, 144}, ends, kBTransposed).expect_right();
  }
}

// Each tile, chosen by how many SMs there are: clusters that hang over a group's end, a walk that
// goes from group to group within a block, groups that end within 16 rows.
TEST(GroupedWgmma, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const auto& [multiprocessors, tile_n] : {std::pair{2, 256}, {1000, 128}}) {
    for (const int views : kLayouts) {
      Instance<half> instance(by_rows(), {3, 768, 264, 72}, {259, 263, 700}, views);
      const RowsCall call = GroupedGemm::call(instance.problem());
      with_policy(call, multiprocessors,
                  [&]<class Policy>() { EXPECT_EQ(Policy::kTileN, tile_n); });
      run_rows<half>(call, "wgmma", multiprocessors, nullptr);
      runtime::synchronize_device();
      instance.compare();
    }
  }
}

TEST(GroupedWgmma, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    for (const int views : {0, kATransposed | kBTransposed}) {
      Instance<bf16> instance(by_rows(), {4, 152, 72, 72}, {20, 20, 97, 140}, views);
      run_rows<bf16>(GroupedGemm::call(instance.problem()), "wgmma", 4, nullptr);
      runtime::synchronize_device();
      instance.compare();
    }
  });
}

TEST(GroupedWgmmaWeight, EveryTile) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const auto& [multiprocessors, tile_n] : {std::pair{2, 256}, {1000, 128}}) {
    for (const int views : kLayouts) {
      Instance<half> instance(by_depth(), {4, 200, 248, 200}, {70, 70, 71, 190}, views);
      const DepthCall call = GroupedGemmWeight::call(instance.problem());
      with_policy(call, multiprocessors,
                  [&]<class Policy>() { EXPECT_EQ(Policy::kTileN, tile_n); });
      run_depth<half>(call, "wgmma_weight", multiprocessors, nullptr);
      runtime::synchronize_device();
      instance.compare();
    }
  }
}

TEST(GroupedWgmmaWeight, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    for (const int views : {int{kATransposed}, int{kBTransposed}}) {
      Instance<bf16> instance(by_depth(), {4, 136, 72, 152}, {20, 20, 97, 140}, views);
      run_depth<bf16>(GroupedGemmWeight::call(instance.problem()), "wgmma_weight", 4, nullptr);
      runtime::synchronize_device();
      instance.compare();
    }
  });
}

TEST(GroupedGemm, AWeightThatAllGroupsShare) {
  for (const int views : kLayouts) {
    for (const int64_t k : {64, 65}) {  // as it lies, and copied
      Instance<half> instance(by_rows(), {4, 256, 136, k}, {64, 70, 192, 256}, views);
      instance.problem().tensor(1).strides[0] = 0;
      instance.expect_right();
    }
  }
}

// 0 times infinity is NaN: what a slice of K reads of the next group must be zero on both sides,
// whole chunks of 16 bytes of a row along K and parts of one.
TEST(GroupedGemmWeight, InfinitiesStayInTheirGroup) {
  for (const int views : kLayouts) {
    for (const int side : {0, 1}) {
      for (const int end : {32, 35}) {
        for (const int64_t depth : {96, 97}) {  // rows that are copied as they lie, and realigned
          // One at a time, before a group and behind it: what is not finite of a result is not
          // compared.
          for (const int64_t t : {int64_t{end - 1}, int64_t{end}, int64_t{40}, int64_t{90}}) {
            Instance<half> instance(by_depth(), {3, 16, 24, depth}, {end, 40, 90}, views);
            Tensor tensor = instance.problem().tensor(side);
            const int64_t along = side == 0 ? tensor.strides[1] : tensor.strides[0];
            tensor.as<half>()[t * along] = half(INFINITY);
            instance.expect_right();
          }
        }
      }
    }
  }
}

TEST(GroupedGemm, BestIsTheFastestThatTakesTheCall) {
  const std::vector<int32_t> ends = {8, 16};
  for (const int views : kLayouts) {
    EXPECT_EQ(Instance<half>(by_rows(), {2, 16, 8, 8}, ends, views).best_rung(90), "wgmma");
    EXPECT_EQ(Instance<float>(by_rows(), {2, 16, 8, 8}, ends, views).best_rung(90), "warp_tile");
    EXPECT_EQ(Instance<bf16>(by_depth(), {2, 8, 8, 16}, ends, views).best_rung(90), "wgmma_weight");
    EXPECT_EQ(Instance<float>(by_depth(), {2, 8, 8, 16}, ends, views).best_rung(90), "warp_tile");
    // Many rows that start anywhere.
    EXPECT_EQ(Instance<half>(by_rows(), {2, 517, 517, 517}, ends, views).best_rung(90),
              "realigned");
    EXPECT_EQ(Instance<half>(by_depth(), {2, 517, 517, 517}, ends, views).best_rung(90),
              "realigned");
  }
  // Rows of the output alone.
  EXPECT_EQ(Instance<half>(by_rows(), {2, 16, 7, 8}, ends, kBTransposed).best_rung(90), "wgmma");
  EXPECT_EQ(Instance<half>(by_rows(), {2, 16, 8, 8}, ends).best_rung(80), "mma_pipeline");
  EXPECT_EQ(Instance<half>(by_rows(), {2, 16, 7, 9}, ends).best_rung(90), "mma_pipeline");
  // What mma_pipeline does not take.
  EXPECT_EQ(Instance<half>(by_rows(), {2, 17, 7, 9}, ends, kATransposed).best_rung(90),
            "realigned");
}

TEST(GroupedGemm, ShapesMustFit) {
  const auto words = [](const Operation& operation, auto&& change) -> std::string {
    Problem problem = make_problem(operation, {.extents = {2, 8, 8, 8}}, DType::kF16);
    change(problem);
    problem.tensor(3) = {};
    try {
      AnyCall{problem};
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(words(by_rows(), [](Problem& p) { p.tensor(1).shape[1] = 7; }),
              HasSubstr("takes one K, not 8 and 7"));
  EXPECT_THAT(words(by_rows(), [](Problem& p) { p.tensor(2).shape[0] = 3; }),
              HasSubstr("an offset for each of the 2 matrices"));
  EXPECT_THAT(words(by_rows(), [](Problem& p) { p.tensor(2).dtype = DType::kI64; }),
              HasSubstr("i32 offsets"));
  EXPECT_THAT(words(by_rows(), [](Problem& p) { p.tensor(1).dtype = DType::kBf16; }),
              HasSubstr("one dtype"));
  EXPECT_THAT(words(by_depth(), [](Problem& p) { p.tensor(1).shape[0] = 7; }),
              HasSubstr("takes one T, not 8 and 7"));
  EXPECT_THAT(words(by_depth(), [](Problem& p) { p.tensor(1).rank = 1; }),
              HasSubstr("takes two matrices"));
}

}  // namespace
}  // namespace ws::grouped_gemm
