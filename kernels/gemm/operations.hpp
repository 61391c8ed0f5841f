// GEMM: what every rung of the family computes.
//
//   gemm   C[M, N] = op(A) op(B), accumulated in f32, rounded once to the dtype of the inputs
//   bmm    C[i] = A[i] B[i], the same of every product of a batch, rounded to the dtype of the
//          inputs or not at all; strides say how they lie
//
// `layout` says how A and B are stored, 't' meaning transposed: A is [M, K] (n) or [K, M] (t), B is
// [K, N] (n) or [N, K] (t), row by row. So `nt` is the product of a torch linear layer: both
// operands have K contiguous. BLAS, which counts in columns, calls that one TN.
#pragma once

#include "catalogue/row.hpp"

namespace ws::gemm {

// Which index of a matrix walks through memory in steps of one element.
enum class Contiguous : uint8_t { kColumns, kRows, kNeither };

// A matrix as a rung sees it, transposes resolved: element (i, j) is data[i * row + j * column].
struct Matrix {
  void* data = nullptr;
  int64_t row = 0;  // strides in elements
  int64_t column = 0;
  // The same for rungs that want one stride to be 1: `runs` contiguous runs of `length` elements,
  // `leading` apart. An extent of 1 has no stride of its own: torch leaves any number there.
  Contiguous contiguous{};
  int64_t runs = 0;
  int64_t length = 0;
  int64_t leading = 0;
  int64_t batch = 0;  // stride from a product's matrix to the next's; 0 where all have this one

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// One call, transposes resolved: C[m, n] = sum over k of A[m, k] B[k, n].
struct Call {
  DType dtype{};
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Matrix a;
  Matrix b;
  Matrix c;
  bool tf32 = false;  // f32 operands may be cut to TF32's 10 bits of mantissa
};

// One call of `batch` products; the matrices are the first's.
struct BatchedCall : Call {
  int64_t batch = 0;
  DType out_dtype{};  // of c
};

// Whether the result has the dtype of a and b. Of any call that has an out_dtype, a group's too.
template <class C>
bool is_of_one_dtype(const C& call, Why& why) {
  return why.unless(call.out_dtype == call.dtype, "the result is f32, a and b are not");
}

// f.template operator()<T, Out>() of the dtypes of a and b, in kSet, and of the result.
template <DTypes kSet, class C, class F>
void with_dtypes(const C& call, F&& f) {
  with_type<kSet>(call.dtype, [&]<class T>() {
    call.out_dtype == call.dtype ? f.template operator()<T, T>()
                                 : f.template operator()<T, float>();
  });
}

// The matrix in the last two dimensions of `tensor`, or whose transpose is there.
Matrix matrix_of(const Tensor& tensor, bool transposed);

// The same product from the other side: C^T = B^T A^T.
Call transposed(const Call& call);

// The widest power of two of bytes, at most 16, that divides every run's address, in all matrices
// of a batch.
inline int alignment_of(const Matrix& matrix, DType dtype) {
  const auto address = reinterpret_cast<uintptr_t>(matrix.data);
  const auto strides = static_cast<uint64_t>(matrix.leading | matrix.batch);
  const uint64_t bits = address | (strides * size_of(dtype)) | 16;
  return static_cast<int>(bits & -bits);
}

struct Gemm {
  enum class Layout : uint8_t { kNn, kNt, kTn, kTt };
  static constexpr std::string_view kLayouts[] = {"nn", "nt", "tn", "tt"};
  static constexpr bool is_a_transposed(Layout layout) {
    return layout == Layout::kTn || layout == Layout::kTt;
  }
  static constexpr bool is_b_transposed(Layout layout) {
    return layout == Layout::kNt || layout == Layout::kTt;
  }

  enum class Precision : uint8_t { kIeee, kTf32 };
  static constexpr std::string_view kPrecisions[] = {"ieee", "tf32"};

  static constexpr std::string_view kName = "gemm";
  static constexpr std::string_view kSummary = "matrix product, accumulated in f32";
  static constexpr std::string_view kSource =
      "Dongarra et al., A Set of Level 3 Basic Linear Algebra Subprograms, 1990";
  static constexpr std::string_view kFormula = "c[i, j] = sum over k of a[i, k] * b[k, j]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[M, K], or [K, M] where layout is tn or tt"},
      {.name = "b", .doc = "[K, N], or [N, K] where layout is nt or tt; dtype of a"},
      {.name = "c",
       .role = Parameter::Role::kOut,
       .doc = "[M, N], dtype of a",
       .shape = "(a.shape[layout[0] == 't'], b.shape[layout[1] == 'n'])"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "layout",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kLayouts,
       .doc = "how a and b are stored: n as they are multiplied, t transposed"},
      {.name = "precision",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kPrecisions,
       .doc = "tf32: f32 operands may be cut to 10 bits of mantissa; of f16 and bf16 nothing is"},
  };
  static constexpr std::string_view kExtentNames[] = {"M", "N", "K"};
  static constexpr DTypes kDTypes = kFloats;
  // torch's precision is a setting of the process, which stays the user's.
  static constexpr std::string_view kTorch =
      "torch.matmul(a.t() if layout[0] == 't' else a, b.t() if layout[1] == 't' else b) "
      "if precision == 'ieee' or a.dtype != torch.float32 or not a.is_cuda "
      "or torch.backends.cuda.matmul.allow_tf32 "
      "else refuse('is not allowed TF32: torch.backends.cuda.matmul.allow_tf32')";
  // With C = op(A) op(B): dA = G op(B)^T and dB = op(A)^T G, or their transposes; each product in
  // the layout that needs no copy.
  static constexpr std::string_view kGradient =
      "(ops.gemm(g, b, layout='nt' if layout[1] == 'n' else 'nn', precision=precision) "
      "if layout[0] == 'n' else "
      "ops.gemm(b, g, layout='nt' if layout[1] == 'n' else 'tt', precision=precision), "
      "ops.gemm(a, g, layout='tn' if layout[0] == 'n' else 'nn', precision=precision) "
      "if layout[1] == 'n' else "
      "ops.gemm(g, a, layout='tn' if layout[0] == 'n' else 'tt', precision=precision))";
  // Tuned, QuACK times all its tiles in the first call of a shape and layout, before the bench
  // times anything: seconds to minutes.
  static constexpr PythonPeer kPythonPeers[] = {
      {"quack",
       "refuse('f32 would be multiplied as TF32') if a.dtype == torch.float32 else "
       "quack.gemm_interface.gemm(a.t() if layout[0] == 't' else a, "
       "b.t() if layout[1] == 't' else b, out=c, tuned=False)"},
      {"quack_tuned",
       "refuse('f32 would be multiplied as TF32') if a.dtype == torch.float32 else "
       "quack.gemm_interface.gemm(a.t() if layout[0] == 't' else a, "
       "b.t() if layout[1] == 't' else b, out=c, tuned=True)"},
  };

