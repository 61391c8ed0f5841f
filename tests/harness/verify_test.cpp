// The verifier finds what it is for: each wrong kernel, for the reason it is wrong.
#include "harness/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "catalogue/fill.hpp"
#include "emulator/emulator.hpp"
#include "harness/json.hpp"
#include "harness/resources.hpp"
#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

namespace ws::harness {
namespace {

using ::testing::HasSubstr;

// Wrong kernels write where the sanitizer would stop the whole program.
class Verify : public ::testing::Test {
 protected:
  Verify() {
    DeviceBuffer::sanitize_guards = false;
    // What the verifier finds alone, as on a GPU, where no emulator says it first.
    emulator::options().off = 1u << static_cast<int>(emulator::Detector::kBounds) |
                              1u << static_cast<int>(emulator::Detector::kGlobalRaces);
  }
  ~Verify() override {
    DeviceBuffer::sanitize_guards = true;
    emulator::options().off = 0;
  }

  static Verification verify_wrong(std::string_view name, DType dtype = DType::kF32,
                                   const Case& chosen = {.extents = {4, 1027}}) {
    return verify_of(wrong::center(), name, dtype, chosen);
  }
  static Verification verify_of(const Operation& operation, std::string_view name, DType dtype,
                                const Case& chosen) {
    Instance instance(operation, chosen, dtype, 1);
    return verify(wrong::rung(name), instance);
  }
};

TEST_F(Verify, PassesARightKernel) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const Case& chosen :
         {Case{.extents = {4, 1027}}, Case{.extents = {1, 1}},
          Case{.extents = {3, 64}, .offset = 1},
          Case{.extents = {5, 33}, .offset = 3, .padding = 7}, Case{.extents = {0, 8}}}) {
      const Verification result = verify_wrong("right", dtype, chosen);
      EXPECT_EQ(result.verdict, Verdict::kPassed) << result.problem << ": " << result.reason;
      EXPECT_EQ(result.defect, Defect::kNone);
      EXPECT_EQ(result.checked, result.elements);
      EXPECT_LE(result.error, result.tolerance.relative);
    }
  }
}

TEST_F(Verify, ComparesLongItemsAsShortOnes) {
  const Case chosen{.extents = {2, 200'003}};
  const Verification right = verify_wrong("right", DType::kF32, chosen);
  EXPECT_EQ(right.verdict, Verdict::kPassed) << right.reason;
  EXPECT_EQ(right.checked, 400'006);
  EXPECT_THAT(verify_wrong("stale_output", DType::kF32, chosen).reason,
              HasSubstr("y[1, 0] was never written (200003 of 400006"));
}

struct WrongCase {
  const char* rung;
  Defect defect;
  const char* reason;
  DType dtype = DType::kF32;
  Case chosen = {.extents = {4, 1027}};
};
void PrintTo(const WrongCase& wrong, std::ostream* out) { *out << wrong.rung; }

class VerifyWrong : public Verify, public ::testing::WithParamInterface<WrongCase> {};

TEST_P(VerifyWrong, IsCaughtForItsReason) {
  const WrongCase& wrong = GetParam();
  const Verification result = verify_wrong(wrong.rung, wrong.dtype, wrong.chosen);
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_EQ(result.defect, wrong.defect)
      << to_string(result.defect) << " instead of " << to_string(wrong.defect);
  EXPECT_THAT(result.reason, HasSubstr(wrong.reason));
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, VerifyWrong,
    ::testing::Values(
        WrongCase{"dropped_tail", Defect::kUnwritten, "y[0, 1024] was never written (12 of 4108"},
        WrongCase{"off_by_one_row", Defect::kInaccurate, "of 4108 elements compared are beyond it"},
        WrongCase{"missing_barrier", Defect::kError, "unwritten read"},
        WrongCase{"overflow", Defect::kNotFinite, "is -inf, the reference has", DType::kF16},
        WrongCase{"stale_output", Defect::kUnwritten, "y[3, 0] was never written (1027 of"},
        WrongCase{"writes_past_the_end", Defect::kOutOfBounds,
                  "wrote past the end of output 'y': byte 0 behind its 16432 bytes"},
        WrongCase{"writes_between_rows",
                  Defect::kOutOfBounds,
                  "wrote between the rows of output 'y'",
                  DType::kF32,
                  {.extents = {4, 33}, .padding = 3}},
        WrongCase{"three_values", Defect::kInaccurate, "beyond it"},
        WrongCase{"modifies_input", Defect::kInputChanged, "input 'x' was modified"},
        WrongCase{"nondeterministic", Defect::kNondeterministic,
                  "two runs on the same input differ"},
        WrongCase{"throws", Defect::kError, "this rung always throws"}),
    [](const auto& info) { return std::string(info.param.rung); });

TEST_F(Verify, TheFamilyForTestsKeepsTheRules) {
  EXPECT_THAT(defects_of(wrong::kFamily), ::testing::IsEmpty());
}

// ---- Several outputs --------------------------------------------------------------------------

TEST_F(Verify, ComparesEveryElementOfEveryOutput) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{17, 64}, {100, 64}, {64, 64}}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const Case chosen{.extents = {rows, columns}};
      const Verification result = verify_of(wrong::summary(), "right_summary", dtype, chosen);
      EXPECT_EQ(result.verdict, Verdict::kPassed) << result.reason;
      EXPECT_EQ(result.checked, rows * columns + 2 * rows + columns);
      EXPECT_EQ(result.checked, result.elements);
    }
  }
}

