#include "cuda_file/include/warpsmith_cuda/device.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "cuda_file/include/cuda_pipeline.h"
#include "cuda_file/include/warpsmith_cuda/atomics.hpp"
#include "cuda_file/include/warpsmith_cuda/math.hpp"
#include "cuda_file/include/warpsmith_cuda/narrow.hpp"
#include "cuda_file/runtime/frame.hpp"
#include "cuda_file/runtime/memory.hpp"
#include "cuda_file/runtime/process.hpp"
#include "emulator/copies.hpp"
#include "emulator/global_memory.hpp"
#include "emulator/profile.hpp"
#include "emulator/scheduler.hpp"
#include "warpsmith/ptx/convert.hpp"
#include "warpsmith/types.hpp"

namespace ws::cuda_file {
namespace {

using emulator::Thread;

uint3 split(int64_t index, const dim3& extent) {
  const auto x = static_cast<int64_t>(extent.x);
  const auto y = static_cast<int64_t>(extent.y);
  return {static_cast<unsigned>(index % x), static_cast<unsigned>(index / x % y),
          static_cast<unsigned>(index / (x * y))};
}

}  // namespace

uint3 thread_position(const Frame& of, int64_t index) { return split(index, of.extents.block); }
uint3 block_position(const Frame& of, int64_t index) { return split(index, of.extents.grid); }

namespace device {

namespace {

const Thread& thread() {
  if (emulator::current_thread == nullptr) {
    end_with("host access", "host code asks for threadIdx, blockIdx, blockDim or gridDim", {});
  }
  return *emulator::current_thread;
}

}  // namespace

uint3 thread_index() {
  const auto index = static_cast<unsigned>(thread().index);
  const dim3& block = frame->extents.block;
  if (block.x > index) return {index, 0, 0};
  return thread_position(*frame, index);
}
uint3 block_index() {
  const int64_t index = thread().block->index;
  if (frame->extents.grid.x > index) return {static_cast<unsigned>(index), 0, 0};
  return block_position(*frame, index);
}
dim3 block_extent() {
  thread();
  return frame->extents.block;
}
dim3 grid_extent() {
  thread();
  return frame->extents.grid;
}

// ---- Warps -------------------------------------------------------------------------------------

void shuffle(Shuffle mode, unsigned mask, void* words, int count, int lane, int width,
             std::source_location place) {
  static constexpr std::array kNames = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
                                        "__shfl_xor_sync"};
  const char* const name = kNames[static_cast<size_t>(mode)];
  Thread& me = enter(place);
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width))) {
    emulator::fail(emulator::Fault::kInvalidUse,
                   concatenate(name, ": a width of ", width, ", no power of two up to 32"));
  }
  const int mine = me.lane();
  const int first = mine / width * width;
  int source = mine;
  switch (mode) {
    case Shuffle::kIndex: source = first + (lane & (width - 1)); break;
    case Shuffle::kUp: source = mine - lane >= first ? mine - lane : mine; break;
    case Shuffle::kDown: source = mine + lane < first + width ? mine + lane : mine; break;
    case Shuffle::kXor: source = (mine ^ lane) < first + width ? mine ^ lane : mine; break;
  }
  struct Payload {
    uint32_t* words;
    int source;
    std::array<uint32_t, 4> result;
  };
  constexpr int kMost = 4;  // words at once
  auto* const all = static_cast<uint32_t*>(words);
  for (int at = 0; at < count; at += kMost) {
    const int some = std::min(kMost, count - at);
    Payload payload{all + at, source, {}};
    emulator::converge_warp(mask, name, payload, [&](auto lanes) {
      emulator::count(emulator::Count::kShuffles, static_cast<uint64_t>(some));
      for (Payload* to : lanes) {
        if (to == nullptr) continue;
        const Payload* from = lanes[static_cast<size_t>(to->source)];
        if (from == nullptr) continue;
        std::memcpy(to->result.data(), from->words, 4 * static_cast<size_t>(some));
      }
    });
    if ((mask >> source & 1u) == 0) {
      emulator::fail(emulator::Fault::kOutOfRange,
                     concatenate(name, ": lane ", mine, " reads lane ", source,
                                 ", which is not in the mask 0x", std::hex, mask));
    }
    std::memcpy(all + at, payload.result.data(), 4 * static_cast<size_t>(some));
  }
}

