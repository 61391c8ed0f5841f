// A case made concrete: random inputs on the host and what must come out, shared by every rung that
// is verified or timed on it; and a copy of it where kernels work.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "harness/limits.hpp"
#include "harness/memory.hpp"

namespace ws::harness {

// Up to which size every output element is compared; beyond, a sample of items is.
struct SampleLimits {
  double flops = 4e9;
  int64_t elements = int64_t{1} << 24;
};

class Instance {
 public:
  // Throws InvalidArgument for a case that is none of the operation's, or needs more memory than
  // the limits allow, before anything is allocated.
  Instance(const Operation& operation, const Case& chosen, DType dtype, uint64_t seed,
           const SampleLimits& sample = {}, const Limits& limits = {});

  const Operation& operation() const { return *problem_.operation; }
  const Case& chosen() const { return chosen_; }
  DType dtype() const { return dtype_; }
  // Checked. What is read lies on the host, in-out tensors as they are before a call; outputs have
  // no data.
  const Problem& problem() const { return problem_; }
  // A tensor's bytes before a call; null where it is an output or lies in another, or there is
  // none.
  const HostTensor* before(int tensor) const;

  // Some items of the tensors that are written and have as many of them, and what these hold.
  // Computed on all cores when first asked for.
  struct Expected {
    Slice slice;
    std::vector<std::vector<double>> tensors;  // by parameter, row-major; empty: of other items
  };
  std::span<const Expected> expected();
  int64_t items(int tensor) const { return items_[static_cast<size_t>(tensor)]; }
  int64_t elements_per_item(int tensor) const;

 private:
  std::vector<Slice> sample(int64_t items) const;
  void count_items();

  Case chosen_;
  DType dtype_;
  uint64_t seed_;
  SampleLimits limits_;
  Problem problem_;
  std::vector<std::unique_ptr<HostTensor>> before_;  // by parameter
  std::array<int64_t, kMaxTensors> items_{};         // 0: not written, or empty
  std::vector<Expected> expected_;
};

// An instance's tensors where kernels work, between guards; outputs and workspace poisoned.
class DeviceInstance {
 public:
  // What is read comes from `like`, where the same instance lies already, else from the host.
  explicit DeviceInstance(const Instance& instance, const DeviceInstance* like = nullptr);

  const AnyCall& call() const { return *call_; }
  const Problem& problem() const { return call().problem(); }
  // Of a tensor that exists and lies in no other.
  bool has_buffer(int tensor) const { return buffers_[static_cast<size_t>(tensor)] != nullptr; }
  DeviceBuffer& buffer(int tensor) { return *buffers_[static_cast<size_t>(tensor)]; }
  // Workspace for a rung or peer that asks for it; null where it asks for none.
  void* workspace(const Workspace& wanted);
  // Fills outputs with `value`, the workspace beyond its zeroes, and makes in-out tensors what they
  // were before the first call.
  void reset(std::byte value);
  // In-out tensors alone, in the order of the stream: cheap enough between timed runs.
  void restore(Stream stream);
  DeviceBuffer* workspace_buffer() { return workspace_.get(); }
  size_t workspace_zeroed() const { return zeroed_; }

 private:
  std::unique_ptr<AnyCall> call_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;   // by parameter
  std::vector<std::unique_ptr<DeviceBuffer>> pristine_;  // of in-out tensors
  std::unique_ptr<DeviceBuffer> workspace_;
  size_t zeroed_ = 0;
};

inline constexpr auto kFirstPoison = std::byte{0xFF};  // NaN in every float type
// A second run starts from other bytes: what neither run writes holds one, then the other.
inline constexpr auto kSecondPoison = std::byte{0x00};

// Runs the call to its end, on outputs and workspace of `device` that hold `poison`; throws what
// went wrong.
void run_on(std::byte poison, const Rung& rung, const AnyCall& call, DeviceInstance& device,
            const Context& context);

// One run of a rung, for who looks at how it runs and not at what comes out.
class SingleRun {
 public:
  // Throws InvalidArgument where the rung does not take the problem.
  SingleRun(const Rung& rung, const Instance& instance);
  void operator()();

 private:
  const Rung& rung_;
  DeviceInstance device_;
  Context context_;
};

}  // namespace ws::harness
