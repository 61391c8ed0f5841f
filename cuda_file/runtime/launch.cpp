#include "cuda_file/include/warpsmith_cuda/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "cuda_file/include/warpsmith_cuda/api.hpp"
#include "cuda_file/runtime/frame.hpp"
#include "cuda_file/runtime/kernels.hpp"
#include "cuda_file/runtime/memory.hpp"
#include "cuda_file/runtime/process.hpp"
#include "cuda_file/runtime/streams.hpp"
#include "emulator/scheduler.hpp"
#include "warpsmith/arch.hpp"

namespace ws::cuda_file {

constinit thread_local Frame* frame = nullptr;
namespace {
// Where the kernel that is asked for its bound puts it; null: none is.
constinit thread_local long long* asked = nullptr;
}  // namespace

namespace {

std::atomic<Frame*> running = nullptr;

constexpr size_t kStaticShared = 48 * 1024;  // at most, in a kernel
constexpr size_t kDefaultShared = 48 * 1024;
// Between variables, so that going past the end of one is not the start of another.
constexpr size_t kRoomBetween = 128;
constexpr size_t kRoomForRooms = 8 * 1024;

std::mutex kernels_mutex;
std::map<const void*, KernelFacts>& kernels() {
  static auto& instance = *new std::map<const void*, KernelFacts>;
  return instance;
}

// CUDA's own checks: what a launch may not be. Empty: all is well.
struct Refusal {
  cudaError_t error = cudaSuccess;
  std::string why;
};
Refusal refusal(const LaunchExtents& e, const KernelFacts& facts, int most_threads) {
  const auto threads = uint64_t{e.block.x} * e.block.y * e.block.z;
  const auto text = [](const dim3& d) { return fmt::format("({}, {}, {})", d.x, d.y, d.z); };
  if (threads == 0 || e.grid.x == 0 || e.grid.y == 0 || e.grid.z == 0) {
    return {
        cudaErrorInvalidConfiguration,
        fmt::format("a launch of {} blocks of {} threads is empty", text(e.grid), text(e.block))};
  }
  if (e.block.x > 1024 || e.block.y > 1024 || e.block.z > 64 || threads > 1024) {
    return {
        cudaErrorInvalidConfiguration,
        fmt::format("a block of {} = {} threads; a block has at most 1024, and (1024, 1024, 64)",
                    text(e.block), threads)};
  }
  if (most_threads > 0 && threads > static_cast<uint64_t>(most_threads)) {
    return {cudaErrorInvalidValue,
            fmt::format("a block of {} = {} threads; the kernel's __launch_bounds__ promise at "
                        "most {}",
                        text(e.block), threads, most_threads)};
  }
  if (e.grid.x > 0x7FFFFFFFu || e.grid.y > 65535 || e.grid.z > 65535) {
    return {cudaErrorInvalidConfiguration,
            fmt::format("a grid of {} blocks; at most (2147483647, 65535, 65535)", text(e.grid))};
  }
  if (e.shared > Multiprocessor::kSharedBytesOfBlock) {
    return {cudaErrorInvalidValue,
            fmt::format("{} bytes of dynamic shared memory; a block of an H100 or H200 can have {}",
                        e.shared, Multiprocessor::kSharedBytesOfBlock)};
  }
  const size_t most = std::max<size_t>(facts.most_dynamic_shared, kDefaultShared);
  if (e.shared > most) {
    return {cudaErrorInvalidValue,
            fmt::format("{} bytes of dynamic shared memory; above {} the kernel must be told by "
                        "cudaFuncSetAttribute(..., cudaFuncAttributeMaxDynamicSharedMemorySize)",
                        e.shared, most)};
  }
  const auto cluster = uint64_t{e.cluster.x} * e.cluster.y * e.cluster.z;
  if (cluster > 16 || e.grid.x % e.cluster.x != 0 || e.cluster.y * e.cluster.z != 1) {
    return {cudaErrorInvalidConfiguration,
            fmt::format("clusters of {} in a grid of {} blocks", text(e.cluster), text(e.grid))};
  }
  return {};
}

LaunchReport report_of(const Frame& of) {
  LaunchReport report;
  report.kernel = of.kernel.name;
  report.file = of.place.file_name();
  report.line = static_cast<int>(of.place.line());
  report.launches = 1;
  report.grid = {of.extents.grid.x, of.extents.grid.y, of.extents.grid.z};
  report.block = {of.extents.block.x, of.extents.block.y, of.extents.block.z};
  report.static_shared = static_cast<int64_t>(of.static_bytes);
  report.dynamic_shared = static_cast<int64_t>(of.extents.shared);
  return report;
}

cudaError_t run(const KernelCall& kernel, const LaunchExtents& extents,
                std::source_location place) {
  static std::atomic<uint32_t> launches = 0;
  Frame of{.kernel = kernel, .extents = extents, .place = place, .number = ++launches};
  of.static_limit = std::min(kStaticShared + kRoomForRooms,
                             (Multiprocessor::kSharedBytesOfBlock - extents.shared) / 1024 * 1024);
  const auto blocks = int64_t{extents.grid.x} * extents.grid.y * extents.grid.z;
  const auto threads = static_cast<int>(extents.block.x * extents.block.y * extents.block.z);
  const emulator::LaunchShape shape{.blocks = blocks,
                                    .threads = threads,
                                    .cluster = static_cast<int>(extents.cluster.x),
                                    .shared_bytes = of.static_limit + extents.shared,
                                    .cooperative = extents.cooperative};
  const DeviceAccess access;
  running = &of;
  emulator::reset_counts();
  try {
    emulator::launch(shape, [&](std::byte*) {
      frame = &of;
      if (emulator::self().index == 0) ++of.blocks_begun;
      kernel.call(kernel.object);
      settle();
    });
  } catch (const emulator::FaultError& error) {  // before any thread ran
    running = nullptr;
    remember_error(cudaErrorCooperativeLaunchTooLarge, error.message(), place);
    return cudaErrorCooperativeLaunchTooLarge;
  } catch (const Error& error) {
    end_with("launch", error.message(), place);
  }
  running = nullptr;
  LaunchReport report = report_of(of);
  const emulator::Counts counts = emulator::counts();
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto count = static_cast<emulator::Count>(i);
    if (counts[i] > 0) report.counts[emulator::to_string(count)] = counts[i];
  }
  add_launch(report);
  return cudaSuccess;
}

}  // namespace

