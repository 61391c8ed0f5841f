// cuDNN's graph API, for the families whose peer it is: an operation is described and planned once,
// then a call only names its pointers.
#pragma once

#include "catalogue/peers/cudnn.hpp"

// Norms of rows and errors in words are there from version 9 on.
#if defined(WS_HAS_CUDNN) && CUDNN_MAJOR >= 9
#define WS_HAS_CUDNN_GRAPH

#include <array>
#include <concepts>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "warpsmith/runtime.hpp"
#endif

namespace ws::peers {

// As cudnn_supports(), of calls by this API.
Reason cudnn_graph_supports(const Problem& problem);

#ifdef WS_HAS_CUDNN_GRAPH

// What cuDNN calls the type of an attribute.
template <class T>
consteval cudnnBackendAttributeType_t cudnn_attribute_type() {
  if constexpr (std::same_as<T, int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::same_as<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::same_as<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::same_as<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::same_as<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::same_as<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::same_as<T, cudnnBackendNormMode_t>) return CUDNN_TYPE_NORM_MODE;
  if constexpr (std::same_as<T, cudnnBackendNormFwdPhase_t>) return CUDNN_TYPE_NORM_FWD_PHASE;
}

// One of cuDNN's backend descriptors. All throw with the call, what it was of, and cuDNN's words.
class CudnnDescriptor {
 public:
  CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string_view name);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : name_(other.name_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;
  ~CudnnDescriptor();

  template <class T>
  void set(cudnnBackendAttributeName_t attribute, std::span<const T> values) {
    set(attribute, cudnn_attribute_type<T>(), static_cast<int64_t>(values.size()),
        static_cast<const void*>(values.data()));
  }
  template <class T>
  void set(cudnnBackendAttributeName_t attribute, const T& value) {
    set(attribute, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t attribute, const CudnnDescriptor& value);
  void set(cudnnBackendAttributeName_t attribute, const std::deque<CudnnDescriptor>& values);
  void finalize();

  int64_t integer(cudnnBackendAttributeName_t attribute) const;
  // An attribute that is a list of descriptors of the type.
  std::deque<CudnnDescriptor> list(cudnnBackendAttributeName_t attribute,
                                   cudnnBackendDescriptorType_t type, std::string_view name) const;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  int64_t get(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
              int64_t count, void* values) const;
  void check(cudnnStatus_t status, const char* call, int attribute = -1) const;

  std::string_view name_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// A tensor of a graph. `id` is what a call's pointers are told apart by.
struct CudnnTensor {
  int64_t id = 0;
  DType dtype = DType::kF32;  // f32, f16 or bf16
  std::array<int64_t, 4> shape{};
  std::array<int64_t, 4> strides{};
  bool by_value = false;  // a number that the host holds
};

// Operations and their tensors, while they are described. Pointers have to be multiples of
// kAlignment.
class CudnnGraph {
 public:
  static constexpr int64_t kAlignment = 16;

  const CudnnDescriptor& tensor(const CudnnTensor& tensor);
  // For the caller to set the attributes of.
  CudnnDescriptor& operation(cudnnBackendDescriptorType_t type, std::string_view name);

 private:
  friend class CudnnPlan;
  std::deque<CudnnDescriptor> tensors_;
  std::deque<CudnnDescriptor> operations_;
};

// How a graph runs on the current device: the first of the heuristics' engines that takes it.
class CudnnPlan {
 public:
  explicit CudnnPlan(const std::function<void(CudnnGraph&)>& describe);

  const Reason& missing() const { return missing_; }  // why there is no plan; empty where there is
  size_t workspace() const { return workspace_; }
  // Of every tensor its id and its data: in device memory, or on the host where it is by value.
  void execute(std::span<const int64_t> ids, std::span<void* const> data,
               const Context& context) const;

 private:
  void find(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode);

  // What a plan was made of, which it may refer to.
  CudnnGraph parts_;
  std::deque<CudnnDescriptor> graph_;
  std::deque<CudnnDescriptor> configurations_;
  std::deque<CudnnDescriptor> plan_;  // one, or none
  size_t workspace_ = 0;
  Reason missing_;
};

// A family's plans, by what they depend on and by device: each made once and never destroyed, since
// cuDNN may be gone before our statics are.
template <class Key>
class CudnnPlans {
 public:
  const CudnnPlan& of(const Key& key, const std::function<void(CudnnGraph&)>& describe) {
    const int device = runtime::current_device();
    const std::lock_guard lock(mutex_);
    const CudnnPlan*& plan = plans_[{device, key}];
    if (plan == nullptr) plan = new CudnnPlan(describe);
    return *plan;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, Key>, const CudnnPlan*> plans_;
};

#endif

}  // namespace ws::peers
