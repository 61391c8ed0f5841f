// AdamW on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/optimizer/operations.hpp"

namespace ws::optimizer {
namespace {

// ---- The step -----------------------------------------------------------------------------------

struct Element {
  double p;
  double m;
  double v;
};

class Step {
 public:
  explicit Step(const Problem& problem)
      : lr_(problem.number("lr")),
        beta1_(problem.number("beta1")),
        beta2_(problem.number("beta2")),
        eps_(problem.number("eps")),
        decay_(problem.number("weight_decay")),
        step_(element(problem["step"], 0)),
        factor_(problem.flag("maximize") ? -1 : 1) {
    if (problem["grad_scale"].exists()) factor_ /= element(problem["grad_scale"], 0);
    skips_ = problem["found_inf"].exists() && element(problem["found_inf"], 0) != 0;
  }
  Element operator()(Element old, double gradient) const {
    if (skips_) return old;
    const double g = factor_ * gradient;
    const double m = beta1_ * old.m + (1 - beta1_) * g;
    const double v = beta2_ * old.v + (1 - beta2_) * g * g;
    const double mean = m / (1 - std::pow(beta1_, step_));
    const double square = v / (1 - std::pow(beta2_, step_));
    const double decayed = old.p - lr_ * decay_ * old.p;
    return {decayed - lr_ * mean / (std::sqrt(square) + eps_), m, v};
  }

 private:
  double lr_, beta1_, beta2_, eps_, decay_, step_, factor_;
  bool skips_ = false;
};

// ---- Calls --------------------------------------------------------------------------------------

Settings settings_of(const Problem& problem) {
  const auto pointer = [&](std::string_view name) -> const float* {
    return problem[name].exists() ? problem[name].as<const float>() : nullptr;
  };
  const double lr = problem.number("lr");
  const double beta1 = problem.number("beta1");
  const double beta2 = problem.number("beta2");
  return {.decay = static_cast<float>(1 - lr * problem.number("weight_decay")),
          .lr = static_cast<float>(lr),
          .towards = static_cast<float>(1 - beta1),
          .beta2 = static_cast<float>(beta2),
          .rest2 = static_cast<float>(1 - beta2),
          .log_beta1 = static_cast<float>(std::log(beta1)),
          .log_beta2 = static_cast<float>(std::log(beta2)),
          .eps = static_cast<float>(problem.number("eps")),
          .sign = problem.flag("maximize") ? -1.0F : 1.0F,
          .step = pointer("step"),
          .grad_scale = pointer("grad_scale"),
          .found_inf = pointer("found_inf")};
}

void check_numbers(const Problem& problem) {
  const std::string_view name = problem.operation->name;
  for (const std::string_view number : {"step", "grad_scale", "found_inf"}) {
    const Tensor& tensor = problem[number];
    if (tensor.exists() && (tensor.dtype != DType::kF32 || tensor.elements() != 1)) [[unlikely]] {
      throw InvalidArgument(
          concatenate(name, " needs '", number, "' of f32 with one element, got ", tensor));
    }
  }
  for (const std::string_view beta : {"beta1", "beta2"}) {
    const double value = problem.number(beta);
    if (!(value >= 0 && value < 1)) [[unlikely]] {
      throw InvalidArgument(concatenate(name, ": ", beta, " is from 0 to below 1, not ", value));
    }
  }
  for (const std::string_view least : {"lr", "eps", "weight_decay"}) {
    const double value = problem.number(least);
    if (!(value >= 0 && std::isfinite(value))) [[unlikely]] {
      throw InvalidArgument(
          concatenate(name, ": ", least, " is finite and not below 0, not ", value));
    }
  }
}
void check_dtype(const Problem& problem) {
  if (kFloats.has(problem.dtype())) [[likely]]
    return;
  throw InvalidArgument(
      concatenate(problem.operation->name, " takes f32, f16 and bf16, got ", problem.tensor(0)));
}

bool all_contiguous(const Problem& problem) {
  for (int k = 0; k < kOperands; ++k) {
    if (!problem.tensor(k).contiguous()) return false;
  }
  return true;
}
// In one order without gaps, which need not be row-major: torch's channels_last.
bool all_dense(const Problem& problem) {
  if (all_contiguous(problem)) return true;
  const Tensor& first = problem.tensor(0);
  std::vector<std::pair<int64_t, int64_t>> loops;  // stride, extent
  for (int d = 0; d < first.rank; ++d) {
    if (first.extent(d) == 1) continue;
    for (int k = 1; k < kOperands; ++k) {
      if (problem.tensor(k).stride(d) != first.stride(d)) return false;
    }
    loops.emplace_back(first.stride(d), first.extent(d));
  }
  std::ranges::sort(loops);
  int64_t next = 1;
  for (const auto& [stride, extent] : loops) {
    if (stride != next) return false;
    next *= extent;
  }
  return true;
}

bool has(int64_t all, Has what) { return (all & what) != 0; }

void make_numbers(Problem& problem, int64_t with) {
  problem["step"] = Tensor::dense(DType::kF32, {});
  if (has(with, kScale)) problem["grad_scale"] = Tensor::dense(DType::kF32, {});
  if (has(with, kInf)) problem["found_inf"] = Tensor::dense(DType::kF32, {});
}
// The third step, a scale of 4; a found_inf without a scale is one.
bool fill_number(const Problem& problem, std::string_view name, const Tensor& tensor) {
  if (name == "step") set_element(tensor, 0, 3);
  if (name == "grad_scale") set_element(tensor, 0, 4);
  if (name == "found_inf") set_element(tensor, 0, problem["grad_scale"].exists() ? 0 : 1);
  return name == "step" || name == "grad_scale" || name == "found_inf";
}

}  // namespace

// What a moment or a parameter is off by goes with the size of what it is a difference of: 1 or so.
Tolerance Common::tolerance(const Problem& problem, const Parameter& output) {
  switch (problem[output.name].dtype) {
    case DType::kF16: return {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 1e-2};
    case DType::kBf16: return {.relative = 4e-3, .worst = 4e-3, .floor = 1e-2};
    default: return {.relative = 1e-6, .worst = 1e-6, .floor = 1};
  }
}

void Common::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  if (fill_number(problem, name, tensor)) return;
  fill_with(tensor, [&](int64_t i) {
    const double value = random_normal(seed, static_cast<uint64_t>(i));
    return name == "exp_avg_sq" ? 0.1 * value * value : value;
  });
}

