#include "emulator/shared_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "emulator/async.hpp"
#include "emulator/scheduler.hpp"

#if WS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace ws::emulator {
namespace {

// Memory that a host thread keeps from group to group.
struct Arena {
  std::byte* memory = nullptr;
  size_t size = 0;
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { std::free(memory); }
};
thread_local Arena arena;

// Who wrote a word last with an ordinary store, if no fence.proxy.async of that thread has come
// since: the thread in the cluster, plus 1, above the number of its fences so far. 0: nobody, or a
// copy.
constexpr int kFenceBits = 17;
constexpr uint32_t kFenceMask = (1u << kFenceBits) - 1;

uint32_t writer_of(const Thread& thread) {
  const auto id = static_cast<uint32_t>(thread.block->cluster_rank * 1024 + thread.index + 1);
  return (id << kFenceBits) | (thread.proxy_fences & kFenceMask);
}

// The thread that must still fence, or null.
const Thread* unfenced(uint32_t writer) {
  if (writer == 0) return nullptr;
  const auto id = static_cast<int>(writer >> kFenceBits) - 1;
  const Thread& thread = block_of_cluster(id / 1024).first[id % 1024];
  return (thread.proxy_fences & kFenceMask) == (writer & kFenceMask) ? &thread : nullptr;
}

bool holds(const Block& block, const std::byte* p) {
  return p >= block.shared && p < block.shared + block.shared_bytes;
}

// The block of the caller's cluster that holds `pointer`, or null.
Block* owner(const void* pointer) {
  const auto* p = static_cast<const std::byte*>(pointer);
  Block& mine = *self().block;
  if (holds(mine, p)) return &mine;
  const int size = mine.group->shape.cluster;
  if (size == 1) return nullptr;
  // Blocks of a cluster lie side by side: an address of global memory, as most are, is soon told.
  Block* const first = &mine - mine.cluster_rank;
  const Block& last = first[size - 1];
  if (p < first->shared || p >= last.shared + last.shared_bytes) return nullptr;
  Block& block = first[(p - first->shared) / (first[1].shared - first->shared)];
  return holds(block, p) ? &block : nullptr;
}

struct Place {
  Block& block;
  size_t offset;
  uint8_t* state() const { return block.state + offset; }
};

Place place_of(const void* pointer, size_t bytes, const char* operation) {
  Block* block = owner(pointer);
  if (block == nullptr) {
    fail(Fault::kOutOfRange, concatenate(operation, ": the address is not in shared memory"));
  }
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(pointer) - block->shared);
  if (offset + bytes > block->shared_bytes) {
    fail(Fault::kOutOfRange, concatenate(operation, ": bytes [", offset, ", ", offset + bytes,
                                         ") of ", block->shared_bytes, " bytes of shared memory"));
  }
  if (block != self().block) {
    if (!block->started) {
      fail(Fault::kInvalidUse,
           concatenate(operation, ": block ", block->index,
                       " of the cluster may not have started: a cluster barrier must come first"));
    }
    if (block->exited == block->threads) {
      fail(Fault::kInvalidUse,
           concatenate(operation, ": block ", block->index,
                       " of the cluster has exited, and its shared memory is "
                       "gone: a cluster kernel must end with a cluster barrier"));
    }
  }
  return {*block, offset};
}

// Whether all states are just kWritten; eight at a time, for this is on every access's path.
bool all_plain(const uint8_t* state, size_t bytes) {
  constexpr uint64_t kPlain = 0x0101010101010101u * kWritten;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, state + i, 8);
    if (eight != kPlain) return false;
  }
  for (; i < bytes; ++i) {
    if (state[i] != kWritten) return false;
  }
  return true;
}

void require_written(const Place& place, size_t bytes, const char* operation) {
  const uint8_t* state = place.state();
  if (all_plain(state, bytes)) return;
  for (size_t i = 0; i < bytes; ++i) {
    if ((state[i] & kInFlight) != 0) {
      fail(Fault::kUnwrittenRead, concatenate(operation, " reads shared byte ", place.offset + i,
                                              ", whose copy has not landed: a wait is missing"));
    }
    if ((state[i] & kWritten) == 0) {
      fail(Fault::kUnwrittenRead, concatenate(operation, " reads shared byte ", place.offset + i,
                                              ", which nothing has written"));
    }
  }
}

