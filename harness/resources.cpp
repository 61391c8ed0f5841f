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

KernelResources used_by(const KernelFacts& facts) {
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

UntouchedCall::UntouchedCall(const Operation& operation, const Case& chosen, DType dtype)
    : call_(make_problem(operation, chosen, dtype)) {
  const Problem without_data = problem();
  for (size_t i = 0; i < operation.parameters.size(); ++i) {
    const Tensor& tensor = problem().tensors[i];
    if (!tensor.exists()) continue;
    void* data = nullptr;
    if (const size_t holder = holder_of(without_data, i); holder != i) {
      data = problem().tensors[holder].data;
    } else {
      const size_t offset = static_cast<size_t>(chosen.offset) * size_of(tensor.dtype);
      data = buffers_.emplace_back(footprint(tensor), offset).data();
    }
    call_.move(static_cast<int>(i), data);
  }
  call_.remake();
}

std::vector<KernelResources> UntouchedCall::resources_of(const Rung& rung) const {
  const Reason reason = why_not(rung, call_, runtime::capability());
  require(reason.empty(), problem().operation->name, "/", rung.name, " does not take ",
          problem().describe(), ": ", reason);
  const DeviceBuffer workspace(workspace_of(rung, call_).bytes);
  Collector collector;
  run(rung, call_, {nullptr, workspace.data()});
  std::vector<KernelResources> all;
  for (const KernelFacts& facts : collector.launches) all.push_back(used_by(facts));
  return all;
}

std::vector<KernelResources> resources_of(const Rung& rung, const Operation& operation,
                                          const Case& chosen, DType dtype) {
  return UntouchedCall(operation, chosen, dtype).resources_of(rung);
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