// ---- One tensor ---------------------------------------------------------------------------------

void AdamW::infer(Problem& problem) {
  check_dtype(problem);
  check_numbers(problem);
  const Tensor& param = problem["param"];
  const Tensor& exp_avg = problem["exp_avg"];
  const Tensor& exp_avg_sq = problem["exp_avg_sq"];
  for (const std::string_view name : {"grad", "exp_avg", "exp_avg_sq"}) {
    if (!problem[name].same_shape(param)) [[unlikely]] {
      throw InvalidArgument(concatenate("adamw: '", name, "' is ", problem[name],
                                        ", not of the shape of 'param', which is ", param));
    }
  }
  if (problem["grad"].dtype != param.dtype) [[unlikely]] {
    throw InvalidArgument(concatenate("adamw: 'grad' is ", problem["grad"],
                                      ", not of the dtype of 'param', which is ", param));
  }
  if (exp_avg.dtype != exp_avg_sq.dtype ||
      (exp_avg.dtype != param.dtype && exp_avg.dtype != DType::kF32)) [[unlikely]] {
    throw InvalidArgument(concatenate("adamw: 'exp_avg' is ", exp_avg, " and 'exp_avg_sq' ",
                                      exp_avg_sq, ": both of f32, or of the dtype of 'param', ",
                                      param));
  }
}

OneCall AdamW::call(const Problem& problem) {
  OneCall call{};
  call.dtype = problem.dtype();
  call.moment_dtype = problem["exp_avg"].dtype;
  call.rows = row_layout(problem.tensor(kParam), problem.tensor(kGrad), problem.tensor(kExpAvg),
                         problem.tensor(kExpAvgSq));
  call.elements = problem.tensor(0).elements();
  call.is_dense = all_dense(problem);
  call.settings = settings_of(problem);
  return call;
}

void AdamW::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t rows = chosen.extents[0];
  const int64_t with = chosen.extents[3];
  for (int k = 0; k < kOperands; ++k) {
    Tensor& tensor = problem.tensor(k);
    const bool wide = k >= kExpAvg && has(with, kWideMoments);
    tensor = Tensor::dense(wide ? DType::kF32 : dtype, {rows, chosen.extents[1]});
    tensor.strides[0] += chosen.padding;
    // 1: all in another order; 2: the gradient alone.
    if (chosen.extents[2] == 1 || (chosen.extents[2] == 2 && k == kGrad)) {
      tensor.strides = {1, rows + chosen.padding};
    }
  }
  make_numbers(problem, with);
}

