// What a user writes, as rungs, dtypes and problems.
#include "harness/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/emulated_case.hpp"
#include "harness/ladder.hpp"
#include "harness/limits.hpp"
#include "harness/seeds.hpp"
#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

namespace ws::harness {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(Selection, ShapesStandInForTheCases) {
  const std::vector<Case> standard = {{.extents = {2, 8}}, {.extents = {3, 8}}};
  Selection selection;
  EXPECT_THAT(selection.of(wrong::center(), standard), SizeIs(2));
  selection.first_case = true;
  const std::vector<Case> first = selection.of(wrong::center(), standard);
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].extents[0], 2);
  selection.shapes = {{5, 6}, {7, 8}};
  selection.offset = 1;
  const std::vector<Case> shapes = selection.of(wrong::center(), standard);
  ASSERT_THAT(shapes, SizeIs(2)) << "all of those that were asked for";
  EXPECT_EQ(shapes[1].extents[1], 8);
  EXPECT_EQ(shapes[1].offset, 1);
}

TEST(Selection, ProblemsAreThoseThatATableCallsSo) {
  Selection selection;
  selection.names = {"relu/scalar"};
  selection.dtypes = {"f32"};
  selection.shapes = {{1, 64}, {2, 64}, {1, 32}};
  const auto of_parts = [&](std::vector<std::string> parts) {
    selection.problems = std::move(parts);
    std::vector<std::string> ran;
    for (const Verification& result : verify_all(selection)) ran.push_back(result.problem);
    return ran;
  };
  EXPECT_THAT(of_parts({}), SizeIs(3));
  EXPECT_THAT(of_parts({"64]"}), ElementsAre("relu f32 [1, 64]", "relu f32 [2, 64]"));
  EXPECT_THAT(of_parts({"[1, 32]", "f32 [2"}), ElementsAre("relu f32 [2, 64]", "relu f32 [1, 32]"));
  try {
    of_parts({"[3", "f16"});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("or no problem is called '[3' or 'f16'"));
  }
}

TEST(Selection, ProgressIsTheShareOfWhatIsDone) {
  Selection selection;
  selection.names = {"relu"};
  selection.dtypes = {"f32"};
  selection.shapes = {{1, 64}, {1, 64}};
  std::vector<double> shares;
  const auto results =
      verify_all(selection, [&](const std::string&, double share) { shares.push_back(share); });
  ASSERT_THAT(shares, SizeIs(results.size()));
  ASSERT_THAT(shares, SizeIs(::testing::Ge(4U)));
  for (size_t i = 0; i < shares.size(); ++i) {
    EXPECT_NEAR(shares[i], static_cast<double>(i) / static_cast<double>(shares.size()), 1e-9);
  }
}

TEST(Selection, OfNothingSaysWhy) {
  const auto error_of = [](const Selection& selection) -> std::string {
    try {
      verify_all(selection);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  Selection selection;
  selection.names = {"gemm"};
  selection.dtypes = {"i64"};
  EXPECT_THAT(error_of(selection),
              HasSubstr("nothing to verify: no rung named takes these dtypes"));
  selection.shapes = {{1, 2, 3, 4, 5, 6, 7, 8}};
  EXPECT_THAT(error_of(selection), HasSubstr("shape 1x2x3x4x5x6x7x8 has 8 extents, gemm has"));
  try {
    Selection of_ladder;
    of_ladder.dtypes = {"i64"};
    ladder_problems(choose_ladder("gemm", of_ladder), of_ladder);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("no rung of gemm takes these dtypes: there are f32"));
  }
}

TEST(Selection, OfWhatTakesTooLongIsRefusedWithASummary) {
  const auto error_of = [](std::vector<std::vector<int64_t>> shapes) -> std::string {
    Selection selection;
    selection.names = {"relu/scalar"};
    selection.dtypes = {"f32"};
    selection.shapes = std::move(shapes);
    selection.limits.seconds = 1e-9;
    try {
      verify_all(selection);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({{1, 64}}), StartsWith("verify of 1 rung on relu f32 [1, 64] takes about"));
  EXPECT_THAT(error_of({{1, 64}, {2, 64}, {1, 32}}),
              StartsWith("verify of 1 rung on relu f32 [2, 64] and 2 problems more takes about"))
      << "the longest";
}

TEST(Selection, TensorsThatAreLeftOutAreNotLookedFor) {
  Selection selection;  // without grad_scale and found_inf
  selection.names = {"adamw/naive"};
  selection.shapes = {{4, 25}};
  const std::vector<Verification> results = verify_all(selection);
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].verdict, Verdict::kPassed) << results[0].reason;
}

TEST(Ladder, IsOfOneDtypeUnlessSomeAreNamed) {
  const auto dtypes = [](const char* name, std::vector<std::string> asked = {}) {
    Selection selection;
    selection.dtypes = std::move(asked);
    choose_ladder(name, selection);
    return selection.dtypes;
  };
  EXPECT_THAT(dtypes("softmax"), ElementsAre("f16"));
  EXPECT_THAT(dtypes("softmax", {"f32", "bf16"}), ElementsAre("f32", "bf16"));
  EXPECT_THAT(dtypes("adamw"), ElementsAre("f16")) << "though more rungs take f32";
  EXPECT_THAT(dtypes("count_bins"), ElementsAre("i32")) << "that most rungs take";
  EXPECT_THAT(dtypes("int_mm"), ElementsAre("i8")) << "it has no f16";
}

