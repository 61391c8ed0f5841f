#include "harness/machine.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

#include "harness/embedded.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

// Published figures, dense: bytes/s of the memory, FLOP/s of f16 with f32 accumulation on tensor
// cores, FLOP/s of f32. The first entry whose name is part of the device's counts.
struct DataSheet {
  std::string_view name;
  double memory_rate;
  double f16;
  double f32;
};
constexpr std::array kDataSheets = {
    DataSheet{"GH200", 4.9e12, 989e12, 67e12},
    DataSheet{"H200", 4.8e12, 989e12, 67e12},
    DataSheet{"H100 PCIe", 2.04e12, 756e12, 51e12},
    DataSheet{"H100", 3.35e12, 989e12, 67e12},
    DataSheet{"A100-SXM4-40GB", 1.555e12, 312e12, 19.5e12},
    DataSheet{"A100-PCIE-40GB", 1.555e12, 312e12, 19.5e12},
    DataSheet{"A100", 2.039e12, 312e12, 19.5e12},
    DataSheet{"L40S", 0.864e12, 362e12, 91.6e12},
    DataSheet{"L4", 0.300e12, 121e12, 30.3e12},
    DataSheet{"RTX 4090", 1.008e12, 165e12, 82.6e12},
    DataSheet{"RTX 3090", 0.936e12, 71e12, 35.6e12},
};

const DataSheet* data_sheet(std::string_view device) {
  const auto at = std::ranges::find_if(kDataSheets, [&](const DataSheet& sheet) {
    return device.find(sheet.name) != std::string_view::npos;
  });
  return at == kDataSheets.end() ? nullptr : &*at;
}

}  // namespace

Machine machine() {
  runtime::require_device();
  const DeviceFacts& facts = device_facts();
  Machine m;
  m.device = runtime::device_name();
  m.capability = facts.capability;
  m.multiprocessors = facts.multiprocessors;
  m.memory_bytes = runtime::memory_info().total;
  m.l2_bytes = facts.l2_bytes;
  m.clock = facts.clock;
  const DataSheet* sheet = data_sheet(m.device);
  m.memory_rate = sheet == nullptr ? facts.memory_rate : sheet->memory_rate;
  m.driver = runtime::driver_version();
  m.runtime = runtime::runtime_version();
  return m;
}

Machine known_machine(std::string_view device) {
  const DataSheet* sheet = data_sheet(device);
  Machine m;
  m.device = device;
  m.memory_rate = sheet == nullptr ? 0 : sheet->memory_rate;
  return m;
}

double peak_flops(const Machine& machine, DType dtype) {
  const bool narrow = dtype == DType::kF16 || dtype == DType::kBf16;
  // Of integers tensor cores make as many products as of fp8.
  const bool fp8 = dtype == DType::kE4m3 || dtype == DType::kE5m2 || dtype == DType::kI8;
  if (const DataSheet* sheet = data_sheet(machine.device)) {
    return narrow ? sheet->f16 : fp8 ? 2 * sheet->f16 : sheet->f32;
  }
  // Operations per clock and multiprocessor.
  const double tensor = machine.capability >= 90 ? 4096 : machine.capability == 80 ? 2048 : 1024;
  const double simt = machine.capability == 80 ? 128 : 256;
  return machine.clock * machine.multiprocessors * (narrow ? tensor : fp8 ? 2 * tensor : simt);
}

double floor_microseconds(const Machine& machine, const Problem& problem, const Cost& cost) {
  double written = 0;
  for (size_t i = 0; i < problem.operation->parameters.size(); ++i) {
    if (!problem.operation->parameters[i].is_written()) continue;
    const Tensor& tensor = problem.tensors[i];
    written += static_cast<double>(tensor.elements()) * static_cast<double>(size_of(tensor.dtype));
  }
  const double bytes = cost.bytes - std::min(written, static_cast<double>(machine.l2_bytes));
  const DType dtype = problem.dtype();
  // f32 products may run on tensor cores as TF32, at half the rate of f16.
  const double flops = std::max(2 * peak_flops(machine, dtype),
                                dtype == DType::kF32 ? peak_flops(machine, DType::kF16) : 0.0);
  return 1e6 * std::max(bytes / machine.memory_rate, cost.flops / flops);
}

std::string revision() {
  if (const char* given = std::getenv("WARPSMITH_REVISION")) return given;
  return kRevision;
}

Json to_json(const Machine& machine) {
  return {{"name", machine.device},
          {"capability", machine.capability},
          {"multiprocessors", machine.multiprocessors},
          {"memory_bytes", machine.memory_bytes},
          {"l2_bytes", machine.l2_bytes},
          {"driver", machine.driver},
          {"runtime", machine.runtime}};
}

Json provenance() {
  return {{"revision", revision()},
          {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
}

}  // namespace ws::harness