unsigned ballot(unsigned mask, bool predicate, std::source_location place) {
  enter(place);
  struct Payload {
    bool predicate;
    uint32_t votes;
  } mine{predicate, 0};
  emulator::converge_warp(mask, "vote.sync", mine, [](auto lanes) {
    uint32_t votes = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      if (lanes[i] != nullptr && lanes[i]->predicate) votes |= 1u << i;
    }
    for (Payload* lane : lanes) {
      if (lane != nullptr) lane->votes = votes;
    }
  });
  return mine.votes;
}

unsigned match(unsigned mask, unsigned long long value, std::source_location place) {
  enter(place);
  struct Payload {
    unsigned long long value;
    uint32_t same;
  } mine{value, 0};
  emulator::converge_warp(mask, "match.sync", mine, [](auto lanes) {
    for (Payload* lane : lanes) {
      if (lane == nullptr) continue;
      for (uint32_t i = 0; i < 32; ++i) {
        if (lanes[i] != nullptr && lanes[i]->value == lane->value) lane->same |= 1u << i;
      }
    }
  });
  return mine.same;
}

unsigned reduce(Reduction operation, unsigned mask, unsigned value, bool is_signed,
                std::source_location place) {
  enter(place);
  const auto combine = [&](uint32_t a, uint32_t b) -> uint32_t {
    const bool less = is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
    switch (operation) {
      case Reduction::kAdd: return a + b;
      case Reduction::kMin: return less ? a : b;
      case Reduction::kMax: return less ? b : a;
      case Reduction::kAnd: return a & b;
      case Reduction::kOr: return a | b;
      case Reduction::kXor: return a ^ b;
    }
    return 0;
  };
  emulator::converge_warp(mask, "redux.sync", value, [&](auto lanes) {
    const uint32_t* first = nullptr;
    uint32_t total = 0;
    for (const unsigned* lane : lanes) {
      if (lane == nullptr) continue;
      total = first == nullptr ? *lane : combine(total, *lane);
      first = lane;
    }
    for (unsigned* lane : lanes) {
      if (lane != nullptr) *lane = total;
    }
  });
  return value;
}

// ---- Blocks ------------------------------------------------------------------------------------

int sync_threads(BlockVote vote, bool predicate, std::source_location place) {
  enter(place);
  // By block: the votes of the barrier that fills, and of the one before it, which threads may
  // still be reading when the next begins.
  struct Votes {
    std::array<int, 2> count{};
    std::array<int, 2> arrived{};
    int turn = 0;
  };
  thread_local std::map<const emulator::Block*, Votes> by_block;
  emulator::Block& block = *emulator::self().block;
  Votes& votes = by_block[&block];
  const auto turn = static_cast<size_t>(votes.turn);
  votes.count[turn] += predicate ? 1 : 0;
  const int live = block.threads - block.exited;
  if (++votes.arrived[turn] == live) {
    votes.turn ^= 1;
    votes.count[turn ^ 1] = votes.arrived[turn ^ 1] = 0;
  }
  emulator::barrier_block();
  const int yes = votes.count[turn];
  switch (vote) {
    case BlockVote::kCount: return yes;
    case BlockVote::kAnd: return yes == votes.arrived[turn];
    case BlockVote::kOr: return yes > 0;
  }
  return 0;
}

void sync_grid(std::source_location place) {
  enter(place);
  static uint32_t counter = 0;  // of barriers of the grid, which runs in one host thread
  emulator::barrier_grid(&counter);
}
bool is_cooperative() { return frame->extents.cooperative; }

