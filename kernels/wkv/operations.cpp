// From problems to calls: what fits together, what comes out.
#include "kernels/wkv/operations.hpp"

#include <algorithm>

namespace ws::wkv {
namespace {

[[noreturn]] void refuse(const Problem& problem, std::string_view name, std::string_view wanted) {
  throw InvalidArgument(concatenate(problem.operation->name, ": '", name, "' is ",
                                    problem.find(name), ", not ", wanted, "; 'k' is ",
                                    problem["k"]));
}
void check(const Problem& problem, std::string_view name, const Tensor& like,
           std::string_view wanted) {
  const Tensor& tensor = problem.find(name);
  if (tensor.exists() && (tensor.dtype != like.dtype || !tensor.same_shape(like))) [[unlikely]]
    refuse(problem, name, wanted);
}
Tensor state_of(const Tensor& k) {
  return Tensor::dense(DType::kF32, {k.extent(0), 3, k.extent(2)});
}

void check_inputs(const Problem& problem) {
  const Tensor& k = problem["k"];
  if (!kFloats.has(k.dtype) || k.rank != 3) [[unlikely]]
    refuse(problem, "k", "f32, f16 or bf16 of [B, T, C]");
  constexpr int64_t kMostSteps = int64_t{1} << 24;  // as far as f32 counts
  if (k.extent(1) > kMostSteps) [[unlikely]]
    refuse(problem, "k", concatenate("of up to ", kMostSteps, " steps"));
  for (const std::string_view name : {"v", "g"}) {
    check(problem, name, k, "of the shape and dtype of 'k'");
  }
  const Tensor channels = Tensor::dense(DType::kF32, {k.extent(2)});
  for (const std::string_view name : {"w", "u"}) check(problem, name, channels, "f32 of [C]");
  for (const std::string_view name : {"state", "g_last_state"}) {
    check(problem, name, state_of(k), "f32 of [B, 3, C]");
  }
}

Operand of_steps(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {tensor.data, true, tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}
Operand of_channels(const Tensor& tensor) {
  return {.data = tensor.data, .exists = true, .channel = tensor.stride(0)};
}

template <class Call>
Call call_of(const Problem& problem) {
  Call call{};
  const Tensor& k = problem["k"];
  call.dtype = k.dtype;
  call.batch = k.extent(0);
  call.length = k.extent(1);
  call.channels = k.extent(2);
  call.k = of_steps(k);
  call.v = of_steps(problem["v"]);
  call.w = of_channels(problem["w"]);
  call.u = of_channels(problem["u"]);
  call.state = of_steps(problem["state"]);
  return call;
}

}  // namespace

void Wkv::infer(Problem& problem) {
  check_inputs(problem);
  problem["out"] = Tensor::like(problem["k"]);
  problem["last_state"] = problem.flag("return_state") ? state_of(problem["k"]) : Tensor{};
}
ForwardCall Wkv::call(const Problem& problem) {
  auto call = call_of<ForwardCall>(problem);
  call.out = of_steps(problem["out"]);
  call.last_state = of_steps(problem["last_state"]);
  return call;
}

void WkvBackward::infer(Problem& problem) {
  check_inputs(problem);
  problem["gk"] = problem["gv"] = Tensor::like(problem["k"]);
  problem["gw"] = problem["gu"] = Tensor::dense(DType::kF32, {problem["k"].extent(2)});
  problem["gstate"] = problem["state"].exists() ? state_of(problem["k"]) : Tensor{};
}
BackwardCall WkvBackward::call(const Problem& problem) {
  auto call = call_of<BackwardCall>(problem);
  call.g = of_steps(problem["g"]);
  call.g_last_state = of_steps(problem["g_last_state"]);
  call.gstate = of_steps(problem["gstate"]);
  call.gk = of_steps(problem["gk"]);
  call.gv = of_steps(problem["gv"]);
  call.gw = of_channels(problem["gw"]);
  call.gu = of_channels(problem["gu"]);
  return call;
}

}  // namespace ws::wkv