  using Call = gemm::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static Tolerance tolerance_in(const Problem& problem, const Parameter& output, DType accumulate);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

// A case by M, N, K; padding widens the rows of all three matrices.
constexpr Case shape(int64_t m, int64_t n, int64_t k, Gemm::Layout layout, int64_t padding = 0,
                     int offset = 0) {
  return {.extents = {m, n, k},
          .offset = offset,
          .padding = padding,
          .attributes = {Value::choice(static_cast<int>(layout))}};
}
// The same, whose f32 may be cut to TF32; of the other dtypes it would be another case again.
constexpr Case tf32_shape(int64_t m, int64_t n, int64_t k, Gemm::Layout layout, int64_t padding = 0,
                          int offset = 0) {
  Case made = shape(m, n, k, layout, padding, offset);
  made.attributes[1] = Value::choice(static_cast<int>(Gemm::Precision::kTf32));
  made.dtypes = {DType::kF32};
  return made;
}

// Products of a batch. There is no layout to choose: a transposed view is as good as a plain
// tensor, and a matrix that all products share is expanded, with a stride of 0.
struct Bmm {
  static constexpr std::string_view kName = "bmm";
  static constexpr std::string_view kSummary = "matrix products of a batch, accumulated in f32";
  static constexpr std::string_view kSource = "torch.bmm";
  static constexpr std::string_view kFormula = "c[i, j, l] = sum over k of a[i, j, k] * b[i, k, l]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[B, M, K], any strides"},
      {.name = "b", .doc = "[B, K, N], any strides, dtype of a"},
      {.name = "c",
       .role = Parameter::Role::kOut,
       .doc = "[B, M, N], dtype of a or as `out_dtype` says",
       .shape = "(a.shape[0], a.shape[1], b.shape[2])",
       .torch_dtype = "a.dtype if out_dtype is None else getattr(torch, out_dtype)"},
  };
  static constexpr std::string_view kOutDTypes[] = {"float32"};
  static constexpr Attribute kAttributes[] = {
      {.name = "out_dtype",
       .kind = Value::Kind::kChoice,
       .standard = Value::absent(),
       .choices = kOutDTypes,
       .doc = "of c; none: that of a"},
      {.name = "precision",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = Gemm::kPrecisions,
       .doc = "tf32: f32 operands may be cut to 10 bits of mantissa; of f16 and bf16 nothing is"},
  };
  // How the tensors lie, a sum of Views.
  static constexpr std::string_view kExtentNames[] = {"B", "M", "N", "K", "views"};
  static constexpr int kOptionalExtents = 1;
  enum Views : uint8_t {
    kATransposed = 1,
    kBTransposed = 2,
    kCTransposed = 4,
    kAExpanded = 8,
    kBExpanded = 16,
    kInterleaved = 32,  // the products' rows take turns, as the heads of an attention layer do
  };
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = R"(
is_f32 = a.dtype == torch.float32
if precision == 'tf32' and is_f32 and a.is_cuda and not torch.backends.cuda.matmul.allow_tf32:
    refuse('is not allowed TF32: torch.backends.cuda.matmul.allow_tf32')
if out_dtype is None or is_f32:
    return torch.bmm(a, b)
if a.is_cuda:
    return torch.bmm(a, b, getattr(torch, out_dtype))
return torch.bmm(a.to(getattr(torch, out_dtype)), b.to(getattr(torch, out_dtype))))";
  static constexpr std::string_view kGradient = R"(
d = g.to(a.dtype)
return (ops.bmm(d, b.transpose(1, 2), precision=precision),
        ops.bmm(a.transpose(1, 2), d, precision=precision)))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"quack",
       "refuse('f32 would be multiplied as TF32') if a.dtype == torch.float32 else "
       "quack.gemm_interface.gemm(a, b, out=c, tuned=False)"},
      {"quack_tuned",
       "refuse('f32 would be multiplied as TF32') if a.dtype == torch.float32 else "
       "quack.gemm_interface.gemm(a, b, out=c, tuned=True)"},
  };

  using Call = BatchedCall;
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

}  // namespace ws::gemm
