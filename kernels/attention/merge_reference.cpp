// What merge_attn_states computes, in double precision; its shapes, fills, cost and tolerance.
#include <algorithm>
#include <cmath>
#include <limits>

#include "catalogue/tolerance.hpp"
#include "kernels/attention/merge.hpp"

namespace ws::attention {
namespace {

enum Place { kOutA, kLseA, kOutB, kLseB, kOut, kLse };
constexpr double kInf = std::numeric_limits<double>::infinity();

Heads out_of(const Tensor& tensor) {
  if (tensor.rank == 3) {
    return {tensor.data, 0, tensor.stride(1), tensor.stride(0), tensor.stride(2)};
  }
  return {tensor.data, tensor.stride(0), tensor.stride(1), tensor.stride(2), tensor.stride(3)};
}
Heads lse_of(const Tensor& tensor) {
  if (tensor.rank == 2) return {tensor.data, 0, tensor.stride(0), tensor.stride(1), 0};
  return {tensor.data, tensor.stride(0), tensor.stride(1), tensor.stride(2), 0};
}

}  // namespace

MergeAttnStates::Call MergeAttnStates::call(const Problem& problem) {
  const Tensor& out = problem.tensor(kOutA);
  const bool packed = out.rank == 3;
  return {.dtype = out.dtype,
          .batch = packed ? 1 : out.extent(0),
          .heads = out.extent(1),
          .rows = packed ? out.extent(0) : out.extent(2),
          .dim = out.extent(out.rank - 1),
          .out_a = out_of(out),
          .out_b = out_of(problem.tensor(kOutB)),
          .out = out_of(problem.tensor(kOut)),
          .lse_a = lse_of(problem.tensor(kLseA)),
          .lse_b = lse_of(problem.tensor(kLseB)),
          .lse = lse_of(problem.tensor(kLse))};
}

void MergeAttnStates::infer(Problem& problem) {
  const Tensor& out = problem.tensor(kOutA);
  const Tensor& lse = problem.tensor(kLseA);
  const auto wrong = [&](const auto&... what) {
    throw InvalidArgument(concatenate("merge_attn_states takes ", what..., ", got ", out, ", ", lse,
                                      ", ", problem.tensor(kOutB), " and ", problem.tensor(kLseB)));
  };
  if (!kFloats.has(out.dtype) || (out.rank != 3 && out.rank != 4)) [[unlikely]]
    wrong("out_a of f32, f16 or bf16, [B, H, S, D] or [T, H, D]");
  if (out.extent(out.rank - 1) < 1) [[unlikely]]
    wrong("D from 1 on");
  const bool fits =
      out.rank == 3
          ? lse.rank == 2 && lse.extent(0) == out.extent(1) && lse.extent(1) == out.extent(0)
          : lse.rank == 3 &&
                std::equal(lse.extents().begin(), lse.extents().end(), out.extents().begin());
  if (!fits || lse.dtype != DType::kF32) [[unlikely]]
    wrong("lse_a of f32, ", out.rank == 3 ? "[H, T]" : "[B, H, S]", " as in out_a");
  const Tensor& other = problem.tensor(kOutB);
  if (!other.same_shape(out) || other.dtype != out.dtype) [[unlikely]]
    wrong("out_b of the shape and dtype of out_a");
  if (!problem.tensor(kLseB).same_shape(lse) || problem.tensor(kLseB).dtype != DType::kF32)
      [[unlikely]]
    wrong("lse_b of the shape of lse_a, f32");
  problem.tensor(kOut) = Tensor::like(out);
  problem.tensor(kLse) = Tensor::like(lse);
}

void MergeAttnStates::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, heads, rows, dim, has, unused0, unused1, unused2] = chosen.extents;
  const bool packed = (has & kPacked) != 0;
  const int64_t pitch = dim + chosen.padding;
  for (const int place : {kOutA, kOutB, kOut}) {
    if (packed) {
      Tensor tensor = Tensor::dense(dtype, {rows, heads, dim});
      tensor.strides = {heads * pitch, pitch, 1};
      problem.tensor(place) = tensor;
      continue;
    }
    Tensor tensor = Tensor::dense(dtype, {batch, heads, rows, dim});
    const bool rows_first = (has & kRowsBeforeHeads) != 0;
    tensor.strides = {heads * rows * pitch, rows_first ? pitch : rows * pitch,
                      rows_first ? heads * pitch : pitch, 1};
    problem.tensor(place) = tensor;
  }
  for (const int place : {kLseA, kLseB}) {
    problem.tensor(place) = packed ? Tensor::dense(DType::kF32, {heads, rows})
                                   : Tensor::dense(DType::kF32, {batch, heads, rows});
  }
}

Cost MergeAttnStates::cost(const Problem& problem) {
  const Call call = MergeAttnStates::call(problem);
  const auto items = static_cast<double>(call.items());
  const double elements = items * static_cast<double>(call.dim);
  return {
      .bytes = 3 * (elements * static_cast<double>(size_of(call.dtype)) + items * sizeof(float)),
      .flops = 3 * elements};
}

