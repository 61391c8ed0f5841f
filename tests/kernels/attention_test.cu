// What `verify` cannot ask of attention: calls that are refused, and why; starts, lengths and pages
// that are wrong, which the device finds; tensors of strides that no case has; numbers that must
// not be seen.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/attention/backward.hpp"
#include "kernels/attention/operations.hpp"
#include "tests/kernels/attention_instance.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/run.hpp"

namespace ws::attention {
namespace {

using test::set;
using test::told;
using testing::HasSubstr;

const Operation& dense() { return operation_named("attention"); }
const Operation& packed() { return operation_named("attention_varlen"); }
const Operation& scaled() { return operation_named("scaled_attention"); }
const Operation& backward() { return operation_named("attention_backward"); }
const Operation& packed_backward() { return operation_named("attention_varlen_backward"); }

Problem problem_of(const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                   DType dtype = DType::kF32) {
  Problem problem = make_problem(operation, {.extents = extents}, dtype);
  problem["out"] = problem["lse"] = {};
  return problem;
}

// ---- Calls that are refused ---------------------------------------------------------------------

struct Refused {
  const char* words;
  std::function<void(Problem&)> change;
};

TEST(Attention, CallsThatAreRefused) {
  using P = Problem;
  const Refused all[] = {
      {"takes q of 4 dimensions, k and v of 4", [](P& p) { p["q"].rank = 3; }},
      {"of one dtype of f32, f16, bf16", [](P& p) { p["k"].dtype = DType::kF16; }},
      {"of one dtype of f32, f16, bf16", [](P& p) { p["v"].dtype = DType::kBf16; }},
      {"takes one D in q and k, not 16 and 8", [](P& p) { p["k"].shape[3] = 8; }},
      {"k and v that differ in the last dimension only", [](P& p) { p["v"].shape[2] = 6; }},
      {"k and v that differ in the last dimension only", [](P& p) { p["v"].shape[1] = 1; }},
      {"a multiple of those of k, not 4 of 3", [](P& p) { p["k"].shape[1] = p["v"].shape[1] = 3; }},
      {"a multiple of those of k, not 4 of 0", [](P& p) { p["k"].shape[1] = p["v"].shape[1] = 0; }},
      {"takes D and Dv from 1 to 1024", [](P& p) { p["v"].shape[3] = 1025; }},
      {"takes D and Dv from 1 to 1024", [](P& p) { p["q"].shape[3] = p["k"].shape[3] = 0; }},
      {"takes one batch", [](P& p) { p["k"].shape[0] = p["v"].shape[0] = 1; }},
      {"that broadcasts to", [](P& p) { p["bias"] = Tensor::dense(DType::kF32, {5, 6}); }},
      {"takes a bias of", [](P& p) { p["bias"] = Tensor::dense(DType::kI32, {5, 7}); }},
      {"takes a bias of", [](P& p) { p["bias"] = Tensor::dense(DType::kF16, {5, 7}); }},
      {"takes alibi_slopes of f32 [4] or [2, 4]",
       [](P& p) { p["alibi_slopes"] = Tensor::dense(DType::kF32, {1, 4}); }},
      {"takes alibi_slopes of f32 [4] or [2, 4]",
       [](P& p) { p["alibi_slopes"] = Tensor::dense(DType::kF16, {4}); }},
      {"takes sinks of f32 [4], got",
       [](P& p) { p["sinks"] = Tensor::dense(DType::kF32, {2, 4}); }},
      {"takes window_left from -1 on, not -2", [](P& p) { set(p, "window_left", int64_t{-2}); }},
      {"takes window_right from -1 on", [](P& p) { set(p, "window_right", int64_t{-7}); }},
      {"takes a finite scale", [](P& p) { set(p, "scale", double{NAN}); }},
      {"takes a softcap from 0 on, not -1", [](P& p) { set(p, "softcap", -1.0); }},
      {"takes a softcap from 0 on", [](P& p) { set(p, "softcap", double{INFINITY}); }},
  };
  const Problem right = problem_of(dense(), {2, 4, 5, 7, 16});
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  for (const Refused& refused : all) {
    const std::string words = told(right, refused.change);
    EXPECT_THAT(words, HasSubstr(refused.words));
    EXPECT_THAT(words, HasSubstr("attention takes"));
  }
}

TEST(AttentionVarlen, CallsThatAreRefused) {
  using P = Problem;
  const Problem right = problem_of(packed(), {3, 4, 20, 30, 16});
  const Problem paged = problem_of(packed(), {3, 4, 20, 30, 16, 0, 0, kPages});
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  EXPECT_EQ(told(paged, [](Problem&) {}), "accepted");
  const Refused all[] = {
      {"takes q of 3 dimensions, k and v of 3", [](P& p) { p["v"].rank = 2; }},
      {"a multiple of those of k, not 4 of 3", [](P& p) { p["k"].shape[1] = p["v"].shape[1] = 3; }},
      {"takes cu_seqlens_q of i32 [B + 1]", [](P& p) { p["cu_seqlens_q"].dtype = DType::kI64; }},
      {"takes cu_seqlens_q of i32 [B + 1]", [](P& p) { p["cu_seqlens_q"].shape[0] = 0; }},
      {"takes cu_seqlens_k of i32 [4]", [](P& p) { p["cu_seqlens_k"].shape[0] = 3; }},
      {"takes seqused_k of i32 [3]",
       [](P& p) { p["seqused_k"] = Tensor::dense(DType::kI32, {4}); }},
      {"without block_table takes cu_seqlens_k", [](P& p) { p["cu_seqlens_k"] = {}; }},
      {"takes alibi_slopes of f32 [4] or [3, 4]",
       [](P& p) { p["alibi_slopes"] = Tensor::dense(DType::kF32, {3}); }},
      {"takes max_seqlen_q from 0 on, not -1", [](P& p) { set(p, "max_seqlen_q", int64_t{-1}); }},
      {"or k and v of e4m3", [](P& p) { p["k"].dtype = DType::kE4m3; }},
      {"or k and v of e4m3", [](P& p) { p["k"].dtype = p["v"].dtype = DType::kE5m2; }},
      {"takes scale_k where k and v are of e4m3",
       [](P& p) { p["scale_k"] = Tensor::dense(DType::kF32, {4}); }},
  };
  for (const Refused& refused : all) {
    EXPECT_THAT(told(right, refused.change), HasSubstr(refused.words));
  }
  const Problem of_8_bits = problem_of(packed(), {3, 4, 20, 30, 16, 2, 0, kKvOf8Bits});
  EXPECT_EQ(told(of_8_bits, [](Problem&) {}), "accepted");
  EXPECT_THAT(told(of_8_bits, [](P& p) { p["scale_v"] = Tensor::dense(DType::kF32, {4}); }),
              HasSubstr("takes scale_v of f32 [2] or [3, 2]"));
  const Refused of_pages[] = {
      {"takes q of 3 dimensions, k and v of 4", [](P& p) { p["k"].rank = 3; }},
      {"of pages takes seqused_k and no cu_seqlens_k", [](P& p) { p["seqused_k"] = {}; }},
      {"of pages takes seqused_k and no cu_seqlens_k",
       [](P& p) { p["cu_seqlens_k"] = Tensor::dense(DType::kI32, {4}); }},
      {"takes block_table of i32 [3, pages]", [](P& p) { p["block_table"].shape[0] = 2; }},
      {"takes block_table of i32 [3, pages]", [](P& p) { p["block_table"].dtype = DType::kI64; }},
      {"takes pages of at least one key", [](P& p) { p["k"].shape[1] = p["v"].shape[1] = 0; }},
  };
  for (const Refused& refused : of_pages) {
    EXPECT_THAT(told(paged, refused.change), HasSubstr(refused.words));
  }
}

// ---- What the device finds ----------------------------------------------------------------------

// One number that is wrong; of the three sequences those that stay right, and those of which
// nothing may be written. The others have other rows than before.
struct WrongNumber {
  const char* tensor;
  int64_t at;
  int32_t value;
  const char* words;
  std::vector<int> right;
  std::vector<int> unwritten;
};

constexpr int kRows = 10;  // of a sequence; twice as many keys
void set_numbers(const Tensor& tensor, std::initializer_list<int32_t> numbers) {
  std::ranges::copy(numbers, tensor.as<int32_t>());
}

void expect_wrong_numbers(Instance& instance, const std::vector<WrongNumber>& all) {
  const Tensor& out = instance["out"];
  const Tensor& lse = instance["lse"];
  constexpr int kOut = 11;  // place among the operation's tensors
  ASSERT_EQ(&out, &instance.problem().tensor(kOut));
  const std::vector<double> expected = instance.expected(kOut);
  for (const WrongNumber& wrong : all) {
    SCOPED_TRACE(concatenate(wrong.tensor, "[", wrong.at, "] = ", wrong.value));
    int32_t& number = instance[wrong.tensor].as<int32_t>()[wrong.at];
    const int32_t before = std::exchange(number, wrong.value);
    instance.for_each_rung([&](const Rung& rung) {
      const std::string told = instance.told(rung);
      EXPECT_THAT(told, HasSubstr(wrong.words));
      EXPECT_THAT(told, HasSubstr(rung.name));
      const auto of_sequence = static_cast<size_t>(out.elements()) / 3;
      for (const int sequence : wrong.right) {
        for (size_t i = 0; i < of_sequence; ++i) {
          const size_t at = static_cast<size_t>(sequence) * of_sequence + i;
          instance.expect_near(rung, kOut, at, expected[at]);
        }
      }
      for (const int sequence : wrong.unwritten) {
        for (size_t i = 0; i < of_sequence; ++i) {
          const size_t at = static_cast<size_t>(sequence) * of_sequence + i;
          ASSERT_TRUE(std::isnan(element(out, static_cast<int64_t>(at)))) << "out " << at;
        }
        for (int64_t head = 0; head < lse.extent(0); ++head) {
          for (int64_t row = 0; row < kRows; ++row) {
            const int64_t at = head * lse.extent(1) + sequence * kRows + row;
            ASSERT_TRUE(std::isnan(element(lse, at))) << "lse " << at;
          }
        }
      }
    });
    number = before;
  }
}

TEST(AttentionVarlen, AWrongStartIsToldAndItsSequenceIsNotWritten) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    Instance instance(problem_of(packed(), {3, 2, 3 * kRows, 6 * kRows, 64, 0, 0, kUsed}, dtype));
    set_numbers(instance["cu_seqlens_q"], {0, 10, 20, 30});
    set_numbers(instance["cu_seqlens_k"], {0, 20, 40, 60});
    set_numbers(instance["seqused_k"], {20, 7, 19});
    expect_wrong_numbers(
        instance, {
                      {"cu_seqlens_q",
                       0,
                       -1,
                       "index -1 at position 0 of 'cu_seqlens_q' is outside [0, 31)",
                       {1, 2},
                       {0}},
                      {"cu_seqlens_q",
                       3,
                       31,
                       "index 31 at position 3 of 'cu_seqlens_q' is outside [20, 31)",
                       {0, 1},
                       {2}},
                      {"cu_seqlens_q",
                       3,
                       2000000000,
                       "index 2000000000 at position 3 of 'cu_seqlens_q' is outside [20, 31)",
                       {0, 1},
                       {2}},
                      {"cu_seqlens_q",
                       2,
                       7,
                       "index 7 at position 2 of 'cu_seqlens_q' is outside [10, 31)",
                       {0},
                       {1, 2}},
                      {"cu_seqlens_k",
                       0,
                       -5,
                       "index -5 at position 0 of 'cu_seqlens_k' is outside [0, 61)",
                       {1, 2},
                       {0}},
                      {"cu_seqlens_k",
                       3,
                       61,
                       "index 61 at position 3 of 'cu_seqlens_k' is outside [40, 61)",
                       {0, 1},
                       {2}},
                      {"cu_seqlens_k",
                       2,
                       15,
                       "index 15 at position 2 of 'cu_seqlens_k' is outside [20, 61)",
                       {0},
                       {1}},
                      {"seqused_k",
                       1,
                       21,
                       "index 21 at position 1 of 'seqused_k' is outside [0, 21)",
                       {0, 2},
                       {1}},
                      {"seqused_k",
                       0,
                       -3,
                       "index -3 at position 0 of 'seqused_k' is outside [0, 21)",
                       {1, 2},
                       {0}},
                      {"seqused_k",
                       2,
                       2147483647,
                       "index 2147483647 at position 2 of 'seqused_k' is outside [0, 21)",
                       {0, 1},
                       {2}},
                  });
  }
}

