// What a rung's launches take of the GPU, without running them.
#pragma once

#include <vector>

#include "harness/instance.hpp"
#include "harness/json.hpp"

namespace ws::harness {

struct KernelResources {
  Grid grid;
  size_t shared_bytes = 0;
  // On a GPU only; -1 elsewhere:
  int registers = -1;    // per thread
  int local_bytes = -1;  // per thread: spills and indexed arrays
  int blocks_per_sm = -1;
  double occupancy = -1;  // threads resident of the most an SM holds
};

// A problem whose tensors lie at the right addresses and hold nothing: hosts look at alignments.
class UntouchedCall {
 public:
  UntouchedCall(const Operation& operation, const Case& chosen, DType dtype);
  const Problem& problem() const { return call_.problem(); }
  // A rung's launches. Throws where it does not take the problem.
  std::vector<KernelResources> resources_of(const Rung& rung) const;

 private:
  AnyCall call_;
  std::vector<DeviceBuffer> buffers_;
};

// The launches of one rung.
std::vector<KernelResources> resources_of(const Rung& rung, const Operation& operation,
                                          const Case& chosen, DType dtype);

Json to_json(const KernelResources& resources);

}  // namespace ws::harness
