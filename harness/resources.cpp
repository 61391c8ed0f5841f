#include "harness/resources.hpp"

#include <algorithm>

#ifndef WS_EMULATED
#include <cuda_runtime.h>
#endif

namespace ws::harness {
namespace {

class Collector : public LaunchObserver {
 public:
  void observe(const KernelFacts& facts) override { launches.push_back(facts); }
  std::vector<KernelFacts> launches;
};

#ifndef WS_EMULATED
void ask_device(const KernelFacts& facts, KernelResources& resources) {
  cudaFuncAttributes attributes{};
  detail::check_cuda(cudaFuncGetAttributes(&attributes, facts.entry), "cudaFuncGetAttributes");
  resources.registers = attributes.numRegs;
  resources.local_bytes = static_cast<int>(attributes.localSizeBytes);
  detail::check_cuda(cudaFuncSetAttribute(facts.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(facts.shared_bytes)),
                     "cudaFuncSetAttribute(shared memory)");
  detail::check_cuda(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resources.blocks_per_sm, facts.entry,
                                                    facts.grid.threads, facts.shared_bytes),
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  int device = 0;
  int most = 0;
  detail::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  detail::check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor, device),
                     "cudaDeviceGetAttribute");
  resources.occupancy =
      static_cast<double>(resources.blocks_per_sm) * facts.grid.threads / std::max(most, 1);
}
#endif

}  // namespace

std::vector<KernelResources> resources_of(const Rung& rung, const Operation& operation,
                                          const Case& chosen, DType dtype) {
  Problem problem = make_problem(operation, chosen, dtype);
  // Untouched memory at the right addresses: nothing runs, but hosts look at alignments.
  std::vector<DeviceBuffer> buffers;
  for (int i = 0; i < problem.tensor_count; ++i) {
    Tensor& tensor = problem.tensor(i);
    tensor.data = buffers
                      .emplace_back(footprint(tensor),
                                    static_cast<size_t>(chosen.offset) * size_of(tensor.dtype))
                      .data();
  }
  const Reason reason = supports(rung, problem, device_capability());
  require(reason.empty(), operation.name, "/", rung.name, " does not take ", problem.describe(),
          ": ", reason);
  const DeviceBuffer workspace(rung.workspace(problem));
  Collector collector;
  run(rung, problem, {nullptr, workspace.data()});
  std::vector<KernelResources> all;
  for (const KernelFacts& facts : collector.launches) {
    KernelResources& resources = all.emplace_back();
    resources.grid = facts.grid;
    resources.shared_bytes = facts.shared_bytes;
#ifndef WS_EMULATED
    ask_device(facts, resources);
#endif
  }
  return all;
}

Json to_json(const KernelResources& resources) {
  Json json = {{"blocks", resources.grid.blocks},
               {"threads", resources.grid.threads},
               {"cluster", resources.grid.cluster},
               {"cooperative", resources.grid.cooperative},
               {"shared_bytes", resources.shared_bytes}};
  if (resources.registers >= 0) {
    json["registers"] = resources.registers;
    json["local_bytes"] = resources.local_bytes;
    json["blocks_per_sm"] = resources.blocks_per_sm;
    json["occupancy"] = resources.occupancy;
  }
  return json;
}

}  // namespace ws::harness
