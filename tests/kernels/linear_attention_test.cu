// What `verify` cannot ask of linear attention: calls that are refused, and why; numbers that must
// not be seen; decays that forget all; calls that go on where another ended; which rung a call
// gets.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "catalogue/fill.hpp"
#include "kernels/linear_attention/operations.hpp"
#include "tests/kernels/attention_instance.hpp"
#include "tests/kernels/refused.hpp"

namespace ws::linear_attention {
namespace {

using attention::Instance;
using test::set;
using test::told;
using testing::HasSubstr;

constexpr int64_t kAll = kLogDecay | kInitialState | kFinalState;

const Operation& forward() { return operation_named("linear_attention"); }
const Operation& backward() { return operation_named("linear_attention_backward"); }
const Operation& delta() { return operation_named("delta_rule"); }
const Operation& delta_backward() { return operation_named("delta_rule_backward"); }

Problem problem_of(const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                   DType dtype = DType::kF32) {
  Case chosen{.extents = extents};
  const bool has_flag = operation.index_of("final_state") >= 0;
  if (has_flag) chosen.attributes[1] = (extents[6] & kFinalState) != 0;
  return make_problem(operation, chosen, dtype);
}

// ---- Calls that are refused ---------------------------------------------------------------------

TEST(LinearAttention, CallsThatAreRefused) {
  using P = Problem;
  struct Refused {
    const char* words;
    std::function<void(Problem&)> change;
  };
  const Refused all[] = {
      {"takes q, k and v of 4 dimensions", [](P& p) { p["q"].rank = 3; }},
      {"of one dtype of f32, f16, bf16", [](P& p) { p["k"].dtype = DType::kF16; }},
      {"of one dtype of f32, f16, bf16",
       [](P& p) { p["q"].dtype = p["k"].dtype = p["v"].dtype = DType::kI32; }},
      {"of one batch and as many steps", [](P& p) { p["v"].shape[2] = 4; }},
      {"of one batch and as many steps", [](P& p) { p["k"].shape[0] = 1; }},
      {"takes one D in q and k, not 16 and 8", [](P& p) { p["k"].shape[3] = 8; }},
      {"that divide the most of them, not 3 of 4", [](P& p) { p["k"].shape[1] = 3; }},
      {"that divide the most of them, not 0 of 4", [](P& p) { p["q"].shape[1] = 0; }},
      {"takes D and M from 1 to 1024", [](P& p) { p["v"].shape[3] = 1025; }},
      {"takes log_decay of f32 [2, 4, 5], got",
       [](P& p) { p["log_decay"] = Tensor::dense(DType::kF32, {2, 4}); }},
      {"takes log_decay of f32", [](P& p) { p["log_decay"].dtype = DType::kF16; }},
      {"takes initial_state of f32 [2, 4, 16, 24], got",
       [](P& p) { p["initial_state"].shape[3] = 16; }},
      {"takes a finite scale", [](P& p) { set(p, "scale", double{NAN}); }},
  };
  Problem right = problem_of(forward(), {2, 4, 5, 16, 24, 2, kAll});
  right["out"] = right["final_state"] = {};
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  for (const Refused& refused : all) {
    const std::string words = told(right, refused.change);
    EXPECT_THAT(words, HasSubstr(refused.words));
    EXPECT_THAT(words, HasSubstr("linear_attention takes"));
  }
}

TEST(LinearAttentionBackward, TakesAsManyHeadsOfEach) {
  for (const Operation* operation : {&backward(), &delta_backward()}) {
    Problem right = problem_of(*operation, {2, 4, 5, 16, 24, 0, kLogDecay});
    right["dq"] = right["dk"] = right["dv"] = {};
    EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
    EXPECT_THAT(told(right, [](Problem& p) { p["k"].shape[1] = 2; }),
                HasSubstr("takes as many heads of q, k and v"));
    EXPECT_THAT(told(right, [](Problem& p) { p["dout"].shape[3] = 16; }),
                HasSubstr("takes dout of the shape and dtype of v"));
  }
}

TEST(DeltaRule, BetaIsF32) {
  for (const Operation* operation : {&delta(), &delta_backward()}) {
    Problem right = problem_of(*operation, {2, 4, 5, 16, 24, 0, 0});
    for (const char* name : {"out", "dq", "dk", "dv", "dbeta"}) {
      if (operation->index_of(name) >= 0) right[name] = {};
    }
    EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
    EXPECT_THAT(told(right, [](Problem& p) { p["beta"].dtype = DType::kBf16; }),
                HasSubstr("takes beta of f32 [2, 4, 5]"));
  }
}

// ---- Numbers that must not be seen --------------------------------------------------------------

// Of a query: NaN in its own output. Of a key or a value: NaN from its step on, and at most in its
// chunk of 64 before.
TEST(LinearAttention, NanStaysWhereItIsSeen) {
  constexpr int64_t kStep = 70;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const char* name : {"q", "k", "v"}) {
      SCOPED_TRACE(name);
      Instance call(problem_of(forward(), {1, 1, 135, 16, 16, 0, kLogDecay}, dtype));
      fill_with(call["log_decay"], [](int64_t) { return -0.01; });
      const std::vector<double> right = call.expected(forward().index_of("out"));
      for (const double bad : {double{NAN}, double{INFINITY}}) {
        set_element(call[name], kStep * 16 + 3, bad);
        EXPECT_GE(call.for_each_rung([&](const Rung& rung) {
          call.run(rung);
          for (int64_t i = 0; i < 135 * 16; ++i) {
            const int64_t step = i / 16;
            const bool may_be = name == std::string_view("q") ? step == kStep : step >= 64;
            if (!may_be)
              call.expect_near(rung, forward().index_of("out"), static_cast<size_t>(i),
                               right[static_cast<size_t>(i)]);
          }
          EXPECT_FALSE(std::isfinite(element(call["out"], kStep * 16 + 3)));
        }),
                  3);
      }
    }
  }
}