TEST(AttentionVarlen, WhatIsTimedIsCountedByItsLengths) {
  Instance instance(problem_of(packed(), {3, 2, 30, 60, 64}));
  set_numbers(instance["cu_seqlens_q"], {0, 10, 12, 30});
  set_numbers(instance["cu_seqlens_k"], {0, 20, 50, 60});
  const Cost cost = packed().cost_of_data(instance.call().problem());
  EXPECT_EQ(cost.flops, 4.0 * 64 * 2 * (10 * 20 + 2 * 30 + 18 * 10));
  EXPECT_FALSE(cost.at_most);
}

TEST(AttentionVarlen, AWrongPageIsToldAndItsSequenceIsNotWritten) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    // 5 pages of 16 keys, of which a sequence has up to 4.
    Instance instance(problem_of(packed(), {3, 2, 3 * kRows, 64, 64, 0, 0, kPages}, dtype));
    set_numbers(instance["cu_seqlens_q"], {0, 10, 20, 30});
    set_numbers(instance["seqused_k"], {64, 20, 48});
    set_numbers(instance["block_table"], {4, 3, 2, 1, 0, 1, 77, -7, 2, 2, 0, 99});
    expect_wrong_numbers(instance,
                         {
                             {"block_table",
                              5,
                              5,
                              "index 5 at position 5 of 'block_table' is outside [0, 5)",
                              {0, 2},
                              {1}},
                             {"block_table",
                              3,
                              -1,
                              "index -1 at position 3 of 'block_table' is outside [0, 5)",
                              {1, 2},
                              {0}},
                             {"block_table",
                              8,
                              2147483647,
                              "index 2147483647 at position 8 of 'block_table' is outside [0, 5)",
                              {0, 1},
                              {2}},
                             {"seqused_k",
                              0,
                              65,
                              "index 65 at position 0 of 'seqused_k' is outside [0, 65)",
                              {1, 2},
                              {0}},
                         });
    // What lies behind the keys that count is nobody's page.
    instance.expect_right();
  }
}

