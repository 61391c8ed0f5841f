// The operations: tensors with their dimensions in another order, written out.
//
//   transpose   two dimensions trade places: y[..., j, ..., i, ...] = x[..., i, ..., j, ...]
//   permute     any order of all dimensions
//
// Elements are bits that move: what they mean does not matter, only how many bytes they have.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/operations.hpp"

namespace ws::transpose {

using reduce::Loop;  // strides are of x and of y, in elements

// ---- What rungs see of a call -------------------------------------------------------------------

enum Operand { kX, kY };

// The loops of a call, by y's strides, outermost first; those of one step are gone, neighbours that
// walk on where the next one ends are one. Elements that lie side by side in both tensors are taken
// for one of up to 8 bytes.
struct Permutation {
  const void* x = nullptr;
  void* y = nullptr;
  int element_bytes = 4;  // 1, 2, 4, 8 or, of widened(), 16
  uint8_t rank = 0;
  std::array<Loop, kMaxRank> loops{};

  int64_t elements() const;
  const Loop& inner() const { return loops[static_cast<size_t>(rank - 1)]; }
  // The elements of the inner loop, where they lie side by side in both tensors; else 1.
  int64_t run() const;
  // The elements from the lowest to behind the highest of a tensor, counted from its first.
  struct Reach {
    int64_t lowest = 0;
    int64_t end = 1;
  };
  Reach reach(Operand tensor) const;
  // Both tensors begin, and all loops but the inner one step, at multiples of so many bytes.
  bool is_aligned(int64_t bytes) const;
};

// The same with elements of up to `bytes`, where runs, strides and addresses permit.
Permutation widened(Permutation call, int bytes);

// A call seen as a batch of matrices of x, each written with rows and columns exchanged.
// Element (row, column) lies at x[row * x_pitch + column] and y[column * y_pitch + row].
struct Matrices {
  int64_t batch = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t x_pitch = 1;
  int64_t y_pitch = 1;
  int64_t x_batch = 0;
  int64_t y_batch = 0;

  bool is_dense() const { return batch == 1 && x_pitch == columns && y_pitch == rows; }
};
// Whether a call is that.
bool as_matrices(const Permutation& call, Matrices& matrices);
// The same of a call that is_matrix() or are_matrices() took.
Matrices matrices_of(const Permutation& call);

// One dense matrix, as the bottom rungs want it, with columns (rows) of a multiple of so many
// elements, which start at a multiple of as many.
bool is_matrix(const Permutation& call, Why& why);
bool has_whole_columns(const Permutation& call, int64_t width, Why& why);
bool has_whole_rows(const Permutation& call, int64_t width, Why& why);
// A batch of matrices whose rows start at multiples of 16 bytes, and are whole pieces of 16 in y.
bool are_matrices(const Permutation& call, Why& why);

// visit.operator()<T>() with an unsigned integer as large as an element.
template <class Visit>
void with_element(int bytes, Visit&& visit) {
  switch (bytes) {
    case 1: return visit.template operator()<uint8_t>();
    case 2: return visit.template operator()<uint16_t>();
    case 4: return visit.template operator()<uint32_t>();
    default: return visit.template operator()<uint64_t>();
  }
}

// Whether none of y lies between elements of x, as columns of one matrix do.
bool lie_apart(const Permutation& call);

// ---- The operations -----------------------------------------------------------------------------

// Extents are those of x, a 0 left out of it (kEmpty is an extent of 0). `layout` 1 lays its last
// two dimensions out the other way round, 2 repeats one element along the first; `step` > 1 leaves
// gaps between elements. Padding is between rows.
inline constexpr int64_t kEmpty = -1;
inline constexpr std::string_view kTensorExtents[] = {"n0", "n1", "n2",     "n3",
                                                      "n4", "n5", "layout", "step"};

// x as y shows it: its dimensions in the order of y's. Throws where the call names none.
Tensor view_of_transpose(const Problem& problem);
Tensor view_of_permute(const Problem& problem);

Permutation permutation_of(const Tensor& view, const Tensor& y);
void make_tensor(const Case& chosen, DType dtype, Problem& problem);
void copy_of(const Tensor& view, Slice slice, double* expected);
std::span<const Rung* const> best_for(const Permutation& call);

// What both have in common. Op has view(problem), one of the two above.
template <class Op>
struct Rearranging {
  struct Call : Permutation {};
  static constexpr DTypes kDTypes = kEveryDType;
  static constexpr auto& kExtentNames = kTensorExtents;