TEST_F(Verify, CatchesTheLastElementOfALaterOutput) {
  for (const int64_t rows : {17, 100, 64}) {
    const Verification result =
        verify_of(wrong::summary(), "last_column_sum", DType::kF32, {.extents = {rows, 64}});
    EXPECT_EQ(result.defect, Defect::kInaccurate);
    EXPECT_THAT(result.reason, HasSubstr("sums[63]"));
  }
}

TEST_F(Verify, EachOutputHasAToleranceOfItsOwn) {
  // 0.1 % of an f32 output beside one of bf16, whose rounding is four times that.
  const Verification result =
      verify_of(wrong::summary(), "lse_off", DType::kBf16, {.extents = {17, 64}});
  EXPECT_EQ(result.defect, Defect::kInaccurate);
  EXPECT_THAT(result.reason, HasSubstr("lse["));
}

TEST_F(Verify, AnIntegersPoisonIsNoValue) {
  const Verification result =
      verify_of(wrong::summary(), "largest_unwritten", DType::kF32, {.extents = {17, 64}});
  EXPECT_EQ(result.defect, Defect::kUnwritten);
  EXPECT_THAT(result.reason, HasSubstr("largest[0] was never written (17 of 17"));
}

TEST_F(Verify, OutputsThatItemsDoNotDivideAreTheCataloguesError) {
  Operation op = wrong::summary();
  op.items = [](const Problem& problem, const Parameter&) { return problem.tensor(0).extent(0); };
  try {
    const Instance instance(op, {.extents = {17, 64}}, DType::kF32, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("output 'sums'"));
    EXPECT_THAT(error.what(), HasSubstr("has 64 elements, which 17 items do not divide"));
  }
}

// ---- In-out tensors, workspaces, determinism --------------------------------------------------

TEST_F(Verify, RestoresInOutTensorsBeforeEachRun) {
  for (const Case& chosen : {Case{.extents = {4, 33}}, Case{.extents = {5, 33}, .padding = 7}}) {
    const Verification result =
        verify_of(wrong::accumulate(), "right_accumulate", DType::kF32, chosen);
    EXPECT_EQ(result.verdict, Verdict::kPassed) << result.reason;
    EXPECT_EQ(result.checked, chosen.extents[0] * 33);
  }
  EXPECT_EQ(verify_of(wrong::accumulate(), "overwrites", DType::kF32, {.extents = {4, 33}}).defect,
            Defect::kInaccurate);
  EXPECT_EQ(verify_of(wrong::accumulate(), "accumulates_between_rows", DType::kF32,
                      {.extents = {4, 33}, .padding = 3})
                .defect,
            Defect::kOutOfBounds);
}

TEST_F(Verify, TheWorkspacesZeroesStayZero) {
  EXPECT_EQ(verify_wrong("counts").verdict, Verdict::kPassed);
  const Verification result = verify_wrong("counts_dirty");
  EXPECT_EQ(result.defect, Defect::kWorkspaceDirty);
  EXPECT_THAT(result.reason, HasSubstr("left byte 0 of the 8 that begin the workspace at 7"));
}

TEST_F(Verify, WhatMayDifferIsHeldAgainstTheToleranceInEveryRun) {
  EXPECT_EQ(verify_wrong("nondeterministic_as_said").verdict, Verdict::kPassed);
  EXPECT_EQ(verify_wrong("very_different_as_said").defect, Defect::kInaccurate);
}