// Of keys that several blocks share, none may write what another has found to be wrong.
TEST(AttentionVarlen, AWrongPageOfKeysThatBlocksShare) {
  Instance instance(problem_of(packed(), {3, 2, 3 * kRows, 640, 64, 0, 0, kPages}, DType::kBf16));
  set_numbers(instance["cu_seqlens_q"], {0, 10, 20, 30});
  set_numbers(instance["seqused_k"], {640, 600, 300});
  const auto is = [](int64_t at, std::vector<int> right, int unwritten) -> WrongNumber {
    return {"block_table",    at,         41, "of 'block_table' is outside [0, 41)",
            std::move(right), {unwritten}};
  };
  expect_wrong_numbers(instance, {is(0, {1, 2}, 0), is(20, {1, 2}, 0), is(39, {1, 2}, 0),
                                  is(40 + 37, {0, 2}, 1), is(2 * 40 + 18, {0, 1}, 2)});
}

TEST(AttentionVarlen, AWrongScaleIsToldAndItsHeadsAreNotWritten) {
  Instance instance(problem_of(packed(), {2, 4, 2, 300, 64, 2, 0, kPages | kKvOf8Bits | kKvScales},
                               DType::kBf16));
  set_numbers(instance["cu_seqlens_q"], {0, 1, 2});
  set_numbers(instance["seqused_k"], {300, 280});
  struct Wrong {
    const char* tensor;
    int64_t at;
    double scale;
    const char* words;
    std::vector<int> heads;  // of the first sequence, and four more of the second
  };
  const Wrong all[] = {
      {"scale_k", 3, -1, "scale -1 at position 3 of 'scale_k' is not above 0", {6, 7}},
      {"scale_v", 0, NAN, "scale nan at position 0 of 'scale_v'", {0, 1, 4, 5}},
  };
  constexpr int kOut = 11;
  const std::vector<double> expected = instance.expected(kOut);
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.words);
    const double before = element(instance[wrong.tensor], wrong.at);
    set_element(instance[wrong.tensor], wrong.at, wrong.scale);
    EXPECT_EQ(3, instance.for_each_rung([&](const Rung& rung) {
      EXPECT_THAT(instance.told(rung), HasSubstr(wrong.words));
      for (int head = 0; head < 8; ++head) {
        const bool is_written = std::ranges::count(wrong.heads, head) == 0;
        for (int64_t i = 0; i < 64; ++i) {
          const size_t at = static_cast<size_t>(head) * 64 + static_cast<size_t>(i);
          if (is_written) {
            instance.expect_near(rung, kOut, at, expected[at]);
          } else {
            ASSERT_TRUE(std::isnan(element(instance["out"], static_cast<int64_t>(at)))) << at;
          }
        }
      }
    }));
    set_element(instance[wrong.tensor], wrong.at, before);
  }
}