// A weight is off by the last bits of an exponential and a quotient; both outputs have numbers of
// size 1.
Tolerance MergeAttnStates::tolerance(const Problem& problem, const Parameter& output) {
  const double noise = std::ldexp(1.0, -20);
  const double rounding = output.name == "lse" ? 0 : rounding_error(problem.dtype());
  return {.relative = rounding + noise, .worst = 1.01 * rounding + 4 * noise, .floor = 1};
}

int64_t MergeAttnStates::items(const Problem& problem, const Parameter& /*output*/) {
  return MergeAttnStates::call(problem).items();
}

// One part in eight has seen nothing.
void MergeAttnStates::fill(const Problem& problem, int index, uint64_t seed) {
  if (index != kLseA && index != kLseB) return fill_normal_input(problem, index, seed);
  fill_with(problem.tensor(index), [seed](int64_t i) {
    const auto at = static_cast<uint64_t>(i);
    return random_uniform(seed, 2 * at) < 0.125 ? -kInf : 6 * random_uniform(seed, 2 * at + 1);
  });
}

// Slices are rows as `out` counts them where it is asked for, else as `lse` does; they differ where
// sequences are packed.
void MergeAttnStates::reference(const Problem& problem, Slice slice,
                                std::span<double* const> expected) {
  const Call call = MergeAttnStates::call(problem);
  const bool packed = problem.tensor(kOutA).rank == 3;
  const auto at = [](const Heads& heads, int64_t batch, int64_t head, int64_t row) {
    return batch * heads.batch + head * heads.head + row * heads.row;
  };
  const auto weigh = [&](int64_t batch, int64_t head, int64_t row, double& a, double& b) {
    a = call.lse_a.as<const float>()[at(call.lse_a, batch, head, row)];
    b = call.lse_b.as<const float>()[at(call.lse_b, batch, head, row)];
    const double most = std::max(a, b);
    const double lse =
        most == -kInf ? most : most + std::log(std::exp(a - most) + std::exp(b - most));
    a = lse == -kInf ? 0 : std::exp(a - lse);
    b = lse == -kInf ? 0 : std::exp(b - lse);
    return lse;
  };
  double a = 0;
  double b = 0;
  for (int64_t item = slice.first; item < slice.last; ++item) {
    const int64_t batch = item / (call.heads * call.rows);
    const int64_t within = item % (call.heads * call.rows);
    const int64_t i = item - slice.first;
    if (expected[kLse] != nullptr) {
      expected[kLse][i] = weigh(batch, within / call.rows, within % call.rows, a, b);
    }
    if (expected[kOut] == nullptr) continue;
    const int64_t head = packed ? within % call.heads : within / call.rows;
    const int64_t row = packed ? within / call.heads : within % call.rows;
    weigh(batch, head, row, a, b);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const T* of_a = call.out_a.as<const T>() + at(call.out_a, batch, head, row);
      const T* of_b = call.out_b.as<const T>() + at(call.out_b, batch, head, row);
      for (int64_t d = 0; d < call.dim; ++d) {
        expected[kOut][i * call.dim + d] =
            a * to_float(of_a[d * call.out_a.column]) + b * to_float(of_b[d * call.out_b.column]);
      }
    });
  }
}

namespace {

using Extents = std::array<int64_t, kMaxExtents>;
constexpr Case merged(Extents extents, int64_t padding = 0, int offset = 0) {
  return {.extents = extents, .offset = offset, .padding = padding};
}
constexpr Case kSmoke[] = {
    merged({1, 2, 19, 64}),
    merged({1, 3, 17, 40, MergeAttnStates::kPacked}),
    merged({2, 2, 5, 12, MergeAttnStates::kRowsBeforeHeads}),
};
constexpr Case kVerify[] = {
    merged({2, 3, 65, 128}),
    merged({1, 5, 130, 64, MergeAttnStates::kPacked}),
    merged({2, 4, 33, 72, MergeAttnStates::kRowsBeforeHeads}),
    merged({1, 2, 33, 35}),
    merged({1, 2, 33, 64}, 0, 1),
    merged({1, 2, 33, 64}, 8),
    merged({1, 2, 33, 64, MergeAttnStates::kPacked}, 3),
    merged({1, 1, 1, 1024}),
    merged({1, 2, 0, 64}),
    merged({0, 2, 5, 64}),
};
constexpr Case kBench[] = {
    merged({1, 32, 8192, 128, MergeAttnStates::kPacked}),
    merged({4, 32, 8192, 128}),
    merged({1, 64, 1024, 128, MergeAttnStates::kPacked}),
};

}  // namespace

Cases MergeAttnStates::cases() { return {kSmoke, kVerify, kBench}; }

}  // namespace ws::attention
