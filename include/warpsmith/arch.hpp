// Architectures that a rung may need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ws {

enum class Arch {
  kSm80,   // cp.async, mma.sync m16n8k16, bf16
  kSm90,   // clusters, mbarrier transactions, bulk and tensor copies
  kSm90a,  // wgmma and setmaxnreg: compute capability 9.0 alone
};

constexpr std::string_view to_string(Arch arch) {
  switch (arch) {
    case Arch::kSm80: return "sm_80";
    case Arch::kSm90: return "sm_90";
    case Arch::kSm90a: return "sm_90a";
  }
  return "?";
}

// Whether a GPU of this compute capability (major * 10 + minor) runs kernels of `arch`.
constexpr bool runs_on(Arch arch, int capability) {
  switch (arch) {
    case Arch::kSm80: return capability >= 80;
    case Arch::kSm90: return capability >= 90;
    case Arch::kSm90a: return capability == 90;
  }
  return false;
}

// Whether a compilation pass (its __CUDA_ARCH__, and whether it is the pass for sm_90a) has a body
// for kernels of `arch`. Where each kernel is wanted `once`, the passes before sm_90 have those of
// sm_80 and the others the rest: enough to check them all where sm_80 and sm_90a are compiled.
constexpr bool compiled_for(Arch arch, int cuda_arch, bool has_sm90a, bool once) {
  if (once && (cuda_arch < 900) != (arch == Arch::kSm80)) return false;
  return arch == Arch::kSm90a ? has_sm90a : runs_on(arch, cuda_arch / 10);
}

// What a multiprocessor of Hopper holds at once. CUDA C++ Programming Guide, "Compute
// Capabilities", 9.0.
struct Multiprocessor {
  static constexpr int kThreads = 2048;
  static constexpr int kBlocks = 32;
  static constexpr int kRegisters = 65536;   // as on all since 5.0
  static constexpr int kRegisterUnit = 256;  // a warp's are allocated in such pieces
  static constexpr size_t kSharedBytes = 228 * 1024;
  static constexpr size_t kSharedUnit = 128;       // a block's bytes are allocated in such pieces
  static constexpr size_t kSharedReserved = 1024;  // beside them, of each block
  static constexpr size_t kSharedBytesOfBlock = kSharedBytes - kSharedReserved;  // at most

  // The most registers that a thread can begin with where `blocks` of `threads` are resident.
  static constexpr int registers_of_thread(int threads, int blocks = 1) {
    constexpr int kWarp = 32;
    constexpr int kMost = 256;
    const int whole_warps = (threads + kWarp - 1) / kWarp * kWarp;
    return std::min(kMost, kRegisters / (whole_warps * blocks) / 8 * 8);
  }
};

}  // namespace ws
