// Five operations that are there for what their ladders teach; nobody needs their results.
//
//   coalescing       y = x
//   bank_conflicts   y = x, each 32 x 32 tile transposed `rounds` times
//   warp_divergence  a polynomial of the even elements, another of the odd ones
//   unrolling        y = the sum of (1 + k mod 8) x^k over `terms` k
//   occupancy        y = x
//
// Each is chosen so that what its ladder changes is what an H200 spends its time on.
#pragma once

#include <array>

#include "catalogue/row.hpp"

namespace ws::lessons {

struct Call {
  const float* x;
  float* y;
  int64_t count;  // of elements
  int rounds;     // `rounds`, `degree` or `terms`; 0 where there is no such attribute
};

// What the operations share. Inputs are dense: how rungs reach memory is what they are told for.
struct Lesson {
  static constexpr std::string_view kSource = "NVIDIA, CUDA C++ Best Practices Guide";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape, f32, contiguous"},
      {.name = "y", .role = Parameter::Role::kOut, .doc = "as x"},
  };
  static constexpr std::string_view kExtentNames[] = {"elements"};
  static constexpr DTypes kDTypes = {DType::kF32};

  using Call = lessons::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
};

// A copy.
struct Copy : Lesson {
  static constexpr std::string_view kFormula = "y[i] = x[i]";
  static constexpr std::string_view kTorch = "x.clone()";
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

struct Coalescing : Copy {
  static constexpr std::string_view kName = "coalescing";
  static constexpr std::string_view kSummary = "A copy: which lanes ask for which bytes together";
};

struct Occupancy : Copy {
  static constexpr std::string_view kName = "occupancy";
  static constexpr std::string_view kSummary = "A copy: how much must be in flight to fill a bus";
};

struct BankConflicts : Lesson {
  static constexpr std::string_view kName = "bank_conflicts";
  static constexpr std::string_view kSummary =
      "Tiles of 32 x 32 transposed again and again in shared memory: lanes that meet in a bank";
  static constexpr std::string_view kFormula =
      "y[t, i, j] = rounds % 2 == 0 ? x[t, i, j] : x[t, j, i]";
  static constexpr std::string_view kTorch = "(x.mT if rounds % 2 else x).contiguous().clone()";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[tiles, 32, 32], f32, contiguous"},
      {.name = "y", .role = Parameter::Role::kOut, .doc = "as x"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "rounds", .kind = Value::Kind::kInt, .doc = "of transposing, from 0 on"},
  };
  static constexpr std::string_view kExtentNames[] = {"tiles"};
  static constexpr int kTile = 32;  // rows and columns

  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

struct WarpDivergence : Lesson {
  static constexpr std::string_view kName = "warp_divergence";
  static constexpr std::string_view kSummary =
      "A polynomial of the even elements, another of the odd ones: lanes that want another branch";
  static constexpr std::string_view kFormula =
      "y[i] = sum of (i % 2 == 0 ? x[i] : -x[i])^k over k = 0 .. degree";
  static constexpr std::string_view kTorch = R"(
sign = 1 - 2 * (torch.arange(x.numel(), device=x.device) % 2).reshape(x.shape)
y = torch.ones_like(x)
for _ in range(degree):
    y = y * (sign * x) + 1
return y)";
  static constexpr Attribute kAttributes[] = {
      {.name = "degree", .kind = Value::Kind::kInt, .doc = "of the polynomials, from 0 on"},
  };

  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

struct Unrolling : Lesson {
  static constexpr std::string_view kName = "unrolling";
  static constexpr std::string_view kSummary =
      "A long sum in a thread's registers: loops, and chains of additions that wait for each other";
  static constexpr std::string_view kFormula =
      "y[i] = sum of (1 + k % 8) * x[i]^k over k = 0 .. terms - 1";
  static constexpr std::string_view kTorch = R"(
z = x.double()
period = sum((1 + k) * z**k for k in range(8))
return (period * (1 - z**terms) / (1 - z**8)).float())";
  static constexpr Attribute kAttributes[] = {
      {.name = "terms", .kind = Value::Kind::kInt, .doc = "a multiple of 8, from 8 on"},
  };
  static constexpr int kPeriod = 8;  // of the coefficients

  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

}  // namespace ws::lessons
