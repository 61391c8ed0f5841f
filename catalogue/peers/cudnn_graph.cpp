#include "catalogue/peers/cudnn_graph.hpp"

#ifdef WS_HAS_CUDNN_GRAPH
#include <vector>
#endif

namespace ws::peers {

#ifndef WS_HAS_CUDNN_GRAPH

Reason cudnn_graph_supports(const Problem& problem) {
  const Reason reason = cudnn_supports(problem);
  return reason.empty() ? "was not built: its graphs need the cudnn.h of version 9" : reason;
}

#else

namespace {

struct Functions {
  decltype(&cudnnBackendCreateDescriptor) create =
      cudnn_function<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  decltype(&cudnnBackendDestroyDescriptor) destroy =
      cudnn_function<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  decltype(&cudnnBackendSetAttribute) set =
      cudnn_function<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  decltype(&cudnnBackendGetAttribute) get =
      cudnn_function<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  decltype(&cudnnBackendFinalize) finalize =
      cudnn_function<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize");
  decltype(&cudnnBackendExecute) execute =
      cudnn_function<decltype(cudnnBackendExecute)>("cudnnBackendExecute");
  decltype(&cudnnGetErrorString) error_string =
      cudnn_function<decltype(cudnnGetErrorString)>("cudnnGetErrorString");
  decltype(&cudnnGetLastErrorString) last_error =
      cudnn_function<decltype(cudnnGetLastErrorString)>("cudnnGetLastErrorString");
};

const Functions& functions() {
  static const Functions kFunctions;
  return kFunctions;
}

[[noreturn]] void fail(cudnnStatus_t status, std::string_view what) {
  std::array<char, 1024> words{};
  functions().last_error(words.data(), words.size() - 1);
  throw Error(concatenate(what, ": ", functions().error_string(status),
                          words.front() == '\0' ? "" : ": ", words.data()));
}

}  // namespace

// ---- Descriptors ------------------------------------------------------------------------------

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string_view name)
    : name_(name) {
  check(functions().create(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) functions().destroy(descriptor_);
}

void CudnnDescriptor::check(cudnnStatus_t status, const char* call, int attribute) const {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  fail(status, attribute < 0 ? concatenate(call, " of ", name_)
                             : concatenate(call, " of ", name_, ", attribute ", attribute));
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                          int64_t count, const void* values) {
  check(functions().set(descriptor_, attribute, type, count, values), "cudnnBackendSetAttribute",
        attribute);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t attribute, const CudnnDescriptor& value) {
  set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, static_cast<const void*>(&value.descriptor_));
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t attribute,
                          const std::deque<CudnnDescriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (const CudnnDescriptor& value : values) descriptors.push_back(value.descriptor_);
  set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(descriptors.size()),
      static_cast<const void*>(descriptors.data()));
}

void CudnnDescriptor::finalize() {
  check(functions().finalize(descriptor_), "cudnnBackendFinalize");
}

int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t attribute,
                             cudnnBackendAttributeType_t type, int64_t count, void* values) const {
  int64_t written = 0;
  check(functions().get(descriptor_, attribute, type, count, &written, values),
        "cudnnBackendGetAttribute", attribute);
  return written;
}

int64_t CudnnDescriptor::integer(cudnnBackendAttributeName_t attribute) const {
  int64_t value = 0;
  get(attribute, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

std::deque<CudnnDescriptor> CudnnDescriptor::list(cudnnBackendAttributeName_t attribute,
                                                  cudnnBackendDescriptorType_t type,
                                                  std::string_view name) const {
  const int64_t count = get(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::deque<CudnnDescriptor> all;
  std::vector<cudnnBackendDescriptor_t> descriptors;  // that cuDNN fills in
  for (int64_t i = 0; i < count; ++i) {
    descriptors.push_back(all.emplace_back(type, name).descriptor_);
  }
  if (count == 0) return all;
  const int64_t filled =
      get(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, static_cast<void*>(descriptors.data()));
  while (static_cast<int64_t>(all.size()) > filled) all.pop_back();
  return all;
}

// ---- Graphs and plans -------------------------------------------------------------------------

const CudnnDescriptor& CudnnGraph::tensor(const CudnnTensor& tensor) {
  CudnnDescriptor& made = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  const cudnnDataType_t type = tensor.dtype == DType::kF32   ? CUDNN_DATA_FLOAT
                               : tensor.dtype == DType::kF16 ? CUDNN_DATA_HALF
                                                             : CUDNN_DATA_BFLOAT16;
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(tensor.shape));
  made.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(tensor.strides));
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, tensor.by_value);
  made.finalize();
  return made;
}

CudnnDescriptor& CudnnGraph::operation(cudnnBackendDescriptorType_t type, std::string_view name) {
  return operations_.emplace_back(type, name);
}

CudnnPlan::CudnnPlan(const std::function<void(CudnnGraph&)>& describe) {
  // What cuDNN does not take it says in different places, some of them early.
  try {
    describe(parts_);
    for (CudnnDescriptor& operation : parts_.operations_) operation.finalize();
    CudnnDescriptor& graph =
        graph_.emplace_back(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn_handle(nullptr));
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, parts_.operations_);
    graph.finalize();
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      find(graph, mode);
      if (!plan_.empty()) return;
    }
    if (missing_.empty()) missing_ = "its heuristics have no engine";
  } catch (const Error& error) {
    missing_ = error.message();
  }
}

// The first reason why there is no plan is kept: it is that of the engine thought to be the best.
void CudnnPlan::find(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  const auto note = [this](const Error& error) {
    if (missing_.empty()) missing_ = error.message();
  };
  try {
    CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "the heuristics");
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    heuristics.finalize();
    configurations_ = heuristics.list(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine");
  } catch (const Error& error) {
    note(error);
    return;
  }
  for (const CudnnDescriptor& configuration : configurations_) {
    try {
      CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnn_handle(nullptr));
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      plan.finalize();
      workspace_ = static_cast<size_t>(plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
      plan_.push_back(std::move(plan));
      missing_.clear();
      return;
    } catch (const Error& error) {
      note(error);
    }
  }
}

void CudnnPlan::execute(std::span<const int64_t> ids, std::span<void* const> data,
                        const Context& context) const {
  if (plan_.empty()) throw Error(missing_);
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the pointers");
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, context.workspace);
  pack.finalize();
  const cudnnStatus_t status =
      functions().execute(cudnn_handle(context.stream), plan_.front().get(), pack.get());
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail(status, "cudnnBackendExecute");
}

Reason cudnn_graph_supports(const Problem& problem) {
  Reason reason = cudnn_supports(problem);
  if (!reason.empty()) return reason;
  for (const Tensor& tensor : problem.tensors) {
    if (reinterpret_cast<uintptr_t>(tensor.data) % CudnnGraph::kAlignment != 0) {
      return concatenate("takes tensors that start at a multiple of ", CudnnGraph::kAlignment,
                         " bytes, not ", tensor, " at ", tensor.data);
    }
  }
  return {};
}

#endif

}  // namespace ws::peers