// Queries of bf16 that no f16 can hold, in rows of their own size, beside such as can.
TEST(AttentionVarlen, QueriesOutOfRangeOverKeysOf8Bits) {
  for (const int exponent : {-110, -40, 60, 110}) {
    SCOPED_TRACE(exponent);
    Problem problem =
        problem_of(packed(), {2, 4, 2, 300, 64, 1, 0, kPages | kKvOf8Bits}, DType::kBf16);
    set(problem, "scale", std::ldexp(0.125, -exponent));
    set(problem, "max_seqlen_q", int64_t{1});
    Instance instance(problem);
    set_numbers(instance["cu_seqlens_q"], {0, 1, 2});
    set_numbers(instance["seqused_k"], {300, 50});
    const Tensor& q = instance["q"];
    for (int64_t i = 0; i < q.elements(); ++i) {
      // In one row of eight a number is far below the others.
      const int by = i >= 64 || i % 8 != 0 ? exponent : exponent - 12;
      set_element(q, i, std::ldexp(element(q, i), by));
    }
    EXPECT_EQ(3, instance.for_each_rung([&](const Rung& rung) { instance.expect_right(rung); }));
  }
}

// Latent attention: a value is what its key begins with. Of up to 16 rows, 32 and 64, and more.
TEST(AttentionVarlen, ValuesThatLieInKeys) {
  for (const auto& [heads, queries] : {std::pair{16, 1}, {12, 2}, {40, 2}, {128, 1}}) {
    SCOPED_TRACE(heads * queries);
    Problem problem =
        problem_of(packed(), {2, heads, 2 * queries, 330, 576, 1, 512, kPages}, DType::kBf16);
    problem["v"].strides = problem["k"].strides;
    set(problem, "max_seqlen_q", int64_t{queries});
    set(problem, "causal", true);
    Instance instance(problem);
    instance["v"].data = instance["k"].data;
    set_numbers(instance["cu_seqlens_q"], {0, queries, 2 * queries});
    set_numbers(instance["seqused_k"], {330, 100});
    EXPECT_EQ(3, instance.for_each_rung([&](const Rung& rung) { instance.expect_right(rung); }));
    EXPECT_EQ(best(instance.call(), runtime::capability()).name, "split_kv_mla_wgmma");
  }
  Problem problem = problem_of(dense(), {1, 16, 1, 600, 576, 1, 512}, DType::kF16);
  problem["v"].strides = problem["k"].strides;
  Instance instance(problem);
  instance["v"].data = instance["k"].data;
  EXPECT_EQ(best(instance.call(), runtime::capability()).name, "split_kv_mla_wgmma");
  instance.expect_right();
  instance.expect_right();  // what tells which rows were cut is as it was before
}

// Of few queries keys are shared out, unless they are few, too, or there are blocks enough.
TEST(Attention, BestOfFewQueries) {
  const auto chosen = [](int64_t heads, int64_t queries, int64_t keys, int64_t dim = 64) {
    Instance instance(
        problem_of(dense(), {1, heads, queries, keys, dim, heads, dim}, DType::kBf16));
    return std::string(best(instance.call(), 90).name);
  };
  const int64_t many = device_facts().multiprocessors;
  EXPECT_EQ(chosen(many, 40, 40), "wgmma_blocks");
  EXPECT_EQ(chosen(many, 40, 300, 128), "wgmma_blocks");
  EXPECT_EQ(chosen(1, 40, 100), "wgmma_blocks");
  EXPECT_EQ(chosen(1, 40, 40, 192), "wgmma_speculative");
  EXPECT_EQ(chosen(4, 197, 197), "wgmma_blocks");
  EXPECT_EQ(chosen(4, 300, 300), "wgmma_speculative");
  EXPECT_EQ(chosen(1, 40, 300), "split_kv");
  EXPECT_EQ(chosen(many, 1, 40), "split_kv_transposed");
}

// Queries that are not their keys: as packed, all tensors begin with the same numbers.
void fill_apart(Instance& instance) {
  for (const int index : {0, 5}) {  // q and dout
    packed_backward().fill(instance.problem(), index, 71 + static_cast<uint64_t>(index));
  }
}

