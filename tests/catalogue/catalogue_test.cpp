#include "catalogue/catalogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "harness/embedded.hpp"
#include "harness/instance.hpp"

namespace ws {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

// ---- Names ------------------------------------------------------------------------------------

TEST(Resolve, FindsFamiliesOperationsAndRungs) {
  const Address family = resolve("elementwise");
  EXPECT_EQ(family.family->name, "elementwise");
  EXPECT_EQ(family.operation, nullptr);
  const Address operation = resolve("log_softmax");
  EXPECT_EQ(operation.family->name, "softmax");
  EXPECT_EQ(operation.operation->name, "log_softmax");
  EXPECT_EQ(operation.rung, nullptr);
  const Address rung = resolve("log_softmax/online");
  EXPECT_EQ(rung.operation->name, "log_softmax");
  EXPECT_EQ(rung.rung->name, "online");
  // Of a family that is no operation: all its operations.
  EXPECT_EQ(resolve("elementwise/scalar").operation, nullptr);
}

TEST(Resolve, EveryRungAndSeedByItsName) {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      EXPECT_EQ(&family_of(operation), family);
      EXPECT_EQ(&operation_named(operation.name), &operation);
      for (const Rung& rung : family->rungs) {
        const Address address = resolve(concatenate(operation.name, "/", rung.name));
        EXPECT_EQ(address.operation, &operation);
        EXPECT_EQ(address.rung, &rung);
        for (const std::string& seed : seeds_of(rung, operation)) {
          const Address answer = resolve(seed);
          EXPECT_EQ(answer.rung, &rung) << seed;
          EXPECT_EQ(answer.operation, &operation) << seed;
        }
      }
    }
  }
}

TEST(Resolve, SuggestsNearNames) {
  EXPECT_THAT(error_of([] { resolve("softmx"); }),
              AllOf(HasSubstr("'softmx'"), HasSubstr("did you mean 'softmax'")));
  EXPECT_THAT(error_of([] { resolve("softmax/warp_per_rwo"); }),
              HasSubstr("'softmax/warp_per_row'"));
  EXPECT_THAT(error_of([] { resolve("xyzzy_plugh_42"); }), HasSubstr("warpsmith list"));
  EXPECT_THAT(error_of([] { operation_named("gellu"); }), HasSubstr("'gelu'"));
}

TEST(Names, NoneStandsForTwoThings) {
  std::set<std::string> names;
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      EXPECT_TRUE(names.insert(std::string(operation.name)).second) << operation.name;
      for (const Rung& rung : family->rungs) {
        for (const std::string& seed : seeds_of(rung, operation)) {
          EXPECT_TRUE(names.insert(seed).second) << seed << " is claimed twice";
        }
      }
    }
  }
}

// ---- Seeds ------------------------------------------------------------------------------------

struct SeedLine {
  std::string family;
  std::string name;
  std::string dtypes;
};

std::vector<SeedLine> seed_lines() {
  std::vector<SeedLine> lines;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path != "catalogue/seed-kernels.tsv") continue;
    std::istringstream text{std::string(file.text)};
    std::string line;
    std::getline(text, line);  // titles
    while (std::getline(text, line)) {
      std::istringstream cells(line);
      SeedLine& seed = lines.emplace_back();
      std::getline(cells, seed.family, '\t');
      std::getline(cells, seed.name, '\t');
      std::getline(cells, seed.dtypes, '\t');
      seed.name = seed.name.substr(0, seed.name.find(" ("));
    }
  }
  return lines;
}

TEST(Seeds, TheListIsInsideTheProgram) { EXPECT_THAT(seed_lines(), SizeIs(::testing::Ge(300U))); }