// ---- Decays -------------------------------------------------------------------------------------

TEST(LinearAttention, MinusInfinityForgetsAll) {
  for (const Operation* operation : {&forward(), &delta(), &delta_backward()}) {
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      Instance call(problem_of(*operation, {1, 1, 90, 16, 16, 0, kAll}, dtype));
      fill_with(call["log_decay"], [](int64_t t) { return t == 75 ? -INFINITY : -0.1; });
      call.expect_right();
    }
  }
}

// Nothing overflows or is lost where each step forgets the one before it.
TEST(LinearAttention, DecaysOfFiftyAStep) {
  for (const Operation* operation : {&forward(), &backward(), &delta_backward()}) {
    Instance call(problem_of(*operation, {1, 1, 140, 16, 16, 0, kAll}, DType::kF16));
    fill_with(call["log_decay"], [](int64_t) { return -50.0; });
    call.expect_right();
  }
}

// Each step forgets the one before it but for a hundredth: dlog_decay is small beside <q, dq> and
// <v, dv>, and right as it is, not as these are.
TEST(DeltaRuleBackward, DecaysOfFiveAStep) {
  const int output = delta_backward().index_of("dlog_decay");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    Instance call(problem_of(delta_backward(), {1, 1, 150, 32, 16, 0, kAll}, dtype));
    fill_with(call["log_decay"], [](int64_t) { return -5.0; });
    const std::vector<double> right = call.expected(output);
    call.for_each_rung([&](const Rung& rung) {
      call.run(rung);
      double norm = 0;
      double off = 0;
      for (size_t i = 0; i < right.size(); ++i) {
        norm += std::pow(right[i], 2);
        off += std::pow(element(call["dlog_decay"], static_cast<int64_t>(i)) - right[i], 2);
      }
      EXPECT_LT(std::sqrt(off / norm), 0.01) << rung.name << " " << to_string(dtype);
    });
  }
}

// Enough heads that a block of a walk on tensor cores has more columns than in verify.
TEST(DeltaRule, ManyHeads) {
  for (const Operation* operation : {&delta(), &delta_backward()}) {
    for (const int64_t dim : {16, 72}) {
      for (const int64_t value_dim : {24, 40}) {
        Instance call(problem_of(*operation, {2, 3, 66, dim, value_dim, 0, kAll}, DType::kBf16));
        call.expect_right(best(call.call(), runtime::capability()));
      }
    }
  }
}

// Of numbers that are all above 0, whose state grows with each step.
TEST(LinearAttention, LongSumsOfOneSign) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    Problem problem = problem_of(forward(), {1, 1, 700, 16, 16, 0, kFinalState}, dtype);
    set(problem, "scale", 1.0 / 700);
    Instance call(problem);
    for (const char* name : {"q", "k", "v"}) {
      fill_with(call[name], [](int64_t i) { return random_uniform(3, static_cast<uint64_t>(i)); });
    }
    call.expect_right();
  }
}

// ---- States -------------------------------------------------------------------------------------