TEST_F(Verify, WhoAddsUpInF16AndSaysSoIsAllowedItsError) {
  const Case chosen{.extents = {4, 33}};  // sums that f16 holds
  EXPECT_EQ(verify_wrong("overflow", DType::kF16, chosen).defect, Defect::kInaccurate)
      << "the same kernel, and its row does not say so";
  const Verification said = verify_wrong("acc_f16", DType::kF16, chosen);
  EXPECT_EQ(said.verdict, Verdict::kPassed) << said.reason;
  EXPECT_EQ(said.tolerance.relative, 0.3);
  EXPECT_GT(said.error, verify_wrong("right", DType::kF16, chosen).tolerance.relative);
  EXPECT_EQ(verify_wrong("acc_f16_off_by_one_row", DType::kF16, chosen).defect,
            Defect::kInaccurate);
  EXPECT_EQ(verify_wrong("acc_f16", DType::kF16).defect, Defect::kNotFinite);
}

TEST_F(Verify, RunsInPlaceWhereTheOperationAllowsIt) {
  const Verification result = verify_wrong("reads_again");
  EXPECT_EQ(result.defect, Defect::kInPlace);
  EXPECT_THAT(result.reason, HasSubstr("apart and in place, results differ at y["));
}

TEST_F(Verify, RefusesWhatNoMemoryHolds) {
  const auto error_of = [](std::initializer_list<int64_t> extents) -> std::string {
    Case chosen;
    std::ranges::copy(extents, chosen.extents.begin());
    try {
      const Instance instance(wrong::center(), chosen, DType::kF32, 1);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({4294967296, 4294967296}), HasSubstr("[4294967296, 4294967296]"));
  EXPECT_THAT(error_of({4611686018427387904, 4}), HasSubstr("larger than any memory"));
  EXPECT_THAT(error_of({3037000500, 3037000500}), HasSubstr("larger than any memory"));
  EXPECT_THAT(error_of({1 << 20, 1 << 22}), HasSubstr("GB of the host's memory, which has"));
}

TEST_F(Verify, ErrorsNameRungAndProblem) {
  const Verification result = verify_wrong("missing_barrier");
  EXPECT_THAT(result.reason, HasSubstr("center/missing_barrier"));
  EXPECT_THAT(result.reason, HasSubstr("center f32 [4, 1027]"));
}

// A row that does for `center` what the test says.
struct Changed {
  Implementation implementation = *wrong::rung("right").of(wrong::center());
  Rung rung = wrong::rung("right");

  const Rung& row() {
    rung.implementations = {&implementation, 1};
    return rung;
  }
};

TEST_F(Verify, SkipsWithTheRungsReason) {
  Changed picky;
  picky.implementation.supports = [](const void*, Why& why) {
    return why.unless(false, "not on a ", "Friday");
  };
  Instance instance(wrong::center(), {.extents = {2, 8}}, DType::kF32, 1);
  const Verification result = verify(picky.row(), instance);
  EXPECT_EQ(result.verdict, Verdict::kSkipped);
  EXPECT_EQ(result.reason, "not on a Friday");
}

TEST_F(Verify, FailsARungWithoutTheMemoryItAsksFor) {
  // The workspace is as large as the rung said, and guarded.
  Changed greedy;
  greedy.implementation.workspace = [](const void*) { return Workspace{.bytes = 64}; };
  greedy.implementation.run = [](const void* call, const Context& context) {
    static_cast<std::byte*>(context.workspace)[64] = std::byte{1};
    wrong::rung("right").of(wrong::center())->run(call, context);
  };
  Instance instance(wrong::center(), {.extents = {2, 8}}, DType::kF32, 1);
  const Verification result = verify(greedy.row(), instance);
  EXPECT_EQ(result.defect, Defect::kOutOfBounds);
  EXPECT_THAT(result.reason, HasSubstr("the workspace"));
}

TEST_F(Verify, DrawsFreshInputsFromTheSeed) {
  Instance one(wrong::center(), {.extents = {2, 8}}, DType::kF32, 1);
  Instance same(wrong::center(), {.extents = {2, 8}}, DType::kF32, 1);
  Instance other(wrong::center(), {.extents = {2, 8}}, DType::kF32, 2);
  const auto bytes = [](const Instance& i) {
    return std::vector(i.before(0)->bytes().begin(), i.before(0)->bytes().end());
  };
  EXPECT_EQ(bytes(one), bytes(same));
  EXPECT_NE(bytes(one), bytes(other));
}

TEST(Instance, LaysATensorInAnotherWhereTheCaseSaysSo) {
  const Operation& operation = operation_named("attention");
  constexpr int64_t kValuesInKeys = 32;
  const Case chosen{.extents = {1, 4, 1, 20, 320, 1, 264, kValuesInKeys}};
  const Instance instance(operation, chosen, DType::kF16, 1);
  EXPECT_EQ(instance.before(2), nullptr);
  const DeviceInstance device(instance);
  const DeviceInstance copy(instance, &device);
  const UntouchedCall untouched(operation, chosen, DType::kF16);
  for (const Problem* problem :
       {&instance.problem(), &device.problem(), &copy.problem(), &untouched.problem()}) {
    EXPECT_EQ((*problem)["v"].data, (*problem)["k"].data);
    EXPECT_NE((*problem)["v"].data, (*problem)["q"].data);
  }
  EXPECT_FALSE(device.has_buffer(2));
  EXPECT_NE(copy.problem()["k"].data, device.problem()["k"].data);
}

// ---- Comparing --------------------------------------------------------------------------------

// An operation whose reference and a rung whose output are what the test says.
double stored = 0;
double wanted = 0;
Tolerance allowed;

Verification verify_constant(DType dtype, double got, double expected, Tolerance tolerance) {
  stored = got;
  wanted = expected;
  allowed = tolerance;
  Operation op = wrong::center();
  op.dtypes = {dtype};
  op.in_place = false;
  op.fill = fill_normal_input;
  op.tolerance = [](const Problem&, const Parameter&) { return allowed; };
  op.reference = [](const Problem& problem, Slice slice, std::span<double* const> to) {
    std::fill_n(to[1], (slice.last - slice.first) * problem["x"].extent(1), wanted);
  };
  static Tensor y;
  op.make_call = [](const Problem& problem, void*) { y = problem["y"]; };
  Changed constant;
  constant.implementation.dtypes = {dtype};
  constant.implementation.run = [](const void*, const Context&) {
    fill_with(y, [](int64_t) { return stored; });
  };
  Instance instance(op, {.extents = {2, 3}}, dtype, 1);
  return verify(constant.row(), instance);
}

TEST_F(Verify, NanAndInfinityMustMatch) {
  const Tolerance some{1e-2, 1e-2, 1e-3};
  const double nan = NAN;
  const double inf = INFINITY;
  EXPECT_EQ(verify_constant(DType::kF32, nan, nan, some).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kF32, inf, inf, some).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kF32, -inf, inf, some).defect, Defect::kNotFinite);
  EXPECT_EQ(verify_constant(DType::kF32, 1, nan, some).defect, Defect::kNotFinite);
  EXPECT_EQ(verify_constant(DType::kF32, nan, 1, some).defect, Defect::kNotFinite);
  EXPECT_EQ(verify_constant(DType::kF32, inf, 1e30, some).defect, Defect::kNotFinite);
  // 70000 is no f16: infinity is what rounding gives, a finite neighbour is as good.
  EXPECT_EQ(verify_constant(DType::kF16, inf, 70000, some).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kF16, 65504, 65530, some).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kF16, 1000, 70000, some).defect, Defect::kNotFinite);
  // 65520 and more is infinity, and twice the tolerance above 64500 is.
  EXPECT_EQ(verify_constant(DType::kF16, inf, 64500, some).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kF16, inf, 64000, some).defect, Defect::kNotFinite);
}

