// From problems to calls: what fits together, what comes out.
#include "kernels/linear_attention/operations.hpp"

#include <algorithm>
#include <cmath>

namespace ws::linear_attention {
namespace {

constexpr int64_t kMostColumns = 1024;

template <class... What>
[[noreturn]] void fail(const Problem& problem, const What&... what) {
  throw InvalidArgument(concatenate(problem.operation->name, " ", what...));
}

Rows rows_of(const Tensor& tensor, int64_t heads) {
  return {.data = tensor.data,
          .batch = tensor.stride(0),
          .head = tensor.stride(1),
          .row = tensor.stride(2),
          .column = tensor.stride(3),
          .group = std::max<int64_t>(heads / std::max<int64_t>(tensor.extent(1), 1), 1)};
}
Numbers numbers_of(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {tensor.as<float>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}
States states_of(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {tensor.as<float>(), tensor.stride(0), tensor.stride(1), tensor.stride(2),
          tensor.stride(3)};
}

int64_t heads_of(const Problem& problem) {
  return std::max({problem["q"].extent(1), problem["k"].extent(1), problem["v"].extent(1)});
}

void check_f32(const Problem& problem, std::string_view name, const Tensor& wanted) {
  const Tensor& tensor = problem.find(name);
  if (tensor.exists() && (tensor.dtype != DType::kF32 || !tensor.same_shape(wanted))) [[unlikely]]
    fail(problem, "takes ", name, " of ", wanted, ", got ", tensor);
}

// [B, H, S] and [B, H, D, M] of f32.
Tensor number_tensor(const Problem& problem) {
  const Tensor& q = problem["q"];
  return Tensor::dense(DType::kF32, {q.extent(0), heads_of(problem), q.extent(2)});
}
Tensor state_tensor(const Problem& problem) {
  const Tensor& q = problem["q"];
  return Tensor::dense(DType::kF32,
                       {q.extent(0), heads_of(problem), q.extent(3), problem["v"].extent(3)});
}

void check(const Problem& problem) {
  const Tensor& q = problem["q"];
  const Tensor& k = problem["k"];
  const Tensor& v = problem["v"];
  const auto wrong = [&](const auto&... what) {
    fail(problem, what..., ", got ", q, ", ", k, " and ", v);
  };
  if (q.rank != 4 || k.rank != 4 || v.rank != 4) [[unlikely]]
    wrong("takes q, k and v of 4 dimensions");
  if (!kFloats.has(q.dtype) || q.dtype != k.dtype || q.dtype != v.dtype) [[unlikely]]
    wrong("takes q, k and v of one dtype of ", to_string(kFloats));
  for (const int d : {0, 2}) {
    if (q.extent(d) != k.extent(d) || q.extent(d) != v.extent(d)) [[unlikely]]
      wrong("takes q, k and v of one batch and as many steps");
  }
  if (q.extent(3) != k.extent(3)) [[unlikely]]
    wrong("takes one D in q and k, not ", q.extent(3), " and ", k.extent(3));
  const int64_t heads = heads_of(problem);
  for (const Tensor* tensor : {&q, &k, &v}) {
    const int64_t own = tensor->extent(1);
    if (own == 0 ? heads != 0 : heads % own != 0) [[unlikely]]
      wrong("takes heads that divide the most of them, not ", own, " of ", heads);
  }
  if (q.extent(3) < 1 || q.extent(3) > kMostColumns || v.extent(3) < 1 ||
      v.extent(3) > kMostColumns) [[unlikely]]
    wrong("takes D and M from 1 to ", kMostColumns);
  if (!std::isfinite(problem.number("scale"))) [[unlikely]]
    fail(problem, "takes a finite scale, not ", problem.number("scale"));
  const Tensor number = number_tensor(problem);
  check_f32(problem, "log_decay", number);
  check_f32(problem, "beta", number);
  const Tensor state = state_tensor(problem);
  check_f32(problem, "initial_state", state);
  check_f32(problem, "dfinal_state", state);
}

void infer_forward(Problem& problem) {
  check(problem);
  const Tensor& q = problem["q"];
  problem["out"] =
      Tensor::dense(q.dtype, {q.extent(0), heads_of(problem), q.extent(2), problem["v"].extent(3)});
  problem["final_state"] = problem.flag("output_final_state") ? state_tensor(problem) : Tensor{};
}

Call forward_call(const Problem& problem) {
  const Tensor& q = problem["q"];
  const int64_t heads = heads_of(problem);
  return {.dtype = q.dtype,
          .walk = {.batch = q.extent(0),
                   .heads = heads,
                   .steps = q.extent(2),
                   .dim = q.extent(3),
                   .value_dim = problem["v"].extent(3),
                   .q = rows_of(q, heads),
                   .k = rows_of(problem["k"], heads),
                   .v = rows_of(problem["v"], heads),
                   .out = rows_of(problem["out"], heads),
                   .log_decay = numbers_of(problem["log_decay"]),
                   .beta = numbers_of(problem.find("beta")),
                   .initial = states_of(problem["initial_state"]),
                   .final = states_of(problem["final_state"]),
                   .scale_out = static_cast<float>(problem.number("scale"))}};
}

void infer_backward(Problem& problem) {
  check(problem);
  const Tensor& q = problem["q"];
  const Tensor& k = problem["k"];
  const Tensor& v = problem["v"];
  const Tensor& dout = problem["dout"];
  if (q.extent(1) != k.extent(1) || q.extent(1) != v.extent(1)) [[unlikely]]
    fail(problem, "takes as many heads of q, k and v, got ", q, ", ", k, " and ", v);
  if (dout.dtype != q.dtype || !dout.same_shape(v)) [[unlikely]]
    fail(problem, "takes dout of the shape and dtype of v, got ", dout, " and ", v);
  problem["dq"] = Tensor::like(q);
  problem["dk"] = Tensor::like(k);
  problem["dv"] = Tensor::like(v);
  problem["dlog_decay"] = problem["log_decay"].exists() ? number_tensor(problem) : Tensor{};
  problem["dinitial_state"] = problem["initial_state"].exists() ? state_tensor(problem) : Tensor{};
}

BackwardCall backward_call(const Problem& problem) {
  const Tensor& q = problem["q"];
  const int64_t heads = q.extent(1);
  const auto rows = [&](std::string_view name) { return rows_of(problem[name], heads); };
  return {.dtype = q.dtype,
          .batch = q.extent(0),
          .heads = heads,
          .steps = q.extent(2),
          .dim = q.extent(3),
          .value_dim = problem["v"].extent(3),
          .q = rows("q"),
          .k = rows("k"),
          .v = rows("v"),
          .dout = rows("dout"),
          .dq = rows("dq"),
          .dk = rows("dk"),
          .dv = rows("dv"),
          .log_decay = numbers_of(problem["log_decay"]),
          .dlog_decay = numbers_of(problem["dlog_decay"]),
          .initial = states_of(problem["initial_state"]),
          .dfinal = states_of(problem["dfinal_state"]),
          .dinitial = states_of(problem["dinitial_state"]),
          .scale = static_cast<float>(problem.number("scale")),
          .has_decay = problem["log_decay"].exists(),
          .has_dfinal = problem["dfinal_state"].exists()};
}

}  // namespace

void LinearAttention::infer(Problem& problem) { infer_forward(problem); }
void DeltaRule::infer(Problem& problem) { infer_forward(problem); }
Call LinearAttention::call(const Problem& problem) { return forward_call(problem); }
DeltaCall DeltaRule::call(const Problem& problem) { return {forward_call(problem)}; }

void LinearAttentionBackward::infer(Problem& problem) { infer_backward(problem); }
BackwardCall LinearAttentionBackward::call(const Problem& problem) {
  return backward_call(problem);
}

void DeltaRuleBackward::infer(Problem& problem) {
  infer_backward(problem);
  problem["dbeta"] = number_tensor(problem);
}
DeltaBackwardCall DeltaRuleBackward::call(const Problem& problem) {
  return {backward_call(problem), numbers_of(problem["beta"]), numbers_of(problem["dbeta"])};
}

}  // namespace ws::linear_attention