// Rows of dq, dk and dv: those of right sequences as they are without the wrong number, those of
// others 0. Which rows a wrong start leaves to the sequence behind it is its own affair.
TEST(AttentionVarlenBackward, AWrongNumberIsToldAndItsSequenceGetsZeros) {
  struct Wrong {
    const char* tensor;
    int64_t at;
    int32_t value;
    const char* words;
    std::vector<int> right, zeros;
  };
  const Wrong all[] = {
      {"cu_seqlens_q", 0, -1, "index -1 at position 0 of 'cu_seqlens_q'", {1, 2}, {0}},
      {"cu_seqlens_q", 3, 31, "index 31 at position 3 of 'cu_seqlens_q'", {0, 1}, {2}},
      {"cu_seqlens_q", 3, 2000000000, "index 2000000000 at position 3", {0, 1}, {2}},
      {"cu_seqlens_q", 2, 7, "index 7 at position 2 of 'cu_seqlens_q'", {0}, {1, 2}},
      {"cu_seqlens_k", 0, -5, "index -5 at position 0 of 'cu_seqlens_k'", {1, 2}, {0}},
      {"cu_seqlens_k", 3, 61, "index 61 at position 3 of 'cu_seqlens_k'", {0, 1}, {2}},
      {"cu_seqlens_k", 3, -2147483647, "index -2147483647 at position 3", {0, 1}, {2}},
      {"seqused_k", 1, 21, "index 21 at position 1 of 'seqused_k'", {0, 2}, {1}},
      {"seqused_k", 0, -3, "index -3 at position 0 of 'seqused_k'", {1, 2}, {0}},
      {"seqused_k", 2, 2147483647, "index 2147483647 at position 2", {0, 1}, {2}},
  };
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    Instance instance(make_problem(
        packed_backward(),
        {.extents = {3, 2, 3 * kRows, 6 * kRows, 64, 1, 0, AttentionVarlenBackward::kWithUsed}},
        dtype));
    set_numbers(instance["cu_seqlens_q"], {0, 10, 20, 30});
    set_numbers(instance["cu_seqlens_k"], {0, 20, 40, 60});
    set_numbers(instance["seqused_k"], {20, 7, 19});
    for (int64_t i = 0; i < instance["lse"].elements(); ++i) set_element(instance["lse"], i, 3.5);
    fill_apart(instance);
    constexpr int kFirst = 11;  // dq, dk, dv
    ASSERT_EQ(&instance["dq"], &instance.problem().tensor(kFirst));
    const std::vector<double> expected[] = {
        instance.expected(kFirst), instance.expected(kFirst + 1), instance.expected(kFirst + 2)};
    for (const Wrong& wrong : all) {
      SCOPED_TRACE(wrong.words);
      int32_t& number = instance[wrong.tensor].as<int32_t>()[wrong.at];
      const int32_t before = std::exchange(number, wrong.value);
      EXPECT_EQ(dtype == DType::kF32 ? 2 : 5, instance.for_each_rung([&](const Rung& rung) {
        const std::string told = instance.told(rung);
        EXPECT_THAT(told, HasSubstr(wrong.words));
        EXPECT_THAT(told, HasSubstr(rung.name));
        for (int index = kFirst; index < kFirst + 3; ++index) {
          const Tensor& gradient = instance.problem().tensor(index);
          const size_t count = static_cast<size_t>(gradient.elements()) / 3;
          for (size_t i = 0; i < count; ++i) {
            for (const int sequence : wrong.right) {
              const size_t at = static_cast<size_t>(sequence) * count + i;
              instance.expect_near(rung, index, at, expected[index - kFirst][at]);
            }
            for (const int sequence : wrong.zeros) {
              const size_t at = static_cast<size_t>(sequence) * count + i;
              ASSERT_EQ(element(gradient, static_cast<int64_t>(at)), 0) << at;
            }
          }
        }
      }));
      number = before;
    }
  }
}

// A merge would take -inf for a part that saw nothing, and drop what is wrong.
TEST(Attention, ARowOfNanHasAnLseOfNan) {
  for (const int64_t dim : {64, 320}) {
    Instance instance(problem_of(dense(), {1, 2, 20, 24, dim}, DType::kF16));
    set_element(instance["q"], 3, std::numeric_limits<double>::quiet_NaN());
    EXPECT_GE(instance.for_each_rung([&](const Rung& rung) {
      instance.run(rung);
      EXPECT_TRUE(std::isnan(element(instance["lse"], 0)));
      EXPECT_TRUE(std::isfinite(element(instance["lse"], 1)));
    }),
              2);
  }
}

// One number that is not finite makes its own sequence's gradients so, and leaves the workspace's
// zeros to the next call (Instance::run asks).
TEST(AttentionVarlenBackward, WhatIsNotFiniteStaysInItsSequence) {
  for (const char* name : {"k", "v"}) {
    SCOPED_TRACE(name);
    Instance instance(
        make_problem(packed_backward(), {.extents = {2, 2, 80, 80, 64}}, DType::kF16));
    set_numbers(instance["cu_seqlens_q"], {0, 40, 80});
    set_numbers(instance["cu_seqlens_k"], {0, 40, 80});
    for (int64_t i = 0; i < instance["lse"].elements(); ++i) set_element(instance["lse"], i, 3.5);
    set_element(instance[name], 7, std::numeric_limits<double>::infinity());
    const Tensor& dq = instance["dq"];
    EXPECT_GE(instance.for_each_rung([&](const Rung& rung) {
      instance.run(rung);
      const int64_t half = dq.elements() / 2;
      for (int64_t i = half; i < dq.elements(); ++i) {
        ASSERT_TRUE(std::isfinite(element(dq, i))) << "element " << i;
      }
    }),
              5);
  }
}