TEST_F(Verify, ExactMeansEveryBit) {
  EXPECT_EQ(verify_constant(DType::kF32, 1, 1, {}).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kF32, 1, 1 + 0x1p-20, {}).defect, Defect::kInaccurate);
  EXPECT_EQ(verify_constant(DType::kF32, -0.0, 0.0, {}).defect, Defect::kInaccurate);
  EXPECT_EQ(verify_constant(DType::kI32, 7, 7, {}).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kI32, 7, 8, {}).defect, Defect::kInaccurate);
  EXPECT_EQ(verify_constant(DType::kI64, -1, -1, {}).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kI64, -1, 8, {}).defect, Defect::kInaccurate);
  EXPECT_EQ(verify_constant(DType::kI8, 7, 8, {}).defect, Defect::kInaccurate);
}

TEST_F(Verify, EachMeasureOfTheToleranceCounts) {
  EXPECT_EQ(verify_constant(DType::kF32, 1.001, 1, {1e-2, 1e-4, 0}).defect, Defect::kInaccurate);
  EXPECT_EQ(verify_constant(DType::kF32, 1.001, 1, {1e-4, 1e-2, 0}).defect, Defect::kInaccurate);
  EXPECT_EQ(verify_constant(DType::kF32, 1.001, 1, {1e-2, 1e-2, 0}).verdict, Verdict::kPassed);
  EXPECT_EQ(verify_constant(DType::kF32, 1.001, 1, {1e-2, 0, 0}).verdict, Verdict::kPassed)
      << "a worst of 0 is not looked at";
}

