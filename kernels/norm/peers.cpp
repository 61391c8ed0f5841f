// cuDNN as a peer of layer_norm, rms_norm and their gradients.
#include <concepts>

#include "catalogue/peers/cudnn_graph.hpp"
#include "kernels/norm/operations.hpp"

namespace ws::norm {
namespace {

#ifdef WS_HAS_CUDNN_GRAPH
using peers::CudnnDescriptor;
using peers::CudnnGraph;
using peers::CudnnPlan;

// Rows are images of `columns` channels of one pixel, channels innermost.
enum class Part : uint8_t { kRows, kColumns, kStatistic };

// A tensor of ours, if the operation has it and the call does, and what it is to cuDNN's.
struct Operand {
  std::string_view name;
  cudnnBackendAttributeName_t attribute;
  Part part;
};
constexpr Operand kForward[] = {
    {"x", CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, Part::kRows},
    {"weight", CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, Part::kColumns},
    {"bias", CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, Part::kColumns},
    {"y", CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, Part::kRows},
    {"mean", CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, Part::kStatistic},
    {"rstd", CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, Part::kStatistic},
};
constexpr Operand kBackward[] = {
    {"grad", CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, Part::kRows},
    {"x", CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, Part::kRows},
    {"weight", CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, Part::kColumns},
    {"mean", CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, Part::kStatistic},
    {"rstd", CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, Part::kStatistic},
    {"dx", CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, Part::kRows},
    {"dweight", CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, Part::kColumns},
    {"dbias", CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, Part::kColumns},
};
template <class Op>
constexpr bool kIsForward = std::derived_from<Op, Forward<Op::Call::kCentred>>;
template <class Op>
constexpr std::span<const Operand> kOperands =
    kIsForward<Op> ? std::span<const Operand>(kForward) : std::span<const Operand>(kBackward);
constexpr int64_t kEpsilonId = kMaxTensors + 1;  // those of tensors are their places, from 1 on

// What a plan depends on.
struct Key {
  std::string_view operation;
  std::array<DType, kMaxTensors> dtypes;
  uint32_t given;  // which tensors, a bit each
  int64_t rows;
  int64_t columns;
  auto operator<=>(const Key&) const = default;
};

Key key_of(const Problem& problem) {
  Key key{};
  key.operation = problem.operation->name;
  for (size_t i = 0; i < problem.tensors.size(); ++i) {
    const Tensor& tensor = problem.tensors[i];
    if (!tensor.exists()) continue;
    key.dtypes[i] = tensor.dtype;
    key.given |= 1U << i;
  }
  const Tensor& first = problem.tensor(0);
  key.columns = first.extent(first.rank - 1);
  key.rows = first.elements() / key.columns;
  return key;
}

// Not 0, which some of cuDNN's engines take for a tensor that is missing.
int64_t id_of(const Problem& problem, const Operand& operand) {
  return 1 + problem.operation->index_of(operand.name);
}

template <class Op>
void describe(const Problem& problem, const Key& key, CudnnGraph& graph) {
  const auto tensor = [&](int64_t id, DType dtype, int64_t rows, int64_t columns,
                          bool by_value = false) -> const CudnnDescriptor& {
    return graph.tensor({.id = id,
                         .dtype = dtype,
                         .shape = {rows, columns, 1, 1},
                         .strides = {columns, 1, columns, columns},
                         .by_value = by_value});
  };
  constexpr cudnnBackendNormMode_t kMode = Op::Call::kCentred ? CUDNN_LAYER_NORM : CUDNN_RMS_NORM;
  CudnnDescriptor& operation =
      graph.operation(kIsForward<Op> ? CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
                                     : CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
                      Op::kName);
  if constexpr (kIsForward<Op>) {
    operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, kMode);
    operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE,
                  problem["rstd"].exists() ? CUDNN_NORM_FWD_TRAINING : CUDNN_NORM_FWD_INFERENCE);
    operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
                  tensor(kEpsilonId, DType::kF32, 1, 1, true));
  } else {
    operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, kMode);
  }
  for (const Operand& operand : kOperands<Op>) {
    const Tensor& ours = problem.find(operand.name);
    if (!ours.exists()) continue;
    operation.set(operand.attribute, tensor(id_of(problem, operand), ours.dtype,
                                            operand.part == Part::kColumns ? 1 : key.rows,
                                            operand.part == Part::kStatistic ? 1 : key.columns));
  }
}

template <class Op>
const CudnnPlan& plan_of(const Problem& problem) {
  static peers::CudnnPlans<Key> plans;
  const Key key = key_of(problem);
  return plans.of(key, [&](CudnnGraph& graph) { describe<Op>(problem, key, graph); });
}

template <class Op>
Reason supports(const Problem& problem) {
  if (Reason reason = peers::cudnn_graph_supports(problem); !reason.empty()) return reason;
  if (const Tensor& residual = problem.find("residual"); residual.exists()) {
    return concatenate("adds no residual, here ", residual);
  }
  if (!kIsForward<Op> && !problem["rstd"].exists()) {
    return "computes no statistics again: takes the forward's";
  }
  return plan_of<Op>(problem).missing();
}

template <class Op>
size_t workspace(const Problem& problem) {
  return plan_of<Op>(problem).workspace();
}

template <class Op>
void run(const Problem& problem, const Context& context) {
  std::array<int64_t, kMaxTensors + 1> ids{};
  std::array<void*, kMaxTensors + 1> data{};
  size_t count = 0;
  const auto add = [&](int64_t id, void* pointer) {
    ids[count] = id;
    data[count++] = pointer;
  };
  for (const Operand& operand : kOperands<Op>) {
    const Tensor& ours = problem.find(operand.name);
    if (ours.exists()) add(id_of(problem, operand), ours.data);
  }
  auto eps = static_cast<float>(problem.number("eps"));
  if (kIsForward<Op>) add(kEpsilonId, &eps);
  plan_of<Op>(problem).execute(std::span(ids).first(count), std::span(data).first(count), context);
}

template <class Op>
constexpr Peer kPeers[] = {{"cudnn", supports<Op>, workspace<Op>, run<Op>}};
#else
// Listed all the same, so that it is said why there are no figures.
template <class Op>
constexpr Peer kPeers[] = {{"cudnn", peers::cudnn_graph_supports, nullptr,
                            [](const Problem& problem, const Context& /*context*/) {
                              throw Error(peers::cudnn_graph_supports(problem));
                            }}};
#endif

}  // namespace

std::span<const Peer> LayerNorm::peers() { return kPeers<LayerNorm>; }
std::span<const Peer> RmsNorm::peers() { return kPeers<RmsNorm>; }
std::span<const Peer> LayerNormBackward::peers() { return kPeers<LayerNormBackward>; }
std::span<const Peer> RmsNormBackward::peers() { return kPeers<RmsNormBackward>; }

}  // namespace ws::norm
