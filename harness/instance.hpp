// A case made concrete: random inputs on the host and what must come out, shared by every rung that
// is verified or timed on it; and a copy of it where kernels work.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "harness/memory.hpp"

namespace ws::harness {

// The case with attributes: the operation's standard ones where it has none of its own.
Case with_attributes(const Operation& operation, const Case& chosen);

// The case's problem, checked, without data. Throws InvalidArgument.
Problem make_problem(const Operation& operation, const Case& chosen, DType dtype);

// Up to which size every output element is compared; beyond, a sample of items is.
struct SampleLimits {
  double flops = 4e9;
  int64_t elements = int64_t{1} << 24;
};

class Instance {
 public:
  Instance(const Operation& operation, const Case& chosen, DType dtype, uint64_t seed,
           const SampleLimits& limits = {});

  const Operation& operation() const { return *problem_.operation; }
  const Case& chosen() const { return chosen_; }
  DType dtype() const { return dtype_; }
  // Inputs lie on the host, outputs have no data.
  const Problem& problem() const { return problem_; }
  std::span<const HostTensor> inputs() const { return inputs_; }

  // The items that are compared, in order, and the elements of output k they hold. Computed on all
  // cores when first asked for.
  struct Expected {
    Slice slice;
    std::vector<std::vector<double>> outputs;  // row-major
  };
  std::span<const Expected> expected();
  int64_t items() const { return items_; }
  int64_t elements_per_item(int output) const;

 private:
  std::vector<Slice> sample() const;

  Case chosen_;
  DType dtype_;
  uint64_t seed_;
  SampleLimits limits_;
  Problem problem_;
  std::vector<HostTensor> inputs_;
  int64_t items_ = 0;
  std::vector<Expected> expected_;
};

// An instance's tensors where kernels work, between guards; outputs and workspace poisoned.
class DeviceInstance {
 public:
  // The inputs come from `like`, where the same instance lies already, else from the host.
  explicit DeviceInstance(const Instance& instance, const DeviceInstance* like = nullptr);

  const Problem& problem() const { return problem_; }
  DeviceBuffer& buffer(int tensor) { return buffers_[static_cast<size_t>(tensor)]; }
  // Workspace for a rung or peer that asks for so many bytes.
  void* workspace(size_t bytes);
  void poison_outputs(std::byte value);
  DeviceBuffer* workspace_buffer() { return workspace_ ? &*workspace_ : nullptr; }

 private:
  Problem problem_;
  std::vector<DeviceBuffer> buffers_;
  std::optional<DeviceBuffer> workspace_;
};

}  // namespace ws::harness