// Fails where something still needs the bytes as they are.
void require_free(const Place& place, size_t bytes, const char* operation) {
  const uint8_t* state = place.state();
  for (size_t i = 0; i < bytes; ++i) {
    if ((state[i] & (kInFlight | kReaders | kMbarrier)) == 0) continue;
    const char* why = (state[i] & kMbarrier) != 0 ? ", part of an mbarrier (mbarrier.inval first)"
                      : (state[i] & kInFlight) != 0
                          ? ", to which a copy is in flight"
                          : ", which a copy or wgmma in flight still reads: a wait is "
                            "missing";
    fail(Fault::kInvalidUse,
         concatenate(operation, " overwrites shared byte ", place.offset + i, why));
  }
}

void set_writer(const Place& place, size_t bytes, uint32_t writer) {
  if (bytes == 0) return;
  std::fill(place.block.writer + place.offset / 4,
            place.block.writer + (place.offset + bytes - 1) / 4 + 1, writer);
}

void require_fenced(const Place& place, size_t bytes, const char* operation) {
  if (bytes == 0) return;
  uint32_t checked = 0;
  for (size_t word = place.offset / 4; word <= (place.offset + bytes - 1) / 4; ++word) {
    const uint32_t writer = place.block.writer[word];
    if (writer == checked) continue;
    if (const Thread* thread = unfenced(writer)) {
      fail(Fault::kInvalidUse,
           concatenate(operation, " reaches shared byte ", word * 4, ", which block ",
                       thread->block->index, ", thread ", thread->index,
                       " has written without fence.proxy.async after it"));
    }
    checked = writer;
  }
}

}  // namespace

// ---- Memory of a group -------------------------------------------------------------------------

SharedMemory::SharedMemory(size_t blocks, size_t bytes)
    : bytes_(bytes), capacity_((bytes + 1023) / 1024 * 1024) {
  const size_t total = blocks * capacity_;
  if (total == 0) return;
  if (arena.size < 3 * total) {
    std::free(arena.memory);
    arena.size = 0;
    arena.memory = static_cast<std::byte*>(std::aligned_alloc(1024, 3 * total));
    if (arena.memory == nullptr) throw std::bad_alloc();
    arena.size = 3 * total;
  }
  data_ = arena.memory;
  state_ = reinterpret_cast<uint8_t*>(data_ + total);
  writer_ = reinterpret_cast<uint32_t*>(data_ + 2 * total);
  std::memset(data_, kPoisonByte, total);
  std::memset(state_, 0, total);
  std::memset(writer_, 0, total);
#if WS_ASAN
  for (size_t b = 0; b < blocks; ++b) {
    __asan_poison_memory_region(data_ + b * capacity_ + bytes_, capacity_ - bytes_);
  }
#endif
}

SharedMemory::~SharedMemory() {
#if WS_ASAN
  if (arena.size > 0) __asan_unpoison_memory_region(arena.memory, arena.size);
#endif
}

void SharedMemory::give(Block& block, size_t index) const {
  // Kernels without shared memory bind a reference to it all the same.
  alignas(1024) static std::byte nothing;
  block.shared = &nothing;
  if (capacity_ == 0) return;
  block.shared = data_ + index * capacity_;
  block.shared_bytes = bytes_;
  block.state = state_ + index * capacity_;
  block.writer = writer_ + index * capacity_ / 4;
}

// ---- Addresses ---------------------------------------------------------------------------------

uint32_t shared_address(const void* pointer) {
  const Block* block = owner(pointer);
  if (block == nullptr) fail(Fault::kInvalidUse, "the address is not in shared memory");
  const auto offset = static_cast<const std::byte*>(pointer) - block->shared;
  const int rank = block == self().block ? 0 : 1 + block->cluster_rank;
  return (static_cast<uint32_t>(rank) << kSharedRankShift) +
         (kSharedWindowBase + static_cast<uint32_t>(offset));
}

