// Random cases are problems that a list lacks, and no others.
#include "harness/random_cases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/verify.hpp"
#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

namespace ws::harness {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

constexpr Case kWholeVectors[] = {{.extents = {1, 64}}, {.extents = {4, 1024}, .padding = 4}};

TEST(RandomCases, AreBetweenThoseOfTheList) {
  const std::vector<Case> cases = random_cases(wrong::center(), DType::kF32, kWholeVectors, 200, 1);
  ASSERT_THAT(cases, SizeIs(200));
  int padded = 0;
  for (const Case& drawn : cases) {
    EXPECT_THAT(drawn.extents[0], AllOf(Ge(1), Le(4)));
    EXPECT_THAT(drawn.extents[1], AllOf(Ge(64), Le(1024)));
    EXPECT_EQ(std::ranges::count(cases, drawn), 1);
    EXPECT_EQ(std::ranges::count(kWholeVectors, drawn), 0);
    padded += drawn.padding == 4 ? 1 : 0;
  }
  EXPECT_THAT(padded, AllOf(Ge(40), Le(160)));
}

TEST(RandomCases, AreTheSameForASeed) {
  const auto drawn = [](uint64_t seed) {
    return random_cases(wrong::center(), DType::kF32, kWholeVectors, 20, seed);
  };
  EXPECT_EQ(drawn(7), drawn(7));
  EXPECT_NE(drawn(7), drawn(8));
}

TEST(RandomCases, CostNoMoreThanTheDearest) {
  constexpr Case kLong[] = {{.extents = {1, 1000}}, {.extents = {1000, 1}}};
  for (const Case& drawn : random_cases(wrong::center(), DType::kF32, kLong, 50, 1)) {
    EXPECT_LE(drawn.extents[0] * drawn.extents[1], 1000);
  }
}

TEST(RandomCases, AreFewerWhereThereAreNoOthers) {
  constexpr Case kOne[] = {{.extents = {2, 8}}};
  EXPECT_THAT(random_cases(wrong::center(), DType::kF32, kOne, 5, 1), IsEmpty());
  EXPECT_THAT(random_cases(wrong::center(), DType::kF32, {}, 5, 1), IsEmpty());
  constexpr Case kTwo[] = {{.extents = {2, 8}}, {.extents = {2, 10}}};
  EXPECT_THAT(random_cases(wrong::center(), DType::kF32, kTwo, 5, 1), SizeIs(1)) << "2 x 9";
}

// A tail that no case of a list has is what they are for.
TEST(RandomCases, FindWhatTheListDoesNot) {
  const auto passes = [](const Case& chosen) {
    Instance instance(wrong::center(), chosen, DType::kF32, 1);
    return verify(wrong::rung("dropped_tail"), instance).verdict == Verdict::kPassed;
  };
  EXPECT_TRUE(std::ranges::all_of(kWholeVectors, passes));
  EXPECT_FALSE(std::ranges::all_of(random_cases(wrong::center(), DType::kF32, kWholeVectors, 10, 1),
                                   passes));
}

// Whatever an operation's extents and attributes mean.
TEST(RandomCases, AreProblemsOfEveryOperation) {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      const std::vector<Case> cases =
          random_cases(operation,
                       *std::ranges::find_if(
                           kAllDTypes, [&](DType dtype) { return operation.dtypes.has(dtype); }),
                       operation.cases().verify, 3, 1);
      EXPECT_THAT(cases, SizeIs(3)) << operation.name;
    }
  }
}

}  // namespace
}  // namespace ws::harness
