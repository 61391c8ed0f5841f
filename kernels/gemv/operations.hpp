// GEMV: what every rung of the family computes.
//
//   y[M] = op(A) x, accumulated in f32, rounded once to the dtype of the inputs.
//
// `layout` says how A is stored, row by row: [M, K] (n) or [K, M] (t). A transposed view says the
// same: rungs look at strides alone, and call A `rows` where K is contiguous, `columns` where M is.
#pragma once

#include "catalogue/row.hpp"

namespace ws::gemv {

// One call, transposes resolved: y[i] = sum over j of A[i, j] x[j], and A[i, j] lies at
// i * row + j * column. An extent of 1 has no stride of its own: it is 0 here, in vectors 1; a
// single row is called rows.
struct Call {
  DType dtype{};
  int64_t m = 0;
  int64_t k = 0;
  const void* a = nullptr;
  int64_t row = 0;  // strides in elements
  int64_t column = 0;
  const void* x = nullptr;
  int64_t x_step = 1;
  void* y = nullptr;
  int64_t y_step = 1;

  bool has_rows() const { return column == 1 || k <= 1; }
  bool has_columns() const { return row == 1; }
};

struct Gemv {
  enum class Layout : uint8_t { kN, kT };
  static constexpr std::string_view kLayouts[] = {"n", "t"};

  static constexpr std::string_view kName = "gemv";
  static constexpr std::string_view kSummary = "matrix times vector, accumulated in f32";
  static constexpr std::string_view kSource =
      "Dongarra et al., An Extended Set of FORTRAN Basic Linear Algebra Subprograms, 1988";
  static constexpr std::string_view kFormula = "y[i] = sum over k of a[i, k] * x[k]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[M, K], or [K, M] where layout is t; any strides"},
      {.name = "x", .doc = "[K], dtype of a, any stride"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M], dtype of a",
       .shape = "(a.shape[layout == 't'],)"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "layout",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kLayouts,
       .doc = "how a is stored: n as it is multiplied, t transposed"},
  };
  static constexpr std::string_view kExtentNames[] = {"M", "K", "step"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = "torch.mv(a.t() if layout == 't' else a, x)";
  // dA is the outer product of g and x, whose every element is one product; dx = op(A)^T g.
  static constexpr std::string_view kGradient =
      "(g.unsqueeze(1) * x if layout == 'n' else x.unsqueeze(1) * g, "
      "ops.gemv(a, g, layout='t' if layout == 'n' else 'n'))";

  using Call = gemv::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

// A case by M and K; padding widens the rows of A, x and y have a stride of `step`.
constexpr Case shape(int64_t m, int64_t k, Gemv::Layout layout, int64_t padding = 0, int offset = 0,
                     int64_t step = 1) {
  return {.extents = {m, k, step},
          .offset = offset,
          .padding = padding,
          .attributes = {Value::choice(static_cast<int>(layout))}};
}

}  // namespace ws::gemv