TEST(LinearAttention, NoStepsLeaveTheStateAsItIs) {
  for (const Operation* operation : {&forward(), &delta()}) {
    Instance call(problem_of(*operation, {1, 2, 0, 16, 8, 0, kAll}, DType::kBf16));
    EXPECT_GE(call.for_each_rung([&](const Rung& rung) {
      call.run(rung);
      for (int64_t i = 0; i < 2 * 16 * 8; ++i) {
        EXPECT_EQ(element(call["final_state"], i), element(call["initial_state"], i));
      }
    }),
              3);
  }
  for (const Operation* operation : {&backward(), &delta_backward()}) {
    Instance call(problem_of(*operation, {1, 2, 0, 16, 8, 0, kAll}, DType::kBf16));
    EXPECT_GE(call.for_each_rung([&](const Rung& rung) {
      call.run(rung);
      for (int64_t i = 0; i < 2 * 16 * 8; ++i) {
        EXPECT_EQ(element(call["dinitial_state"], i), element(call["dfinal_state"], i));
      }
    }),
              operation == &backward() ? 4 : 1);
  }
}

// Where beta is 0 a step adds nothing, yet has a gradient.
TEST(DeltaRuleBackward, BetaOfZero) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const int64_t has : {kAll, kAll - kLogDecay}) {
      Instance call(problem_of(delta_backward(), {1, 1, 70, 16, 16, 0, has}, dtype));
      fill_with(call["beta"], [](int64_t t) { return t % 3 == 0 ? 0.0 : 0.5; });
      call.expect_right();
    }
  }
}

// Steps from 67 on, from the state after 67, are what they are in one call.
TEST(LinearAttention, ACallGoesOnWhereAnotherEnded) {
  constexpr int64_t kSteps = 67;
  Instance whole(problem_of(forward(), {1, 1, 2 * kSteps, 16, 16, 0, kAll}));
  Instance part(problem_of(forward(), {1, 1, kSteps, 16, 16, 0, kAll}));
  EXPECT_GE(whole.for_each_rung([&](const Rung& rung) {
    whole.run(rung);
    const auto run_part = [&](int64_t first, const Tensor& state) {
      for (const char* name : {"q", "k", "v", "log_decay"}) {
        const int64_t columns = part[name].elements() / kSteps;
        fill_with(part[name], [&](int64_t i) { return element(whole[name], first * columns + i); });
      }
      std::vector<double> values;
      for (int64_t i = 0; i < state.elements(); ++i) values.push_back(element(state, i));
      fill_with(part["initial_state"], [&](int64_t i) { return values[static_cast<size_t>(i)]; });
      part.run(rung);
    };
    run_part(0, whole["initial_state"]);
    run_part(kSteps, part["final_state"]);
    for (int64_t i = 0; i < kSteps * 16; ++i) {
      const double want = element(whole["out"], kSteps * 16 + i);
      EXPECT_NEAR(element(part["out"], i), want, 1e-4 * (std::abs(want) + 10));
    }
  }),
            3);
}

// ---- Which rung ---------------------------------------------------------------------------------

std::string_view best_of(const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                         DType dtype) {
  const Instance call(problem_of(operation, extents, dtype));
  return best(call.call(), runtime::capability()).name;
}

TEST(LinearAttention, TheBestRung) {
  EXPECT_EQ(best_of(forward(), {1, 2, 100, 64, 64}, DType::kBf16), "chunked_parallel");
  EXPECT_EQ(best_of(forward(), {1, 2, 100, 64, 64}, DType::kF32), "chunked");
  EXPECT_EQ(best_of(forward(), {1, 2, 1, 64, 64}, DType::kBf16), "recurrent");
  EXPECT_EQ(best_of(forward(), {1, 2, 10, 256, 64}, DType::kBf16), "chunked_parallel");
  EXPECT_EQ(best_of(forward(), {1, 2, 10, 257, 64}, DType::kBf16), "naive");
  EXPECT_EQ(best_of(backward(), {1, 2, 10, 64, 64}, DType::kF16), "chunked_parallel");
  EXPECT_EQ(best_of(delta(), {1, 2, 10, 64, 64}, DType::kF16), "delta_chunked");
  EXPECT_EQ(best_of(delta(), {1, 2, 10, 64, 64}, DType::kF32), "recurrent");
  for (const int64_t has : {int64_t{0}, int64_t{kLogDecay}}) {
    EXPECT_EQ(best_of(delta_backward(), {1, 2, 10, 64, 64, 0, has}, DType::kBf16),
              "delta_backward_chunked");
    EXPECT_EQ(best_of(delta_backward(), {1, 2, 10, 256, 600, 0, has}, DType::kBf16),
              "delta_backward_chunked");
    EXPECT_EQ(best_of(delta_backward(), {1, 2, 10, 264, 64, 0, has}, DType::kBf16),
              "delta_backward_recurrent");
  }
}

}  // namespace
}  // namespace ws::linear_attention