TEST(AttentionVarlenBackward, WhatIsTimedIsCountedByItsLengths) {
  Instance instance(make_problem(packed_backward(), {.extents = {3, 2, 30, 60, 64}}, DType::kF32));
  set_numbers(instance["cu_seqlens_q"], {0, 10, 12, 30});
  set_numbers(instance["cu_seqlens_k"], {0, 20, 50, 60});
  const Cost cost = packed_backward().cost_of_data(instance.call().problem());
  EXPECT_EQ(cost.flops, 2.0 * 5 * 64 * 2 * (10 * 20 + 2 * 30 + 18 * 10));
  EXPECT_FALSE(cost.at_most);
}

TEST(AttentionVarlenBackward, CallsThatAreRefused) {
  using P = Problem;
  const Problem right =
      make_problem(packed_backward(), {.extents = {3, 4, 20, 30, 16}}, DType::kF32);
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  const Refused all[] = {
      {"takes q of 3 dimensions, k and v of 3", [](P& p) { p["v"].rank = 2; }},
      {"a multiple of those of k, not 4 of 3", [](P& p) { p["k"].shape[1] = p["v"].shape[1] = 3; }},
      {"takes cu_seqlens_q of i32 [B + 1]", [](P& p) { p["cu_seqlens_q"].dtype = DType::kI64; }},
      {"takes cu_seqlens_k of i32 [4]", [](P& p) { p["cu_seqlens_k"].shape[0] = 3; }},
      {"takes seqused_k of i32 [3]",
       [](P& p) { p["seqused_k"] = Tensor::dense(DType::kI32, {4}); }},
      {"takes alibi_slopes of f32 [4] or [3, 4]",
       [](P& p) { p["alibi_slopes"] = Tensor::dense(DType::kF32, {3}); }},
      {"takes dout of f32 [20, 4, 16]", [](P& p) { p["dout"].shape[0] = 19; }},
      {"takes o of f32 [20, 4, 16]", [](P& p) { p["o"].dtype = DType::kF16; }},
      {"takes lse of f32 [4, 20]", [](P& p) { p["lse"] = Tensor::dense(DType::kF32, {20, 4}); }},
      {"takes dlse of f32 [4, 20]", [](P& p) { p["dlse"] = Tensor::dense(DType::kF32, {20}); }},
  };
  for (const Refused& refused : all) {
    EXPECT_THAT(told(right, refused.change), HasSubstr(refused.words));
  }
}

// ---- Of 8 bits ----------------------------------------------------------------------------------

TEST(ScaledAttention, CallsThatAreRefused) {
  using P = Problem;
  const Problem right = problem_of(scaled(), {2, 4, 5, 7, 16, 2, 0, kScales}, DType::kE4m3);
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  const Refused all[] = {
      {"of one dtype of e4m3", [](P& p) { p["k"].dtype = DType::kE5m2; }},
      {"of one dtype of e4m3", [](P& p) { p["q"].dtype = DType::kF16; }},
      {"a multiple of those of k, not 4 of 3", [](P& p) { p["k"].shape[1] = p["v"].shape[1] = 3; }},
      {"takes one batch", [](P& p) { p["k"].shape[0] = p["v"].shape[0] = 1; }},
      {"takes scale_q of f32 [4] or [2, 4]",
       [](P& p) { p["scale_q"] = Tensor::dense(DType::kF32, {2}); }},
      {"takes scale_k of f32 [2] or [2, 2]",
       [](P& p) { p["scale_k"] = Tensor::dense(DType::kF32, {4}); }},
      {"takes scale_v of f32 [2] or [2, 2]",
       [](P& p) { p["scale_v"] = Tensor::dense(DType::kF16, {2}); }},
      {"takes a finite scale", [](P& p) { set(p, "scale", double{NAN}); }},
  };
  for (const Refused& refused : all) {
    const std::string words = told(right, refused.change);
    EXPECT_THAT(words, HasSubstr(refused.words));
    EXPECT_THAT(words, HasSubstr("scaled_attention takes"));
  }
}

TEST(ScaledAttention, AWrongScaleIsToldAndItsHeadsAreNotWritten) {
  constexpr int64_t kQueries = 70;
  Instance instance(problem_of(scaled(), {2, 4, kQueries, 40, 64, 2, 0, kScales}, DType::kE4m3));
  struct Wrong {
    const char* tensor;
    int64_t at;
    double scale;
    const char* words;
    int first, last;  // of the 8 heads of all batches
  };
  const Wrong all[] = {
      {"scale_q", 6, -1, "scale -1 at position 6 of 'scale_q' is not above 0", 6, 7},
      {"scale_k", 1, 0, "scale 0 at position 1 of 'scale_k' is not above 0", 2, 4},
      {"scale_k", 2, INFINITY, "scale inf at position 2 of 'scale_k'", 4, 6},
      {"scale_q", 0, NAN, "scale nan at position 0 of 'scale_q'", 0, 1},
  };
  const std::vector<double> expected = instance.expected(6);
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.words);
    const double before = element(instance[wrong.tensor], wrong.at);
    set_element(instance[wrong.tensor], wrong.at, wrong.scale);
    EXPECT_EQ(2, instance.for_each_rung([&](const Rung& rung) {
      EXPECT_THAT(instance.told(rung), HasSubstr(wrong.words));
      for (int64_t head = 0; head < 8; ++head) {
        const bool is_written = head < wrong.first || head >= wrong.last;
        for (int64_t i = 0; i < kQueries; ++i) {
          const int64_t row = head * kQueries + i;
          ASSERT_EQ(std::isnan(element(instance["lse"], row)), !is_written) << row;
          ASSERT_EQ(std::isnan(element(instance["out"], row * 64 + 5)), !is_written) << row;
        }
        if (!is_written) continue;
        const auto at = static_cast<size_t>(head * kQueries * 64);
        instance.expect_near(rung, 6, at, expected[at]);
      }
    }));
    set_element(instance[wrong.tensor], wrong.at, before);
  }
}