void arrive_cluster(std::source_location place) {
  enter(place);
  emulator::barrier_cluster_arrive(true);
}
void wait_cluster(std::source_location place) {
  enter(place);
  emulator::barrier_cluster_wait();
}
unsigned cluster_rank() { return static_cast<unsigned>(thread().block->cluster_rank); }
unsigned cluster_blocks() { return static_cast<unsigned>(emulator::cluster_size()); }
void* map_to_rank(const void* shared, unsigned rank, std::source_location place) {
  enter(place);
  return emulator::shared_pointer(emulator::map_shared_rank(shared, static_cast<int>(rank)));
}

void converge(const char* operation, void* mine, void (*act)(void* const* lanes),
              std::source_location place) {
  enter(place);
  emulator::check_aligned(operation);
  emulator::meet(0xFFFFFFFFu, operation, mine, [&](std::span<void* const> lanes) {
    emulator::count(emulator::Count::kWarpInstructions);
    emulator::count(emulator::Count::kMma);
    act(lanes.data());
  });
}

unsigned long long clock() {
  return static_cast<unsigned long long>(
      std::chrono::steady_clock::now().time_since_epoch().count());
}

void fence(Scope scope, std::source_location place) {
  enter(place);
  emulator::fence_acq_rel(scope == Scope::kBlock ? emulator::Reach::kBlock
                                                 : emulator::Reach::kDevice);
}

// ---- Copies that a thread does not wait for ----------------------------------------------------

void pipeline_copy(void* shared, const void* global, size_t bytes, size_t zeros,
                   std::source_location place) {
  constexpr const char* kName = "__pipeline_memcpy_async";
  enter(place);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes) {
    emulator::fail(emulator::Fault::kInvalidUse,
                   concatenate(kName, " of ", bytes, " bytes, ", zeros,
                               " of them zeros: it copies 4, 8 or 16"));
  }
  check_copy(shared, global, bytes, bytes - zeros, kName);
  emulator::cp_async(shared, global, static_cast<int>(bytes), static_cast<int>(bytes - zeros));
}
void pipeline_commit(std::source_location place) {
  enter(place);
  emulator::cp_async_commit_group();
}
void pipeline_wait(size_t pending, std::source_location place) {
  enter(place);
  emulator::cp_async_wait_group(static_cast<int>(pending));
}

// ---- Atomics -----------------------------------------------------------------------------------

void begin_atomic(void* address, size_t bytes, const char* operation, std::source_location place) {
  if (!emulator::running()) {
    end_with("host access", concatenate("host code calls ", operation), place);
  }
  enter(place);
  check_atomic(address, bytes, operation);
  if (emulator::is_shared(address)) {
    emulator::begin_atomic_shared(address, bytes, operation);
    emulator::profile_shared_store(operation, address, bytes);
  } else {
    emulator::begin_atomic(address, bytes, operation);
  }
}

void end_atomic(void* address, size_t bytes, bool changed) {
  if (emulator::is_shared(address)) {
    emulator::end_atomic_shared(address, changed);
  } else {
    if (const Allocation* of = find_cached(reinterpret_cast<uintptr_t>(address));
        of != nullptr && of->written != nullptr) {
      std::memset(of->written + (reinterpret_cast<uintptr_t>(address) - of->begin), 1, bytes);
    }
    emulator::end_atomic(address, changed, true);
  }
  // NVIDIA's own samples take what comes after an atomic for ordered by it.
  emulator::acquire_observed();
}

// ---- 16 and 8 bits ------------------------------------------------------------------------------

float float_of_half(unsigned short bits) { return ptx::cvt_f32_f16(bits); }
unsigned short half_of_float(float value) { return ptx::cvt_rn_f16_f32(value); }
float float_of_bfloat16(unsigned short bits) { return ptx::cvt_f32_bf16(bits); }
unsigned short bfloat16_of_float(float value) { return ptx::cvt_rn_bf16_f32(value); }
float float_of_e4m3(unsigned char bits) { return ptx::cvt_f32_e4m3(bits); }
unsigned char e4m3_of_float(float value) { return e4m3(value).bits; }
float float_of_e5m2(unsigned char bits) { return ptx::cvt_f32_e5m2(bits); }
unsigned char e5m2_of_float(float value) { return e5m2(value).bits; }