  static void infer(Problem& problem) { problem.tensor(kY) = Tensor::like(Op::view(problem)); }
  static Call call(const Problem& problem) {
    return {permutation_of(Op::view(problem), problem.tensor(kY))};
  }
  static void make(const Case& chosen, DType dtype, Problem& problem) {
    make_tensor(chosen, dtype, problem);
  }
  static Cost cost(const Problem& problem) { return {.bytes = least_traffic(problem)}; }
  static Tolerance tolerance(const Problem& /*problem*/, const Parameter& /*output*/) { return {}; }
  static int64_t items(const Problem& problem, const Parameter& /*output*/) {
    return problem.tensor(kY).elements();
  }
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
    copy_of(Op::view(problem), slice, expected[kY]);
  }
  static std::span<const Rung* const> by_worth(const Call& call) { return best_for(call); }

 private:
  Rearranging() = default;
  friend Op;
};

struct Transpose : Rearranging<Transpose> {
  static constexpr std::string_view kName = "transpose";
  static constexpr std::string_view kSummary =
      "Two dimensions trade places, as a contiguous copy (torch's is a view)";
  static constexpr std::string_view kSource = "torch.transpose";
  static constexpr std::string_view kFormula = "y[..., j, ..., i, ...] = x[..., i, ..., j, ...]";
  static constexpr std::string_view kTorch = "torch.transpose(x, dim0, dim1).contiguous()";
  static constexpr std::string_view kGradient = "(ops.transpose(g, dim0=dim0, dim1=dim1),)";
  static constexpr std::string_view kSeedPrefix = "mat_transpose";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape of rank 0 to 6, any dtype, any strides"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "contiguous, dtype of x, the two extents exchanged",
       .shape = "x.transpose(dim0, dim1).shape"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "dim0",
       .kind = Value::Kind::kInt,
       .standard = -2,
       .doc = "a dimension, negative from the end"},
      {.name = "dim1",
       .kind = Value::Kind::kInt,
       .standard = -1,
       .doc = "the one that it trades places with"},
  };
  static constexpr int kOptionalExtents = 6;
  static Tensor view(const Problem& problem) { return view_of_transpose(problem); }
  static Cases cases();
};

struct Permute : Rearranging<Permute> {
  static constexpr std::string_view kName = "permute";
  static constexpr std::string_view kSummary =
      "Dimensions in another order, as a contiguous copy (torch's is a view)";
  static constexpr std::string_view kSource = "torch.permute";
  static constexpr std::string_view kFormula =
      "y[i[dims[0]], i[dims[1]], ...] = x[i[0], i[1], ...]";
  static constexpr std::string_view kTorch = "torch.permute(x, dims).contiguous()";
  static constexpr std::string_view kGradient =
      "(ops.permute(g, dims=[[d % x.ndim for d in dims].index(i) for i in range(x.ndim)]),)";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape of rank 0 to 6, any dtype, any strides"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "contiguous, dtype of x, extent dims[d] of x as its d-th",
       .shape = "x.permute(dims).shape"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "dims",
       .kind = Value::Kind::kDims,
       .doc = "all dimensions of x in the order of y's, negative ones from the end"},
  };
  static constexpr int kOptionalExtents = 5;
  static Tensor view(const Problem& problem) { return view_of_permute(problem); }
  static Cases cases();
};

}  // namespace ws::transpose