int64_t AdamW::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(0).elements();
}
// In-out tensors are read and written.
Cost AdamW::cost(const Problem& problem) {
  double bytes = least_traffic(problem);
  for (const std::string_view name : {"param", "exp_avg", "exp_avg_sq"}) {
    bytes += static_cast<double>(problem[name].elements()) *
             static_cast<double>(size_of(problem[name].dtype));
  }
  return {.bytes = bytes, .flops = 16 * static_cast<double>(problem.tensor(0).elements())};
}

void AdamW::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Step step(problem);
  for (int64_t i = slice.first; i < slice.last; ++i) {
    const auto at = [&](Operand k) { return element(problem.tensor(k), i); };
    const Element now = step({at(kParam), at(kExpAvg), at(kExpAvgSq)}, at(kGrad));
    const auto put = [&](Operand k, double value) {
      if (expected[k] != nullptr) expected[k][i - slice.first] = value;
    };
    put(kParam, now.p);
    put(kExpAvg, now.m);
    put(kExpAvgSq, now.v);
  }
}

// ---- Many tensors -------------------------------------------------------------------------------

void MultiTensorAdamW::infer(Problem& problem) {
  check_dtype(problem);
  check_numbers(problem);
  const Tensor& memory = problem["memory"];
  const Tensor& pieces = problem["pieces"];
  if (memory.rank != 1) [[unlikely]] {
    throw InvalidArgument(
        concatenate("multi_tensor_adamw needs memory of one dimension, got ", memory));
  }
  if (pieces.rank != 2 || pieces.dtype != DType::kI64 || pieces.extent(1) != kPieceColumns)
      [[unlikely]] {
    throw InvalidArgument(concatenate("multi_tensor_adamw needs pieces of i64 [P, ", kPieceColumns,
                                      "], got ", pieces));
  }
}

ManyCall MultiTensorAdamW::call(const Problem& problem) {
  const Tensor& memory = problem["memory"];
  const Tensor& pieces = problem["pieces"];
  return {.dtype = memory.dtype,
          .memory = memory.data,
          .elements = memory.elements(),
          .stride = memory.elements() > 1 ? memory.stride(0) : 1,
          .pieces = pieces.as<const int64_t>(),
          .count = pieces.extent(0),
          .row_stride = pieces.stride(0),
          .column_stride = pieces.stride(1),
          .settings = settings_of(problem)};
}

// A quarter of the memory for each operand.
void MultiTensorAdamW::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t quarter = round_up(chosen.extents[0] * chosen.extents[1], int64_t{8});
  problem["memory"] = Tensor::dense(dtype, {kOperands * quarter});
  problem["pieces"] = Tensor::dense(DType::kI64, {chosen.extents[0], kPieceColumns});
  make_numbers(problem, chosen.extents[2]);
}

// Pieces one after the other, with gaps of up to three elements; each fourth lies otherwise in each
// quarter.
void MultiTensorAdamW::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  if (fill_number(problem, name, tensor)) return;
  const int64_t quarter = problem["memory"].elements() / kOperands;
  if (name == "memory") {
    return fill_with(tensor, [&](int64_t i) {
      const double value = random_normal(seed, static_cast<uint64_t>(i));
      return i >= kExpAvgSq * quarter ? 0.1 * value * value : value;
    });
  }
  const int64_t count = tensor.extent(0);
  const int64_t of_piece = count == 0 ? 0 : quarter / count;
  const bool has_gaps = of_piece < 4096;  // of what is timed all lie well
  fill_with(tensor, [&](int64_t i) {
    const int64_t piece = i / kPieceColumns;
    const int64_t column = i % kPieceColumns;
    const int64_t gap = has_gaps ? piece % 3 : 0;
    const int64_t shift = has_gaps && piece % 4 == 3 ? 3 : 0;
    if (column == kPieceElements) {
      return static_cast<double>(std::max<int64_t>(of_piece - gap - shift, 0));
    }
    const int64_t start = column * quarter + piece * of_piece + std::min(gap, of_piece);
    return static_cast<double>(start + (of_piece > gap + shift ? std::min(column, shift) : 0));
  });
}