std::byte* shared_pointer(uint32_t address) {
  const auto rank = static_cast<int>(address >> kSharedRankShift);
  Block& block = rank == 0 ? *self().block : block_of_cluster(rank - 1);
  const uint32_t window = address & ((1u << kSharedRankShift) - 1);
  if (window < kSharedWindowBase || window - kSharedWindowBase >= block.shared_bytes) {
    fail(Fault::kOutOfRange,
         concatenate("shared address ", window, " of a window [", kSharedWindowBase, ", ",
                     kSharedWindowBase + block.shared_bytes, ")"));
  }
  return block.shared + (window - kSharedWindowBase);
}

uint32_t map_shared_rank(const void* local, int rank) {
  const uint32_t window = shared_address(local) & ((1u << kSharedRankShift) - 1);
  block_of_cluster(rank);  // checks it
  return (static_cast<uint32_t>(1 + rank) << kSharedRankShift) + window;
}

bool is_shared(const void* pointer) { return owner(pointer) != nullptr; }

// ---- Access ------------------------------------------------------------------------------------

void check_shared(const void* pointer, size_t bytes, size_t alignment, const char* operation) {
  const Place place = place_of(pointer, bytes, operation);
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
    fail(Fault::kMisaligned, concatenate(operation, " of ", bytes, " bytes at shared byte ",
                                         place.offset, ", which is not a multiple of ", alignment));
  }
}

namespace {

// Where ordinary accesses happen, threads may change places: between a load and a store that belong
// together, say, which a barrier should have protected.
void maybe_preempt() {
  Thread& me = self();
  Group& group = *me.block->group;
  if (group.options.order == Order::kRandom) group.scheduler->preempt(me);
}

}  // namespace

void read_shared(const void* pointer, size_t bytes, const char* operation) {
  maybe_preempt();
  require_written(place_of(pointer, bytes, operation), bytes, operation);
}

void write_shared(void* pointer, size_t bytes, const char* operation) {
  const Place place = place_of(pointer, bytes, operation);
  if (!all_plain(place.state(), bytes)) {
    require_free(place, bytes, operation);
    std::memset(place.state(), kWritten, bytes);
  }
  set_writer(place, bytes, writer_of(self()));
  maybe_preempt();
}

void read_shared_async(const void* pointer, size_t bytes, const char* operation) {
  const Place place = place_of(pointer, bytes, operation);
  require_written(place, bytes, operation);
  require_fenced(place, bytes, operation);
}

void poison_shared(void* pointer, size_t bytes, bool async_proxy, const char* operation) {
  const Place place = place_of(pointer, bytes, operation);
  require_free(place, bytes, operation);
  if (async_proxy) require_fenced(place, bytes, operation);
  std::memset(pointer, kPoisonByte, bytes);
  std::memset(place.state(), kInFlight, bytes);
}

void unpoison_shared(void* pointer, size_t bytes, bool async_proxy) {
  const Place place = place_of(pointer, bytes, "copy");
  std::memset(place.state(), kWritten, bytes);
  set_writer(place, bytes, async_proxy ? 0 : writer_of(self()));
}

void hold_shared(const void* pointer, size_t bytes) {
  uint8_t* state = place_of(pointer, bytes, "store").state();
  // The most that can be counted stays: better to miss an early store than to report a proper one.
  for (size_t i = 0; i < bytes; ++i) {
    if (state[i] < kReaders) state[i] = static_cast<uint8_t>(state[i] + kReader);
  }
}

void release_shared(const void* pointer, size_t bytes) {
  uint8_t* state = place_of(pointer, bytes, "store").state();
  for (size_t i = 0; i < bytes; ++i) {
    if (state[i] >= kReader) state[i] = static_cast<uint8_t>(state[i] - kReader);
  }
}

void mark_mbarrier(void* pointer, bool alive) {
  const Place place = place_of(pointer, sizeof(uint64_t), "mbarrier");
  std::memset(place.state(), alive ? kWritten | kMbarrier : 0, sizeof(uint64_t));
}

}  // namespace ws::emulator
