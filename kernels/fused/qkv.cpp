// qkv_bias_transpose on the host: what a call is, and what it should give.
#include "kernels/fused/qkv.hpp"

#include <algorithm>

namespace ws::fused {

void QkvBiasTranspose::infer(Problem& problem) {
  const Tensor& qkv = problem["qkv"];
  const Tensor& bias = problem["bias"];
  require(kDTypes.has(qkv.dtype) && qkv.rank == 5 && qkv.extent(2) == 3, kName,
          " takes [B, S, 3, H, D] of ", to_string(kDTypes), ", not ", qkv);
  require(bias.dtype == qkv.dtype && bias.rank == 3 && bias.extent(0) == 3 &&
              bias.extent(1) == qkv.extent(3) && bias.extent(2) == qkv.extent(4),
          kName, ": bias is ", to_string(qkv.dtype), " [3, ", qkv.extent(3), ", ", qkv.extent(4),
          "], not ", bias);
  for (const std::string_view name : {"q", "k", "v"}) {
    problem[name] =
        Tensor::dense(qkv.dtype, {qkv.extent(0), qkv.extent(3), qkv.extent(1), qkv.extent(4)});
  }
}

QkvCall QkvBiasTranspose::call(const Problem& problem) {
  const Tensor& qkv = problem["qkv"];
  const Tensor& bias = problem["bias"];
  QkvCall call{};
  call.dtype = qkv.dtype;
  call.batch = qkv.extent(0);
  call.rows = qkv.extent(1);
  call.heads = qkv.extent(3);
  call.depth = qkv.extent(4);
  call.qkv = qkv.data;
  call.bias = bias.data;
  std::copy_n(qkv.strides.begin(), 5, call.strides);
  std::copy_n(bias.strides.begin(), 3, call.bias_strides);
  for (int part = 0; part < 3; ++part) {
    const Tensor& tensor = problem.tensor(2 + part);
    call.parts[part] = tensor.data;
    std::copy_n(tensor.strides.begin(), 4, call.part_strides[part]);
  }
  return call;
}

// Rows apart by padding; heads before parts in memory where they are swapped.
void QkvBiasTranspose::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto& e = chosen.extents;
  Tensor& qkv = problem["qkv"];
  qkv = Tensor::dense(dtype, {e[0], e[1], 3, e[2], e[3]});
  qkv.strides[1] += chosen.padding;
  qkv.strides[0] = e[1] * qkv.strides[1];
  if (e[4] != 0) {
    qkv.strides[2] = e[3];
    qkv.strides[3] = 3 * e[3];
  }
  problem["bias"] = Tensor::dense(dtype, {3, e[2], e[3]});
}

Cost QkvBiasTranspose::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem), .flops = static_cast<double>(problem["qkv"].elements())};
}

// One sum, rounded to f32 and then to the dtype.
Tolerance QkvBiasTranspose::tolerance(const Problem& problem, const Parameter& /*output*/) {
  switch (problem.dtype()) {
    case DType::kF16: return {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 1e-4};
    case DType::kBf16: return {.relative = 4e-3, .worst = 4e-3, .floor = 1e-4};
    default: return {.relative = 1e-7, .worst = 1e-7, .floor = 1e-7};
  }
}

int64_t QkvBiasTranspose::items(const Problem& problem, const Parameter& output) {
  return problem[output.name].elements();
}

void QkvBiasTranspose::reference(const Problem& problem, Slice slice,
                                 std::span<double* const> expected) {
  const Tensor& qkv = problem["qkv"];
  const Tensor& bias = problem["bias"];
  const int64_t rows = qkv.extent(1);
  const int64_t heads = qkv.extent(3);
  const int64_t depth = qkv.extent(4);
  for (int64_t i = slice.first; i < slice.last; ++i) {
    const int64_t d = i % depth;
    const int64_t s = i / depth % rows;
    const int64_t h = i / depth / rows % heads;
    const int64_t b = i / depth / rows / heads;
    for (int64_t part = 0; part < 3; ++part) {
      const int64_t of_bias = (part * heads + h) * depth + d;
      const int64_t from = (b * rows + s) * 3 * heads * depth + of_bias;
      expected[static_cast<size_t>(2 + part)][i - slice.first] =
          element(qkv, from) + element(bias, of_bias);
    }
  }
}

namespace {

// B, S, H, D, swapped.
constexpr Case kQkvSmoke[] = {
    {.extents = {2, 3, 2, 16}},
    {.extents = {1, 5, 3, 7}},
    {.extents = {1, 4, 2, 8, 1}},
};
constexpr Case kQkvVerify[] = {
    {.extents = {0, 3, 2, 8}},
    {.extents = {1, 1, 1, 1}},
    {.extents = {3, 17, 5, 64}},
    {.extents = {2, 9, 4, 20}},
    {.extents = {2, 6, 3, 24, 1}},
    {.extents = {2, 5, 2, 16}, .padding = 8},
    {.extents = {2, 5, 2, 16}, .padding = 3},
    {.extents = {1, 4, 2, 16}, .offset = 1},
};
constexpr Case kQkvBench[] = {
    {.extents = {8, 2048, 32, 128}},
    {.extents = {32, 512, 12, 64}},
};

}  // namespace

Cases QkvBiasTranspose::cases() { return {kQkvSmoke, kQkvVerify, kQkvBench}; }

}  // namespace ws::fused