TEST(Ladder, HasTheRungsOfItsOperation) {
  Selection selection;
  EXPECT_EQ(choose_ladder("softmax", selection).name, "softmax");
  EXPECT_THAT(selection.names, Contains("softmax/online"));
  EXPECT_THAT(selection.names, Each(StartsWith("softmax/")));
  try {
    choose_ladder("softmax/online", selection);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("not the rung softmax/online"));
  }
}

TEST(Ladder, ProblemsAreOfTheRungsThatTakeTheirDtype) {
  Selection selection;
  selection.dtypes = {"f16", "f32"};
  selection.shapes = {{4, 64}};
  const Operation& operation = choose_ladder("adamw", selection);
  const std::vector<LadderProblem> problems = ladder_problems(operation, selection);
  ASSERT_THAT(problems, SizeIs(2));
  double seconds = 0;
  for (const LadderProblem& problem : problems) {
    EXPECT_EQ(problem.chosen.extents[1], 64);
    ASSERT_FALSE(problem.targets.empty());
    for (const Target& target : problem.targets) EXPECT_TRUE(target.dtypes.has(problem.dtype));
    seconds += problem.seconds;
  }
  EXPECT_LT(problems[0].targets.size(), problems[1].targets.size()) << "the naive one has no f16";
  EXPECT_DOUBLE_EQ(seconds_of(problems), seconds);
}

TEST(Seeds, HaveARungOrAVerb) {
  const std::vector<SeedRow> rows = seed_rows();
  const auto row = [&](std::string_view name) {
    const auto at = std::ranges::find(rows, name, &SeedRow::name);
    return at == rows.end() ? SeedRow{} : *at;
  };
  const SeedRow kernel = row("softmax_f32x4");
  EXPECT_EQ(kernel.family, "softmax");
  EXPECT_THAT(kernel.rung, StartsWith("softmax/"));
  EXPECT_EQ(kernel.dtypes, "f32");
  EXPECT_EQ(kernel.verb, "");
  const SeedRow device = row("device query: count, capability, properties");
  EXPECT_EQ(device.verb, "doctor");
  EXPECT_EQ(device.dtypes, "f32");
  EXPECT_EQ(device.rung, "");
}

TEST(ChosenRun, IsAskedForOrTheLaddersOwn) {
  Selection selection;
  const ChosenRun usual = chosen_run("softmax/online", selection, "profile");
  EXPECT_EQ(usual.target.name(), "softmax/online");
  EXPECT_EQ(usual.dtype, DType::kF16);
  selection.dtypes = {"f32"};
  selection.shapes = {{3, 100}};
  const ChosenRun asked = chosen_run("softmax/online", selection, "profile");
  EXPECT_EQ(asked.dtype, DType::kF32);
  EXPECT_EQ(asked.problem.extents[1], 100);
}

TEST(ChosenRun, TakesTheTimeOfTwo) {
  Selection selection;
  selection.shapes = {{1000, 1000}};
  const ChosenRun run = chosen_run("softmax/online", selection, "profile");
  const AnyCall call(make_problem(*run.target.operation, run.problem, run.dtype));
  const double one = estimated_seconds(call.problem(), 1);
  selection.limits.seconds = 2.1 * one;
  EXPECT_NO_THROW(chosen_run("softmax/online", selection, "profile"));
  selection.limits.seconds = 1.9 * one;
  try {
    chosen_run("softmax/online", selection, "profile");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("softmax/online on softmax f16 [1000, 1000] takes about"));
  }
}

TEST(EmulatedCase, IsTheLargestSmallOneThatMostTake) {
  const Operation& op = wrong::center();
  const Target right{&wrong::kFamily, &op, &wrong::rung("right"), op.dtypes};
  const Case otherwise{.extents = {1, 1}};
  const std::vector<Case> cases = {{.extents = {2, 64}},
                                   {.extents = {4, 64}},
                                   {.extents = {3, 64}},
                                   {.extents = {5, 64}, .offset = 1},
                                   {.extents = {5, 64}, .padding = 1},
                                   {.extents = {6, 64}}};
  const auto rows = [&](const CaseLimits& limits) {
    return emulated_case(op, cases, otherwise, {&right, 1}, DType::kF32, limits).extents[0];
  };
  const double row = 2 * 64 * 4;
  EXPECT_EQ(rows({}), 6);
  EXPECT_EQ(rows({.bytes = 6 * row}), 6);
  EXPECT_EQ(rows({.bytes = 6 * row - 1}), 4) << "plain ones alone";
  EXPECT_EQ(rows({.flops = 2.0 * 64 * 4}), 4);
  EXPECT_EQ(rows({.bytes = row}), 1) << "none is small";
}

TEST(SquareCase, Is128OfEachExtentWhereThatIsSmall) {
  const auto case_of = [](const std::string& rung) {
    return square_case(targets_of(std::array{rung}).front(), DType::kF16);
  };
  const Case softmax = case_of("softmax/online");
  EXPECT_EQ(softmax.extents[0], 128);
  EXPECT_EQ(softmax.extents[1], 128);
  EXPECT_EQ(case_of("gemm/naive").extents[2], 128);
  EXPECT_NE(case_of("attention/naive").extents[4], 128) << "minutes of work";
}

}  // namespace
}  // namespace ws::harness