TEST(ScaledAttention, OutputsOfF16AndOtherStrides) {
  Problem problem = problem_of(scaled(), {2, 4, 70, 90, 64, 2, 48}, DType::kE4m3);
  set(problem, "out_dtype", Value::choice(1));
  problem["q"].strides = {70 * 4 * 64, 64, 4 * 64, 1};
  problem["scale_k"] = Tensor::dense(DType::kF32, {2});
  problem["scale_v"] = Tensor::dense(DType::kF32, {2, 2});
  Instance(problem).expect_right();
  problem["k"].strides[3] = 2;
  problem["k"].strides[2] = 130;
  Instance(problem).expect_right();
}

// ---- Strides, and what a rung has to leave alone -----------------------------------------------

TEST(Attention, AnyStrides) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    Problem problem = problem_of(dense(), {2, 4, 9, 21, 16}, dtype);
    // Columns apart; heads of keys that are all one; values of a transposed matrix.
    problem["q"].strides[3] = 2;
    problem["q"].strides[2] = 33;
    problem["k"].strides[1] = 0;
    problem["v"].strides[2] = 1;
    problem["v"].strides[3] = 21;
    problem["bias"] = Tensor::dense(DType::kF32, {4, 1, 21});
    problem["alibi_slopes"] = Tensor::dense(DType::kF32, {2, 4});
    problem["sinks"] = Tensor::dense(DType::kF32, {4});
    set(problem, "softcap", 2.0);
    set(problem, "window_right", int64_t{3});
    Instance(problem).expect_right();
    // The same bias for all of a batch, of the dtype of q, rows apart.
    problem["bias"] = Tensor::dense(dtype, {2, 1, 9, 21});
    problem["bias"].strides[2] = 40;
    problem["bias"].strides[0] = 400;
    Instance(problem).expect_right();
  }
}

// More queries than keys, causal: the first see nothing, or the sink alone.
TEST(Attention, RowsThatSeeNothing) {
  for (const bool has_sinks : {false, true}) {
    Problem problem = problem_of(dense(), {1, 2, 40, 8, 64}, DType::kF16);
    set(problem, "causal", true);
    if (has_sinks) problem["sinks"] = Tensor::dense(DType::kF32, {2});
    Instance instance(problem);
    instance.expect_right();
    const std::vector<double> lse = instance.expected(7);
    EXPECT_EQ(lse[31], has_sinks ? element(instance["sinks"], 0) : -INFINITY);
    EXPECT_TRUE(std::isfinite(lse[32]));
  }
}

// Keys behind the diagonal, the window or the sequence's last are not there, whatever they hold;
// NaN of a query is that query's.
TEST(Attention, WhatIsNotSeenDoesNotCount) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    Problem problem = problem_of(dense(), {1, 1, 30, 30, 64}, dtype);
    set(problem, "causal", true);
    Instance instance(problem);
    const std::vector<double> expected = instance.expected(6);
    for (int64_t d = 0; d < 64; ++d) {
      set_element(instance["k"], 20 * 64 + d, NAN);
      set_element(instance["q"], 5 * 64 + d, NAN);
    }
    const int takers = instance.for_each_rung([&](const Rung& rung) {
      instance.run(rung);
      for (int64_t row = 0; row < 30; ++row) {
        for (int64_t d = 0; d < 64; ++d) {
          const int64_t at = row * 64 + d;
          const double got = element(instance["out"], at);
          if (row == 5 || row >= 20) {
            ASSERT_TRUE(std::isnan(got)) << "row " << row;
          } else {
            instance.expect_near(rung, 6, static_cast<size_t>(at),
                                 expected[static_cast<size_t>(at)]);
          }
        }
      }
    });
    EXPECT_GE(takers, 2);
  }
}

// Keys that a query likes ever better, whichever end a rung begins at, in steps of all sizes: the
// maximum grows a little, by more than f16 has weights for, and by more than f32 has.
void expect_right_of_maxima_that_grow(const Operation& operation, DType dtype) {
  constexpr int64_t kKeys = 280;
  for (const int64_t dim : {64, 128, 256}) {
    SCOPED_TRACE(dim);
    Instance instance(problem_of(operation, {1, 1, 35, kKeys, dim}, dtype));
    for (const bool backwards : {false, true}) {
      for (const float size : {1.0F, 60.0F}) {
        for (int step = 0; step < 5; ++step) {
          const int64_t key = step * 55 + 7;
          for (int64_t d = 0; d < dim; ++d) {
            const double liked = element(instance["q"], step % 3 * 17 * dim + d);
            set_element(instance["k"], (backwards ? kKeys - 1 - key : key) * dim + d,
                        liked * size * static_cast<float>(step));
          }
        }
        SCOPED_TRACE(size);
        instance.expect_right();
      }
    }
  }
}

