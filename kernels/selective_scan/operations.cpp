// From problems to calls: what fits together, what comes out.
#include "kernels/selective_scan/operations.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace ws::selective_scan {
namespace {

[[noreturn]] void refuse(const Problem& problem, std::string_view name, std::string_view wanted) {
  throw InvalidArgument(concatenate(problem.operation->name, ": '", name, "' is ",
                                    problem.find(name), ", not ", wanted, "; 'u' is ",
                                    problem["u"]));
}
bool is(const Tensor& tensor, DType dtype, std::initializer_list<int64_t> shape) {
  return tensor.dtype == dtype && std::ranges::equal(tensor.extents(), shape);
}
void check(const Problem& problem, std::string_view name, DType dtype,
           std::initializer_list<int64_t> shape, std::string_view wanted) {
  const Tensor& tensor = problem.find(name);
  if (tensor.exists() && !is(tensor, dtype, shape)) [[unlikely]]
    refuse(problem, name, wanted);
}

// Its dimensions in order, by the stride that each is.
Operand operand(const Tensor& tensor, std::initializer_list<int64_t Operand::*> dims) {
  Operand result;
  result.data = tensor.data;
  result.exists = tensor.exists();
  if (!result.exists) return result;
  int d = 0;
  for (int64_t Operand::* const dim : dims) result.*dim = tensor.stride(d++);
  return result;
}
Operand of_steps(const Tensor& tensor) {
  return operand(tensor, {&Operand::batch, &Operand::channel, &Operand::step});
}
Operand of_group(const Tensor& tensor) {
  if (tensor.rank == 3) return operand(tensor, {&Operand::batch, &Operand::state, &Operand::step});
  return operand(tensor, {&Operand::batch, &Operand::channel, &Operand::state, &Operand::step});
}
// The tensor at `index` of the first dimension.
Tensor part_of(const Tensor& tensor, int64_t index) {
  if (!tensor.exists()) return {};
  Tensor part{.data = nullptr, .dtype = tensor.dtype, .rank = tensor.rank - 1};
  if (tensor.data != nullptr) {
    part.data = static_cast<std::byte*>(tensor.data) +
                index * tensor.stride(0) * static_cast<int64_t>(size_of(tensor.dtype));
  }
  std::ranges::copy(tensor.extents().subspan(1), part.shape.begin());
  std::copy_n(tensor.strides.begin() + 1, part.rank, part.strides.begin());
  return part;
}
Operand of_channel(const Tensor& tensor) { return operand(tensor, {&Operand::channel}); }
Operand of_states(const Tensor& tensor) {
  return operand(tensor, {&Operand::batch, &Operand::channel, &Operand::state});
}

void check_inputs(const Problem& problem) {
  const Tensor& u = problem["u"];
  if (!kFloats.has(u.dtype) || u.rank != 3) [[unlikely]]
    refuse(problem, "u", "f32, f16 or bf16 of [batch, dim, L]");
  const int64_t batch = u.extent(0);
  const int64_t dim = u.extent(1);
  const int64_t length = u.extent(2);
  for (const std::string_view name : {"delta", "z", "g"}) {
    check(problem, name, u.dtype, {batch, dim, length}, "of the shape and dtype of 'u'");
  }
  const Tensor& a = problem["a"];
  if (a.dtype != DType::kF32 || a.rank != 2 || a.extent(0) != dim || a.extent(1) < 1 ||
      a.extent(1) > kMostStates) [[unlikely]] {
    refuse(problem, "a", "f32 of [dim, N] with 1 to 256 states");
  }
  const int64_t states = a.extent(1);
  const Tensor& b = problem["b"];
  const int64_t groups = b.rank == 4 ? b.extent(1) : 1;
  const bool fits = b.rank == 4 ? is(b, u.dtype, {batch, groups, states, length})
                                : is(b, u.dtype, {batch, states, length});
  if (!fits || groups < 1 || dim % groups != 0) [[unlikely]] {
    refuse(problem, "b", "[batch, N, L] or [batch, groups, N, L] of the dtype of 'u'");
  }
  const Tensor& c = problem["c"];
  if (c.dtype != b.dtype || !c.same_shape(b)) [[unlikely]]
    refuse(problem, "c", "of the shape and dtype of 'b'");
  for (const std::string_view name : {"d", "delta_bias"}) {
    check(problem, name, DType::kF32, {dim}, "f32 of [dim]");
  }
}

template <class Call>
Call call_of(const Problem& problem) {
  Call call{};
  const Tensor& u = problem["u"];
  const Tensor& b = problem["b"];
  call.dtype = u.dtype;
  call.batch = u.extent(0);
  call.dim = u.extent(1);
  call.length = u.extent(2);
  call.states = problem["a"].extent(1);
  call.groups = b.rank == 4 ? b.extent(1) : 1;
  call.softplus = problem.flag("delta_softplus");
  call.u = of_steps(u);
  call.delta = of_steps(problem["delta"]);
  call.a = operand(problem["a"], {&Operand::channel, &Operand::state});
  call.b = of_group(b);
  call.c = of_group(problem["c"]);
  call.d = of_channel(problem["d"]);
  call.z = of_steps(problem["z"]);
  call.delta_bias = of_channel(problem["delta_bias"]);
  return call;
}

}  // namespace