TEST(Seeds, ElementwiseAndSoftmaxResolve) {
  // A mask and a scale inside the call: a family of its own to come.
  const std::set<std::string> later = {
      "fused_scale_mask_softmax", "fused_scale_mask_softmax_backward",
      "fastertransformer_softmax_v1", "fastertransformer_softmax_v2"};
  for (const SeedLine& seed : seed_lines()) {
    const bool due = seed.family.starts_with("elementwise/") || seed.family == "softmax";
    if (!due || later.contains(seed.name)) continue;
    try {
      const Address address = resolve(seed.name);
      ASSERT_NE(address.rung, nullptr) << seed.name;
      std::istringstream dtypes(seed.dtypes);
      for (std::string dtype; std::getline(dtypes, dtype, ',');) {
        EXPECT_TRUE(address.rung->dtypes.has(dtype_from(dtype))) << seed.name << " " << dtype;
        EXPECT_TRUE(address.dtypes.empty() || address.dtypes.has(dtype_from(dtype)))
            << seed.name << " " << dtype;
      }
    } catch (const InvalidArgument& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Seeds, RungsClaimOnlySeedsOfTheList) {
  std::set<std::string> known;
  for (const SeedLine& seed : seed_lines()) known.insert(seed.name);
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      for (const Rung& rung : family->rungs) {
        for (const std::string& seed : seeds_of(rung, operation)) {
          EXPECT_TRUE(known.contains(seed)) << family->name << "/" << rung.name << ": " << seed;
        }
      }
    }
  }
}

// ---- Calls ------------------------------------------------------------------------------------

Problem softmax_problem() {
  Problem problem;
  problem.operation = &operation_named("softmax");
  problem.tensor_count = 1;
  problem.tensor(0) = Tensor::dense(DType::kF16, {4, 8});
  return problem;
}

TEST(Check, InfersOutputs) {
  Problem problem = softmax_problem();
  check(problem);
  EXPECT_EQ(problem.tensor_count, 2);
  EXPECT_EQ(problem.tensor(1).describe(), "f16 [4, 8]");
  EXPECT_THAT(problem.inputs(), SizeIs(1));
  EXPECT_THAT(problem.outputs(), SizeIs(1));
  EXPECT_EQ(problem.describe(), "softmax f16 [4, 8]");
}

TEST(Check, ComparesOutputsThatTheCallerBrings) {
  std::array<std::byte, 256> memory{};
  Problem problem = softmax_problem();
  problem.tensor_count = 2;
  problem.tensor(1) = Tensor::dense(DType::kF16, {4, 8});
  problem.tensor(1).strides[0] = 9;
  problem.tensor(1).data = memory.data();
  check(problem);
  EXPECT_EQ(problem.tensor(1).strides[0], 9) << "the caller's layout stays";

  problem.tensor(1).shape[1] = 7;
  EXPECT_THAT(error_of([&] { check(problem); }), AllOf(HasSubstr("[4, 7]"), HasSubstr("[4, 8]")));
  problem.tensor(1) = Tensor::dense(DType::kF32, {4, 8});
  problem.tensor(1).data = memory.data();
  EXPECT_THAT(error_of([&] { check(problem); }), AllOf(HasSubstr("f32"), HasSubstr("f16 [4, 8]")));
  problem.tensor(1) = Tensor::dense(DType::kF16, {4, 8});
  problem.tensor(1).data = memory.data();
  problem.tensor(1).strides[0] = 0;
  EXPECT_THAT(error_of([&] { check(problem); }), HasSubstr("share one address"));
}

TEST(Check, NamesWhatIsWrong) {
  Problem none;
  EXPECT_THAT(error_of([&] { check(none); }), HasSubstr("without an operation"));
  Problem gemm;
  gemm.operation = &operation_named("gemm");
  gemm.tensor_count = 1;
  EXPECT_THAT(error_of([&] { check(gemm); }),
              AllOf(HasSubstr("gemm takes 2 inputs"), HasSubstr("got 1")));
  gemm.tensor_count = 2;
  gemm.tensor(0) = Tensor::dense(DType::kF16, {4, 8});
  gemm.tensor(1) = Tensor::dense(DType::kF16, {9, 4});
  EXPECT_THAT(error_of([&] { check(gemm); }), AllOf(HasSubstr("8"), HasSubstr("9")));
  gemm.attributes[0] = 7;
  EXPECT_THAT(error_of([&] { check(gemm); }), HasSubstr("'layout' cannot be 7"));
}