int64_t MultiTensorAdamW::items(const Problem& /*problem*/, const Parameter& /*output*/) {
  return 1;
}
Cost MultiTensorAdamW::cost(const Problem& problem) {
  const Tensor& memory = problem["memory"];
  const double all = static_cast<double>(memory.elements());
  const double table = static_cast<double>(problem["pieces"].elements()) * 8;
  // Of a quarter that is only read, three that are written too.
  return {.bytes = all * static_cast<double>(size_of(memory.dtype)) * 7 / 4 + table,
          .flops = all * 16 / 4,
          .at_most = true};
}
Cost MultiTensorAdamW::cost_of_data(const Problem& problem) {
  const Tensor& pieces = problem["pieces"];
  double elements = 0;
  for (int64_t i = 0; i < pieces.extent(0); ++i) {
    elements += element(pieces, i * kPieceColumns + kPieceElements);
  }
  return {.bytes = elements * static_cast<double>(size_of(problem.dtype())) * 7 +
                   static_cast<double>(pieces.elements()) * 8,
          .flops = elements * 16};
}

void MultiTensorAdamW::reference(const Problem& problem, Slice slice,
                                 std::span<double* const> expected) {
  if (slice.first >= slice.last) return;
  const Step step(problem);
  const Tensor& memory = problem["memory"];
  const Tensor& pieces = problem["pieces"];
  for (int64_t i = 0; i < memory.elements(); ++i) expected[0][i] = element(memory, i);
  for (int64_t piece = 0; piece < pieces.extent(0); ++piece) {
    std::array<int64_t, kPieceColumns> row{};
    for (int64_t k = 0; k < kPieceColumns; ++k) {
      row[static_cast<size_t>(k)] =
          static_cast<int64_t>(element(pieces, piece * kPieceColumns + k));
    }
    for (int64_t i = 0; i < row[kPieceElements]; ++i) {
      const auto at = [&](Operand k) { return element(memory, row[k] + i); };
      const Element now = step({at(kParam), at(kExpAvg), at(kExpAvgSq)}, at(kGrad));
      expected[0][row[kParam] + i] = now.p;
      expected[0][row[kExpAvg] + i] = now.m;
      expected[0][row[kExpAvgSq] + i] = now.v;
    }
  }
}

// ---- Cases --------------------------------------------------------------------------------------

namespace {

constexpr std::array<Value, kMaxAttributes> settings() {
  std::array<Value, kMaxAttributes> all{};
  all[0] = 0.05;  // lr
  all[1] = 0.8;
  all[2] = 0.95;
  all[3] = 1e-6;
  all[4] = 0.1;
  all[5] = true;  // maximize
  return all;
}
constexpr DTypes kNarrow = kHalves;

constexpr Case kSmoke[] = {
    {.extents = {3, 67}},
    {.extents = {2, 40}, .attributes = settings()},
    {.extents = {3, 24, 0, kWideMoments | kScale}, .dtypes = kNarrow},
    {.extents = {5, 11, 2, kScale | kInf}},
};
constexpr Case kVerify[] = {
    {.extents = {0, 5}},           {.extents = {1, 1}},
    {.extents = {1, 4101}},        {.extents = {9, 16}, .offset = 1},
    {.extents = {9, 16, 1}},       {.extents = {9, 16}, .padding = 8},
    {.extents = {1, 77, 0, kInf}}, {.extents = {1, 2500, 0, kWideMoments}, .dtypes = kNarrow},
};
constexpr Case kBench[] = {
    {.extents = {16384, 4096}},
    {.extents = {16384, 4096, 0, kWideMoments}, .dtypes = kNarrow},
    {.extents = {1, 1 << 20}},
};

constexpr Case kManySmoke[] = {
    {.extents = {5, 61}},
    {.extents = {3, 24}, .attributes = settings()},
    {.extents = {4, 9, kScale | kInf}},
};
constexpr Case kManyVerify[] = {
    {.extents = {0, 8}},       {.extents = {7, 1}},   {.extents = {1, 40}},
    {.extents = {6, 130}},     {.extents = {9, 517}}, {.extents = {2, 2048}, .offset = 1},
    {.extents = {4, 9, kInf}},
};
constexpr Case kManyBench[] = {{.extents = {16384, 4096}}, {.extents = {256, 4096}}};

}  // namespace

Cases AdamW::cases() { return {kSmoke, kVerify, kBench}; }
Cases MultiTensorAdamW::cases() { return {kManySmoke, kManyVerify, kManyBench}; }

}  // namespace ws::optimizer