void SelectiveScan::infer(Problem& problem) {
  check_inputs(problem);
  const Tensor& u = problem["u"];
  const Tensor state =
      Tensor::dense(DType::kF32, {u.extent(0), u.extent(1), problem["a"].extent(1)});
  check(problem, "initial_state", DType::kF32, {state.extent(0), state.extent(1), state.extent(2)},
        "f32 of [batch, dim, N]");
  problem["out"] = Tensor::like(u);
  problem["last_state"] = problem.flag("return_last_state") ? state : Tensor{};
}

ForwardCall SelectiveScan::call(const Problem& problem) {
  auto call = call_of<ForwardCall>(problem);
  call.initial_state = of_states(problem["initial_state"]);
  call.out = of_steps(problem["out"]);
  call.last_state = of_states(problem["last_state"]);
  return call;
}

void SelectiveScanBackward::infer(Problem& problem) {
  check_inputs(problem);
  const Tensor& u = problem["u"];
  const int64_t states = problem["a"].extent(1);
  check(problem, "states", DType::kF32, {2, u.extent(0), u.extent(1), states},
        "f32 of [2, batch, dim, N]");
  std::vector<int64_t> of_group{2};
  std::ranges::copy(problem["b"].extents(), std::back_inserter(of_group));
  problem["du"] = problem["ddelta"] = Tensor::like(u);
  problem["dgroup"] = Tensor::dense(u.dtype, of_group);
  problem["dchannel"] = Tensor::dense(DType::kF32, {states + 2, u.extent(1)});
  problem["dinitial_state"] = problem["states"].exists()
                                  ? Tensor::dense(DType::kF32, {u.extent(0), u.extent(1), states})
                                  : Tensor{};
  problem["dz"] = problem["z"].exists() ? Tensor::like(u) : Tensor{};
}

BackwardCall SelectiveScanBackward::call(const Problem& problem) {
  auto call = call_of<BackwardCall>(problem);
  call.g = of_steps(problem["g"]);
  call.du = of_steps(problem["du"]);
  call.ddelta = of_steps(problem["ddelta"]);
  call.initial_state = of_states(part_of(problem["states"], 0));
  call.dlast_state = of_states(part_of(problem["states"], 1));
  call.dinitial_state = of_states(problem["dinitial_state"]);
  call.db = of_group(part_of(problem["dgroup"], 0));
  call.dc = of_group(part_of(problem["dgroup"], 1));
  call.dz = of_steps(problem["dz"]);
  call.da = call.dchannel = operand(problem["dchannel"], {&Operand::state, &Operand::channel});
  if (call.dchannel.data != nullptr) {
    call.dchannel.data = call.da.at<float>(0, 0) + call.states * call.da.state;
  }
  return call;
}

}  // namespace ws::selective_scan