TEST(Supports, TellsDTypeAndArchitecture) {
  constexpr std::string_view kNoF16 = "takes no f16";
  Rung rung{.name = "narrow", .idea = "none", .dtypes = {DType::kF32}, .run = nullptr};
  Problem problem = softmax_problem();
  EXPECT_EQ(supports(rung, problem, 90), kNoF16);
  rung.dtypes = kHalves;
  EXPECT_THAT(supports(rung, problem, 90), IsEmpty());
  rung.arch = Arch::kSm90a;
  EXPECT_EQ(supports(rung, problem, 100), "needs sm_90a, the device is sm_100");
  EXPECT_THAT(supports(rung, problem, 90), IsEmpty());
}

TEST(Run, ReturnsAtOnceWhereThereIsNoOutput) {
  Problem problem = softmax_problem();
  problem.tensor(0) = Tensor::dense(DType::kF16, {0, 8});
  check(problem);
  const Rung rung{.name = "never",
                  .idea = "none",
                  .dtypes = kFloats,
                  .run = [](const Problem&, const Context&) { FAIL(); }};
  run(rung, problem, {});
}

TEST(Run, AddsRungAndProblemToErrors) {
  Problem problem = softmax_problem();
  check(problem);
  const Rung rung{.name = "broken",
                  .idea = "none",
                  .dtypes = kFloats,
                  .run = [](const Problem&, const Context&) { throw Error("it broke"); }};
  std::array<std::byte, 64> memory{};
  EXPECT_THAT(error_of([&] { run(rung, problem, {}); }), HasSubstr("has no data"));
  problem.tensor(0).data = memory.data();
  problem.tensor(1).data = memory.data();
  try {
    run(rung, problem, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "it broke");
    EXPECT_EQ(error.context().rung, "softmax/broken");
    EXPECT_EQ(error.context().problem, "softmax f16 [4, 8]");
    EXPECT_THAT(error.what(), HasSubstr("softmax/broken"));
  }
}

// ---- Tables -----------------------------------------------------------------------------------

constexpr Rung kGood{
    .name = "a", .idea = "one line", .dtypes = kFloats, .run = [](const Problem&, const Context&) {
    }};

template <class Change>
constexpr bool is_well_formed_after(Change change) {
  std::array<Rung, 2> rungs = {kGood, kGood};
  rungs[1].name = "b";
  change(rungs);
  return well_formed(std::span<const Rung>(rungs));
}

TEST(WellFormed, RefusesBrokenTables) {
  using Rungs = std::array<Rung, 2>;
  static_assert(is_well_formed_after([](Rungs&) {}));
  static_assert(!is_well_formed_after([](Rungs& r) { r[1].name = "a"; }));
  static_assert(!is_well_formed_after([](Rungs& r) { r[1].name = "Warp"; }));
  static_assert(!is_well_formed_after([](Rungs& r) { r[1].name = "warp-row"; }));
  static_assert(!is_well_formed_after([](Rungs& r) { r[1].idea = ""; }));
  static_assert(!is_well_formed_after([](Rungs& r) { r[1].idea = "two\nlines"; }));
  static_assert(!is_well_formed_after([](Rungs& r) { r[1].dtypes = {}; }));
  static_assert(!is_well_formed_after([](Rungs& r) { r[1].run = nullptr; }));
}

// In each family some rung takes every valid problem, and best() finds it.
TEST(Families, TakeEveryProblemOfTheirLists) {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      for (const std::span<const Case> cases :
           {operation.smoke, operation.verify, operation.bench}) {
        for (const Case& chosen : cases) {
          for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
            if (!operation.dtypes.has(dtype)) continue;
            const Problem problem = harness::make_problem(operation, chosen, dtype);
            for (const int capability : {80, 90, 100}) {
              const Rung& rung = best(problem, capability);
              EXPECT_THAT(supports(rung, problem, capability), IsEmpty())
                  << rung.name << " was chosen for " << problem.describe();
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ws