// ---- Samples ----------------------------------------------------------------------------------

TEST(Instance, ComparesASampleOfLargeProblems) {
  Instance instance(wrong::center(), {.extents = {5000, 8}}, DType::kF32, 1,
                    {.flops = 1e9, .elements = 4000});
  int64_t items = 0;
  int64_t last = 0;
  for (const Instance::Expected& piece : instance.expected()) {
    EXPECT_GE(piece.slice.first, last) << "in order, without overlap";
    last = piece.slice.last;
    items += piece.slice.last - piece.slice.first;
    EXPECT_EQ(piece.tensors[1].size(),
              static_cast<size_t>((piece.slice.last - piece.slice.first) * 8));
  }
  EXPECT_EQ(instance.expected().front().slice.first, 0) << "the first item";
  const auto pieces = static_cast<int64_t>(instance.expected().size());
  EXPECT_NE(instance.expected()[1].slice.first, 5000 / pieces) << "somewhere in its stretch";
  EXPECT_EQ(last, 5000) << "the last item";
  EXPECT_GE(items, 250);
  EXPECT_LE(items, 500);
}

TEST(Instance, SamplesEachOutputByItsOwnSize) {
  Instance instance(wrong::summary(), {.extents = {5000, 8}}, DType::kF32, 1,
                    {.flops = 1e9, .elements = 4000});
  size_t of_y = 0;
  size_t of_sums = 0;
  for (const Instance::Expected& piece : instance.expected()) {
    of_y += piece.tensors[1].size();
    of_sums += piece.tensors[4].size();
  }
  EXPECT_LT(of_y, 5000U);
  EXPECT_EQ(of_sums, 8U) << "all of few";
}

TEST(Instance, ComparesAllOfSmallOnes) {
  Instance instance(wrong::center(), {.extents = {1000, 8}}, DType::kF32, 1);
  int64_t next = 0;
  for (const Instance::Expected& piece : instance.expected()) {
    EXPECT_EQ(piece.slice.first, next);
    next = piece.slice.last;
  }
  EXPECT_EQ(next, 1000);
}

// ---- Results ----------------------------------------------------------------------------------

TEST(VerificationJson, HasFiguresOfWhatRan) {
  Verification result;
  result.rung = "softmax/online";
  result.verdict = Verdict::kSkipped;
  result.reason = "not on a Friday";
  Json json = to_json(result);
  EXPECT_EQ(json["rung"], "softmax/online");
  EXPECT_EQ(json["verdict"], "skipped");
  EXPECT_EQ(json["reason"], "not on a Friday");
  EXPECT_FALSE(json.contains("error"));
  EXPECT_FALSE(json.contains("defect"));
  result.verdict = Verdict::kFailed;
  result.defect = Defect::kInaccurate;
  result.error = INFINITY;
  result.worst.got = 2;
  result.checked = 5;
  result.elements = 7;
  json = to_json(result);
  EXPECT_EQ(json["defect"], "inaccurate");
  EXPECT_TRUE(json["error"].is_null()) << "JSON has no infinity";
  EXPECT_EQ(json["worst"]["got"], 2);
  EXPECT_EQ(json["checked"], 5);
  EXPECT_EQ(json["elements"], 7);
  EXPECT_FALSE(json.contains("counts"));
  result.counts["cluster"] = 3;
  EXPECT_EQ(to_json(result)["counts"]["cluster"], 3);
}

// ---- Memory -----------------------------------------------------------------------------------

TEST_F(Verify, BuffersTellWhereTheyWereDamaged) {
  DeviceBuffer buffer(100, 6);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 6U);
  EXPECT_EQ(buffer.damage(), std::nullopt);
  buffer.data()[-3] = std::byte{0};
  EXPECT_EQ(buffer.damage(), -3);
  buffer.data()[102] = std::byte{0};
  EXPECT_EQ(buffer.damage(), 2);
}

}  // namespace
}  // namespace ws::harness