// ---- Where a pointer points to -----------------------------------------------------------------

bool is_shared(const void* address) { return emulator::is_shared(address); }
bool is_constant(const void* address) {
  const Allocation* of = find(reinterpret_cast<uintptr_t>(address));
  return of != nullptr && of->owner == Owner::kConstant;
}
bool is_global(const void* address) {
  const Allocation* of = find(reinterpret_cast<uintptr_t>(address));
  return of != nullptr && of->owner != Owner::kConstant;
}
bool is_local(const void* address) {
  const emulator::Runner& runner = *emulator::self().runner;
  return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(runner.bottom) <
         runner.size;
}

}  // namespace device
}  // namespace ws::cuda_file

// ---- CUDA's own names --------------------------------------------------------------------------

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
using ws::cuda_file::enter;
namespace emulator = ws::emulator;

void __syncthreads(std::source_location place) {
  enter(place);
  emulator::barrier_block();
}
void __syncwarp(unsigned mask, std::source_location place) {
  enter(place);
  emulator::sync_warp(mask);
}

unsigned __activemask(std::source_location place) {
  // Who comes here waits until nobody else of the warp can come: as many lanes as ever could be
  // active together.
  struct Waiting {
    emulator::Thread* thread;
    uint32_t line;
    uint32_t column;
    uint32_t mask = 0;
  };
  thread_local std::vector<Waiting*> all;
  emulator::Thread& me = enter(place);
  Waiting mine{&me, place.line(), place.column()};
  all.push_back(&mine);
  emulator::wait_until("__activemask", [&] {
    if (!me.block->group->ready.empty()) return false;  // who can run may come here, too
    if (mine.mask == 0) {
      std::vector<Waiting*> together;
      for (Waiting* w : all) {
        if (w->thread->block != me.block || w->thread->warp() != me.warp()) continue;
        if (w->mask != 0) return false;  // goes on in a moment, and may come here
        const auto place_of = [](const Waiting& of) { return std::pair(of.line, of.column); };
        // Who is further up goes first: it may still come here.
        if (place_of(*w) < place_of(mine)) return false;
        if (place_of(*w) == place_of(mine)) together.push_back(w);
      }
      uint32_t mask = 0;
      for (const Waiting* w : together) mask |= 1u << w->thread->lane();
      for (Waiting* w : together) w->mask = mask;
    }
    return true;
  });
  std::erase(all, &mine);
  return mine.mask;
}

long long clock64() { return static_cast<long long>(ws::cuda_file::device::clock()); }
unsigned long long __globaltimer() { return ws::cuda_file::device::clock(); }
void __nanosleep(unsigned, std::source_location place) {
  enter(place);
  emulator::yield("__nanosleep");
}
void __trap(std::source_location place) { ws::cuda_file::end_with("assertion", "__trap()", place); }
void __brkpt() {}
size_t __cvta_generic_to_shared(const void* pointer) { return emulator::shared_address(pointer); }

#define WS_MAKE(name, T)                              \
  name##2 make_##name##2(T x, T y) { return {x, y}; } \
  name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
WS_MAKE(char, signed char)
WS_MAKE(uchar, unsigned char)
WS_MAKE(short, short)
WS_MAKE(ushort, unsigned short)
WS_MAKE(int, int)
WS_MAKE(uint, unsigned)
WS_MAKE(long, long)
WS_MAKE(ulong, unsigned long)
WS_MAKE(longlong, long long)
WS_MAKE(ulonglong, unsigned long long)
WS_MAKE(float, float)
WS_MAKE(double, double)
#undef WS_MAKE

// assert() of a kernel; of the host's code as ever.
extern "C" void __assert_fail(const char* expression, const char* file, unsigned line,
                              const char* function) {
  if (emulator::running()) {
    ws::cuda_file::FaultReport fault;
    fault.kind = "assertion";
    fault.message = ws::concatenate("`", expression, "' does not hold");
    fault.file = file;
    fault.line = static_cast<int>(line);
    ws::cuda_file::end_with(std::move(fault));
  }
  std::fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, expression);
  std::abort();
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
