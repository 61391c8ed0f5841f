#include "harness/resources.hpp"

#include <algorithm>

#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

class Collector : public LaunchObserver {
 public:
  void observe(const KernelFacts& facts) override { launches.push_back(facts); }
  std::vector<KernelFacts> launches;
};

KernelResources resources_of(const KernelFacts& facts) {
  const runtime::KernelUsage usage =
      runtime::usage_of(facts.entry, facts.grid.threads, facts.shared_bytes);
  KernelResources resources;
  resources.grid = facts.grid;
  resources.shared_bytes = facts.shared_bytes;
  resources.registers = usage.registers;
  resources.local_bytes = usage.local_bytes;
  resources.blocks_per_sm = usage.blocks_per_multiprocessor;
  if (usage.blocks_per_multiprocessor >= 0) {
    const int threads = usage.blocks_per_multiprocessor * facts.grid.threads;
    resources.occupancy =
        static_cast<double>(threads) / std::max(device_facts().threads_per_multiprocessor, 1);
  }
  return resources;
}

}  // namespace

std::vector<KernelResources> resources_of(const Rung& rung, const Operation& operation,
                                          const Case& chosen, DType dtype) {
  AnyCall call(make_problem(operation, chosen, dtype));
  // Untouched memory at the right addresses: nothing runs, but hosts look at alignments.
  std::vector<DeviceBuffer> buffers;
  for (size_t i = 0; i < operation.parameters.size(); ++i) {
    const Tensor& tensor = call.problem().tensors[i];
    if (!tensor.exists()) continue;
    const size_t offset = static_cast<size_t>(chosen.offset) * size_of(tensor.dtype);
    buffers.emplace_back(footprint(tensor), offset);
    call.move(static_cast<int>(i), buffers.back().data());
  }
  call.remake();
  const Reason reason = why_not(rung, call, runtime::capability());
  require(reason.empty(), operation.name, "/", rung.name, " does not take ",
          call.problem().describe(), ": ", reason);
  const DeviceBuffer workspace(workspace_of(rung, call).bytes);
  Collector collector;
  run(rung, call, {nullptr, workspace.data()});
  std::vector<KernelResources> all;
  for (const KernelFacts& facts : collector.launches) all.push_back(resources_of(facts));
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
