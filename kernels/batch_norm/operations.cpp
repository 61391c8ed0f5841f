// From problems to calls: what fits together, what comes out.
#include "kernels/batch_norm/operations.hpp"

namespace ws::batch_norm {
namespace {

[[noreturn]] void refuse(const Problem& problem, std::string_view name, const Tensor& tensor,
                         std::string_view wanted) {
  throw InvalidArgument(concatenate(problem.operation->name, ": '", name, "' is ", tensor, ", not ",
                                    wanted, "; '", problem.operation->parameters[0].name, "' is ",
                                    problem.tensor(0)));
}
bool has(const Problem& problem, std::string_view name) {
  return problem.operation->index_of(name) >= 0;
}
bool has_attribute(const Problem& problem, std::string_view name) {
  for (const Attribute& attribute : problem.operation->attributes) {
    if (attribute.name == name) return true;
  }
  return false;
}

// A number a channel.
void check_channels(const Problem& problem, std::string_view name) {
  const Tensor& tensor = problem.find(name);
  const Tensor& x = problem.tensor(0);
  if (tensor.exists() && (tensor.rank != 1 || tensor.extent(0) != x.extent(1) ||
                          (tensor.dtype != x.dtype && tensor.dtype != DType::kF32))) [[unlikely]] {
    refuse(problem, name, tensor,
           "one element a channel, of the dtype of the first tensor or of f32");
  }
}
// A number a channel, or a group of a sample.
Tensor statistic_of(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  if (!has_attribute(problem, "groups")) return Tensor::dense(DType::kF32, {x.extent(1)});
  return Tensor::dense(DType::kF32, {x.extent(0), problem.integer("groups")});
}
void check_statistic(const Problem& problem, std::string_view name) {
  const Tensor& tensor = problem.find(name);
  if (tensor.dtype != DType::kF32 || !tensor.same_shape(statistic_of(problem))) [[unlikely]] {
    refuse(problem, name, tensor,
           has_attribute(problem, "groups") ? "f32 with one element a group of each sample"
                                            : "f32 with one element a channel");
  }
}

// torch's words: where a channel is one number, its variance says nothing.
void check_several_values(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  int64_t count = x.extent(0);
  for (int d = 2; d < x.rank; ++d) count *= x.extent(d);
  if (count != 1) [[likely]]
    return;
  throw InvalidArgument(concatenate(problem.operation->name,
                                    ": Expected more than 1 value per channel when training, got "
                                    "input ",
                                    x));
}

// A dimension of all operands.
struct Axis {
  int64_t extent;
  std::array<int64_t, kMostOperands> strides;
  bool is_channel;
};

Layout layout_of(std::span<const Tensor* const> tensors, int64_t groups) {
  Layout layout;
  const Tensor& x = *tensors[0];
  const bool batch = groups == 0;
  layout.operands = static_cast<int>(tensors.size());
  layout.per = batch ? x.extent(1) : groups;
  layout.width = batch ? 1 : x.extent(1) / groups;
  layout.sets = batch ? layout.per : x.extent(0) * groups;
  std::array<Axis, Layout::kMostAxes> axes{};
  size_t count = 0;
  const auto add = [&](int d, int64_t extent) {
    layout.count *= extent;
    if (extent == 1) return;
    Axis axis{extent, {}, d == 1};
    for (size_t k = 0; k < tensors.size(); ++k) axis.strides[k] = tensors[k]->stride(d);
    size_t at = count++;
    for (; at > 0 && axes[at - 1].strides[0] < axis.strides[0]; --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  };
  if (batch) add(0, x.extent(0));
  if (!batch) add(1, layout.width);
  for (int d = 2; d < x.rank; ++d) add(d, x.extent(d));
  for (size_t k = 0; k < tensors.size(); ++k) {
    layout.data[k] = tensors[k]->data;
    // torch leaves any stride where there is one of a thing.
    layout.sample[k] = batch || x.extent(0) == 1 ? 0 : tensors[k]->stride(0);
    layout.set[k] = layout.per == 1 ? 0 : tensors[k]->stride(1) * layout.width;
  }
  for (size_t i = 0; i < count; ++i) {
    const Axis& axis = axes[i];
    const auto last = static_cast<size_t>(layout.axes - 1);
    bool even = layout.axes > 0 && !axis.is_channel && layout.channel_axis != layout.axes - 1;
    for (size_t k = 0; k < tensors.size() && even; ++k) {
      even = layout.strides[k][last] == axis.strides[k] * axis.extent;
    }
    const auto at = even ? last : static_cast<size_t>(layout.axes++);
    layout.extents[at] = even ? layout.extents[at] * axis.extent : axis.extent;
    if (axis.is_channel) layout.channel_axis = static_cast<int>(at);
    for (size_t k = 0; k < tensors.size(); ++k) layout.strides[k][at] = axis.strides[k];
  }
  return layout;
}
int64_t groups_of(const Problem& problem) {
  return has_attribute(problem, "groups") ? problem.integer("groups") : 0;
}

}  // namespace

void Common::infer(Problem& problem) {
  const Tensor& first = problem.tensor(0);
  if (!kDTypes.has(first.dtype) || first.rank < 2 || first.rank > 5) [[unlikely]] {
    refuse(problem, problem.operation->parameters[0].name, first,
           "of f32, f16 or bf16 with 2 to 5 dimensions");
  }
  if (has_attribute(problem, "groups")) {
    const int64_t groups = problem.integer("groups");
    if (groups < 1 || first.extent(1) % groups != 0) [[unlikely]] {
      throw InvalidArgument(concatenate(problem.operation->name, ": ", first.extent(1),
                                        " channels do not fall into groups=", groups));
    }
  }
  for (const std::string_view name : {"weight", "bias", "running_mean", "running_var"}) {
    check_channels(problem, name);
  }
  const Tensor statistic = statistic_of(problem);
  if (has(problem, "grad")) {
    const Tensor& x = problem["x"];
    if (x.dtype != first.dtype || !x.same_shape(first)) [[unlikely]] {
      refuse(problem, "x", x, "of the shape and dtype of 'grad'");
    }
    check_statistic(problem, "mean");
    check_statistic(problem, "rstd");
    const Tensor& weight = problem["weight"];
    const DType dtype = weight.exists() ? weight.dtype : DType::kF32;
    problem["dx"] = Tensor::like(first);
    problem["dweight"] = Tensor::dense(dtype, {first.extent(1)});
    problem["dbias"] = problem["dweight"];
    return;
  }
  problem["y"] = Tensor::like(first);
  if (!has(problem, "mean")) return;
  if (!has_attribute(problem, "groups")) check_several_values(problem);
  problem["mean"] = statistic;
  problem["rstd"] = statistic;
}

ForwardCall Forward::call(const Problem& problem) {
  Call call{};
  const Tensor* const tensors[] = {&problem["x"], &problem["y"]};
  call.dtype = problem.dtype();
  call.layout = layout_of(tensors, groups_of(problem));
  call.weight = Values(problem["weight"]);
  call.bias = Values(problem["bias"]);
  call.mean = Values(problem.find("mean"));
  call.rstd = Values(problem.find("rstd"));
  call.running_mean = Values(problem.find("running_mean"));
  call.running_var = Values(problem.find("running_var"));
  call.given = !has(problem, "mean");
  if (has_attribute(problem, "momentum")) {
    call.momentum = static_cast<float>(problem.number("momentum"));
  }
  call.eps = static_cast<float>(problem.number("eps"));
  return call;
}

BackwardCall Backward::call(const Problem& problem) {
  Call call{};
  const Tensor* const tensors[] = {&problem["grad"], &problem["x"], &problem["dx"]};
  call.dtype = problem.dtype();
  call.layout = layout_of(tensors, groups_of(problem));
  call.rows = layout_of(tensors, std::max<int64_t>(problem.tensor(0).extent(1), 1));
  call.weight = Values(problem["weight"]);
  call.mean = Values(problem["mean"]);
  call.rstd = Values(problem["rstd"]);
  call.dweight = Values(problem["dweight"]);
  call.dbias = Values(problem["dbias"]);
  call.groups = has_attribute(problem, "groups");
  call.training = !has_attribute(problem, "training") || problem.flag("training");
  return call;
}

}  // namespace ws::batch_norm