bool is_asked_at_most(long long threads) {
  if (asked == nullptr) return false;
  *asked = threads;
  return true;
}

int most_threads_by(void (*call)(const void*), const void* object) {
  long long answer = 0;
  asked = &answer;
  call(object);
  asked = nullptr;
  return static_cast<int>(answer);
}

KernelFacts& facts_of(const void* entry) {
  const std::lock_guard lock(kernels_mutex);
  return kernels()[entry];
}

Frame* running_frame() { return running; }

int launch(const KernelCall& kernel, const LaunchExtents& extents, std::source_location place) {
  if (emulator::running()) {
    end_with("not supported", "a kernel launches a kernel (dynamic parallelism)", place);
  }
  const KernelFacts facts = kernel.entry != nullptr ? facts_of(kernel.entry) : KernelFacts{};
  const Refusal refused = refusal(extents, facts, most_threads_by(kernel.call, kernel.object));
  if (refused.error != cudaSuccess) {
    remember_error(refused.error, refused.why, place);
    return refused.error;
  }
  const Recording recording = recording_of(extents.stream, kernel.name, place);
  if (recording.status != cudaSuccess) return recording.status;
  if (recording.stream == nullptr) return run(kernel, extents, place);
  // A copy of its arguments, as aligned as any of them.
  const auto words = (kernel.bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
  const auto arguments = std::make_shared<std::max_align_t[]>(words);
  std::memcpy(arguments.get(), kernel.object, kernel.bytes);
  record(*recording.stream, [kernel = kernel, arguments, extents, place]() mutable {
    kernel.object = arguments.get();
    return run(kernel, extents, place);
  });
  return cudaSuccess;
}

// ---- Shared memory -----------------------------------------------------------------------------

void* shared_variable(const SharedVariable& variable, std::source_location place) {
  if (!emulator::running()) {
    end_with("host access", concatenate("host code reaches __shared__ ", variable.name), place);
  }
  Frame& of = *frame;
  std::byte* const memory = emulator::self().block->shared;
  const std::atomic_ref<unsigned long long> known(variable.known);
  const unsigned long long seen = known.load(std::memory_order_acquire);
  if (seen >> 32 == of.number) return memory + (seen & 0xFFFFFFFFu);
  const std::lock_guard lock(of.mutex);
  const unsigned long long again = known.load(std::memory_order_acquire);
  if (again >> 32 == of.number) return memory + (again & 0xFFFFFFFFu);
  const size_t taken = of.static_bytes;
  if (taken + variable.bytes > kStaticShared || of.variable_count == Frame::kMostVariables) {
    end_with("invalid use",
             concatenate("__shared__ ", variable.name, " of ", variable.bytes,
                         " bytes: a kernel has at most ", kStaticShared,
                         " bytes of static shared memory, ", taken,
                         " of them taken; more must be extern __shared__"),
             place);
  }
  const size_t alignment = std::max<size_t>(variable.alignment, kRoomBetween);
  const size_t end = of.variable_count == 0
                         ? 0
                         : of.known_variables().back().offset +
                               of.known_variables().back().variable->bytes + kRoomBetween;
  const size_t offset = (end + alignment - 1) / alignment * alignment;
  if (offset + variable.bytes > of.static_limit) {
    end_with("invalid use",
             concatenate("__shared__ ", variable.name, " of ", variable.bytes, " bytes: beside ",
                         taken, " other bytes and ", of.extents.shared,
                         " dynamic ones there is no room for it"),
             place);
  }
  of.variables[of.variable_count] = {&variable, offset, place};
  ++of.variable_count;
  of.static_bytes = taken + variable.bytes;
  known.store(static_cast<unsigned long long>(of.number) << 32 | offset, std::memory_order_release);
  return memory + offset;
}

void* dynamic_shared() {
  if (!emulator::running()) {
    end_with("host access", "host code reaches dynamic shared memory", {});
  }
  return emulator::self().block->shared + frame->dynamic_offset();
}

DeviceVariable::DeviceVariable(VariableKind kind, const volatile void* address, size_t bytes,
                               const char* name, std::source_location place) {
  Allocation variable;
  variable.begin = reinterpret_cast<uintptr_t>(address);
  variable.bytes = bytes;
  variable.owner = kind == VariableKind::kDevice     ? Owner::kVariable
                   : kind == VariableKind::kConstant ? Owner::kConstant
                                                     : Owner::kManagedVariable;
  variable.name = name;
  variable.place = place;
  add_variable(variable);
}

}  // namespace ws::cuda_file