TEST(Attention, MaximaThatGrow) { expect_right_of_maxima_that_grow(dense(), DType::kBf16); }
TEST(ScaledAttention, MaximaThatGrow) { expect_right_of_maxima_that_grow(scaled(), DType::kE4m3); }

// Gradients of any strides, and a query of which the forward is said to have seen nothing.
TEST(AttentionBackward, OutputsAnywhereAndAQueryWithoutWeights) {
  for (const int64_t dim : {40, 128}) {
    Problem problem = make_problem(backward(), {.extents = {1, 2, 70, 35, dim, 1}}, DType::kBf16);
    problem["dq"].strides[2] = dim + 3;
    problem["dq"].strides[1] = 70 * (dim + 3);
    problem["dk"].strides[3] = 2;
    problem["dk"].strides[2] = 2 * dim;
    Instance instance(problem);
    set_element(instance["lse"], 5, -INFINITY);
    for (const char* rung : {"backward_any", "backward_mma", "backward_mma_atomic"}) {
      SCOPED_TRACE(rung);
      instance.expect_right(instance.rung(rung));
    }
    EXPECT_EQ(element(instance["dq"], 5 * (dim + 3)), 0);
  }
}

TEST(AttentionVarlenBackward, OutputsAnywhereAndHeadsBeforeRows) {
  for (const int64_t dim : {40, 128}) {
    Problem problem =
        make_problem(packed_backward(), {.extents = {3, 2, 170, 155, dim, 1}}, DType::kBf16);
    // As in [heads, rows, columns]; dq and dk anywhere.
    problem["q"].strides = {dim, 170 * dim, 1};
    problem["dout"].strides = {dim, 170 * dim, 1};
    problem["lse"].strides = {1, 2};
    problem["dq"].strides[0] = 2 * (dim + 3);
    problem["dq"].strides[1] = dim + 3;
    problem["dk"].strides[2] = 2;
    problem["dk"].strides[0] = 2 * dim;
    Instance instance(problem);
    fill_apart(instance);
    instance.expect_right();
  }
}

Reason why(std::string_view rung, const Problem& problem) {
  for (const Rung* each : family_of(dense()).rungs) {
    if (each->name == rung) return why_not(*each, AnyCall(problem), runtime::capability());
  }
  return Reason("no such rung");
}

// Of a tile of both, mma.sync's is the fastest, and deterministic.
TEST(AttentionBackward, BestOfShortSequences) {
  const auto chosen = [](int64_t queries, int64_t keys) {
    const AnyCall call(
        make_problem(backward(), {.extents = {2, 4, queries, keys, 64}}, DType::kBf16));
    return std::string(best(call, 90).name);
  };
  EXPECT_EQ(chosen(64, 64), "backward_mma");
  EXPECT_EQ(chosen(65, 64), "backward_wgmma_atomic");
  EXPECT_EQ(chosen(20, 70), "backward_wgmma_atomic");
}

TEST(AttentionBackward, TensorCoresSayWhatTheyDoNotTake) {
  const auto of_dim = [](int64_t dim) {
    return make_problem(backward(), {.extents = {1, 2, 9, 9, dim}}, DType::kF16);
  };
  const auto told_of = [&](const std::function<void(Problem&)>& change) {
    Problem problem = of_dim(64);
    change(problem);
    return why("backward_mma", Instance(problem).problem());  // what exists has memory
  };
  EXPECT_EQ(why("backward_mma", of_dim(64)), "");
  EXPECT_THAT(why("backward_mma", of_dim(129)), HasSubstr("takes D and Dv up to 128"));
  EXPECT_THAT(told_of([](Problem& p) { p["bias"] = Tensor::dense(DType::kF32, {9, 9}); }),
              HasSubstr("takes no bias"));
  EXPECT_THAT(told_of([](Problem& p) { set(p, "softcap", 2.0); }), HasSubstr("takes no softcap"));
  EXPECT_THAT(told_of([](Problem& p) { set(p, "score_gradient", true); }),
              HasSubstr("gives no dscores"));
  EXPECT_THAT(told_of([](Problem& p) { p["dout"].strides[2] = 68; }),
              HasSubstr("needs rows of dout that begin at multiples of 16 bytes"));
}

TEST(Attention, ARungSaysWhatItDoesNotTake) {
  const Problem plain = problem_of(dense(), {1, 2, 9, 9, 16});
  Problem grouped = problem_of(dense(), {1, 4, 9, 9, 16, 2});
  Problem capped = plain;
  set(capped, "softcap", 1.0);
  Problem apart = plain;
  apart["k"].strides[1] = 200;
  for (const char* rung : {"naive", "materialized", "online", "tiled"}) {
    EXPECT_EQ(why(rung, plain), "");
    EXPECT_THAT(why(rung, grouped), HasSubstr("a head of keys for each of q"));
    EXPECT_THAT(why(rung, capped), HasSubstr("takes no softcap"));
    EXPECT_THAT(why(rung, apart), HasSubstr("needs a dense k"));
  }
  const Problem wide = problem_of(dense(), {1, 1, 9, 9, 129});
  EXPECT_EQ(why("materialized", wide), "");
  for (const char* rung : {"online", "tiled"}) {
    EXPECT_THAT(why(rung, wide), HasSubstr("rows of up to 128 values, not 129"));
  }
}

}  // namespace
}  // namespace ws::attention
