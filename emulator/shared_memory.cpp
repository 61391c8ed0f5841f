#include "emulator/shared_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>

#include "emulator/async.hpp"
#include "emulator/global_memory.hpp"
#include "emulator/scheduler.hpp"

#if WS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace ws::emulator {
namespace {

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

uint8_t* state_of(const SharedBytes& place) { return place.block.state + place.offset; }

SharedBytes place_of(const void* pointer, size_t bytes, const char* operation) {
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
  return {*block, offset, bytes};
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

void require_written(const SharedBytes& place, const char* operation) {
  const uint8_t* state = state_of(place);
  if (all_plain(state, place.bytes)) return;
  for (size_t i = 0; i < place.bytes; ++i) {
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
void require_free(const SharedBytes& place, const char* operation) {
  const uint8_t* state = state_of(place);
  for (size_t i = 0; i < place.bytes; ++i) {
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

void hold(const SharedBytes& place) {
  uint8_t* state = state_of(place);
  // The most that can be counted stays: better to miss an early store than to report a proper one.
  for (size_t i = 0; i < place.bytes; ++i) {
    if (state[i] < kReaders) state[i] = static_cast<uint8_t>(state[i] + kReader);
  }
}

void set_writer(const SharedBytes& place, uint32_t writer) {
  if (place.bytes == 0) return;
  std::fill(place.block.writer + place.offset / 4,
            place.block.writer + (place.offset + place.bytes - 1) / 4 + 1, writer);
}

void require_fenced(const SharedBytes& place, const char* operation) {
  if (place.bytes == 0) return;
  uint32_t checked = 0;
  for (size_t word = place.offset / 4; word <= (place.offset + place.bytes - 1) / 4; ++word) {
    const uint32_t writer = place.block.writer[word];
    if (writer == checked) continue;
    const Thread* const thread = unfenced(writer);
    // Nor has the running one executed it after it had seen the write.
    if (thread != nullptr &&
        !(self().order &&
          self().order->fenced.has_seen(
              thread->block->index, actor_of_thread(thread->index),
              place.block.races != nullptr ? epoch_of_write(place.block, word) : thread->epoch))) {
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

// Memory that a host thread keeps from group to group; a second one where it runs a group within
// another's wait.
struct SharedMemory::Arena {
  std::byte* memory = nullptr;
  size_t size = 0;
  RaceWord* races = nullptr;
  size_t words = 0;
  uint32_t first_epoch = 1;
  uint32_t next_epoch = 1;
  bool taken = false;

  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    std::free(memory);
    std::free(races);
  }

  void make_room(size_t bytes, size_t race_words) {
    if (size < bytes) {
      std::free(memory);
      size = 0;
      memory = static_cast<std::byte*>(std::aligned_alloc(1024, bytes));
      if (memory == nullptr) throw std::bad_alloc();
      size = bytes;
    }
    // What former groups have left is older than first_epoch; before epochs run out all begins
    // anew.
    constexpr uint32_t kMostEpochs = 1u << 31;
    first_epoch = next_epoch;
    if (words >= race_words && first_epoch < kMostEpochs) return;
    std::free(races);
    words = 0;
    first_epoch = next_epoch = 1;
    races = static_cast<RaceWord*>(std::calloc(std::max<size_t>(race_words, 1), sizeof(RaceWord)));
    if (races == nullptr) throw std::bad_alloc();
    words = race_words;
  }
};

SharedMemory::Arena& SharedMemory::free_arena() {
  thread_local std::deque<Arena> arenas;
  auto at = std::ranges::find(arenas, false, &Arena::taken);
  Arena& arena = at != arenas.end() ? *at : arenas.emplace_back();
  arena.taken = true;
  return arena;
}

SharedMemory::SharedMemory(size_t blocks, size_t bytes, bool with_races)
    : arena_(free_arena()), bytes_(bytes), capacity_((bytes + 1023) / 1024 * 1024) {
  const size_t total = blocks * capacity_;
  arena_.make_room(3 * total, with_races ? total / 4 : 0);
  if (total == 0) return;
  data_ = arena_.memory;
  state_ = reinterpret_cast<uint8_t*>(data_ + total);
  writer_ = reinterpret_cast<uint32_t*>(data_ + 2 * total);
  if (with_races) races_ = arena_.races;
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
  if (arena_.size > 0) __asan_unpoison_memory_region(arena_.memory, arena_.size);
#endif
  arena_.taken = false;
}

uint32_t SharedMemory::first_epoch() const { return arena_.first_epoch; }
void SharedMemory::end_epoch(uint32_t last) {
  arena_.next_epoch = std::max(arena_.next_epoch, last + 1);
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
  if (races_ != nullptr) block.races = races_ + index * capacity_ / 4;
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
  const SharedBytes place = place_of(pointer, bytes, operation);
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
    fail(Fault::kMisaligned, concatenate(operation, " of ", bytes, " bytes at shared byte ",
                                         place.offset, ", which is not a multiple of ", alignment));
  }
}

void read_shared(const void* pointer, size_t bytes, const char* operation) {
  const SharedBytes place = place_of(pointer, bytes, operation);
  require_written(place, operation);
  race_read(place, operation);
}

bool read_shared_row(const void* pointer, size_t bytes, const char* operation) {
  const SharedBytes place = place_of(pointer, bytes, operation);
  const uint8_t* state = state_of(place);
  const bool nothing = std::all_of(state, state + bytes, [](uint8_t s) { return s == 0; });
  if (!nothing) require_written(place, operation);
  race_read(place, operation);
  return !nothing;
}

namespace {

constexpr const char* kStore = "shared store";

// What a store leaves behind, beside its bytes.
void note_store(const SharedBytes& place, bool changes, const char* operation) {
  const bool known = all_plain(state_of(place), place.bytes);
  if (!known) {
    require_free(place, operation);
    std::memset(state_of(place), kWritten, place.bytes);
  }
  race_write(place, operation, !known || changes);
  set_writer(place, writer_of(self()));
}

}  // namespace

void write_shared(void* pointer, const void* source, size_t bytes, const char* operation) {
  maybe_preempt();
  self().looks = 0;
  note_store(place_of(pointer, bytes, operation), std::memcmp(pointer, source, bytes) != 0,
             operation);
  std::memcpy(pointer, source, bytes);
  maybe_preempt();
}

void load_shared(void* registers, const void* shared, size_t bytes) {
  maybe_preempt();
  read_shared(shared, bytes, "shared load");
  watch_for_spins(shared, "shared load");
  count(Count::kSharedLoadBytes, bytes);
  std::memcpy(registers, shared, bytes);
  maybe_preempt();
}

void store_shared(void* shared, const void* registers, size_t bytes) {
  write_shared(shared, registers, bytes, kStore);
  count(Count::kSharedStoreBytes, bytes);
}

void begin_store_shared(const void* shared, size_t bytes) {
  maybe_preempt();
  self().looks = 0;
  const SharedBytes place = place_of(shared, bytes, kStore);
  if (!all_plain(state_of(place), bytes)) require_free(place, kStore);
  count(Count::kSharedStoreBytes, bytes);
}

void end_store_shared(const void* shared, const void* before, size_t bytes) {
  note_store(place_of(shared, bytes, kStore),
             before == nullptr || std::memcmp(shared, before, bytes) != 0, kStore);
}

void begin_atomic_shared(const void* shared, size_t bytes, const char* operation) {
  maybe_preempt();
  const SharedBytes place = place_of(shared, bytes, operation);
  require_written(place, operation);
  require_free(place, operation);
  race_atomic(place, operation);
  leave_at(shared);
  count(Count::kAtomics);
}

void end_atomic_shared(const void* shared, bool changed) {
  look_at(shared);
  if (changed) {
    count_progress();
    self().looks = 0;
  } else {
    watch_for_spins(shared, "atom.shared");
  }
  maybe_preempt();
}

void read_shared_async(const void* pointer, size_t bytes, const char* operation) {
  const SharedBytes place = place_of(pointer, bytes, operation);
  require_written(place, operation);
  race_check_read(place, operation);
  require_fenced(place, operation);
}

void poison_shared(void* pointer, size_t bytes, bool async_proxy, const char* operation) {
  const SharedBytes place = place_of(pointer, bytes, operation);
  require_free(place, operation);
  race_check_write(place, operation);
  if (async_proxy) require_fenced(place, operation);
  std::memset(pointer, kPoisonByte, bytes);
  std::memset(state_of(place), kInFlight, bytes);
}

void land_shared(void* pointer, size_t bytes) {
  const Thread& me = self();
  const SharedBytes place = place_of(pointer, bytes, "copy");
  std::memset(state_of(place), kWritten, bytes);
  set_writer(place, writer_of(me));
  race_note_write(place, actor_of_thread(me.index), me.epoch);
}

void land_shared(void* pointer, size_t bytes, uint32_t stream) {
  const SharedBytes place = place_of(pointer, bytes, "copy");
  std::memset(state_of(place), kWritten, bytes);
  set_writer(place, 0);
  race_note_write(place, stream, place.block.streams[stream]);
}

void product_reads(const void* pointer, size_t bytes, const ProductRead& how,
                   const char* operation) {
  const SharedBytes place = place_of(pointer, bytes, operation);
  if (how.checks) {
    require_written(place, operation);
    race_check_read(place, operation);
    require_fenced(place, operation);
  }
  if (how.holds) hold(place);
  if (how.notes) race_note_read(place, how.stream, how.epoch);
}

void was_read_shared(const void* pointer, size_t bytes) {
  const Thread& me = self();
  race_note_read(place_of(pointer, bytes, "store"), actor_of_thread(me.index), me.epoch);
}

void was_read_shared(const void* pointer, size_t bytes, uint32_t stream) {
  race_note_read(place_of(pointer, bytes, "copy"), stream, self().block->streams[stream]);
}

void hold_shared(const void* pointer, size_t bytes) { hold(place_of(pointer, bytes, "store")); }

void release_shared(const void* pointer, size_t bytes) {
  uint8_t* state = state_of(place_of(pointer, bytes, "store"));
  for (size_t i = 0; i < bytes; ++i) {
    if (state[i] >= kReader) state[i] = static_cast<uint8_t>(state[i] - kReader);
  }
}

void mark_mbarrier(void* pointer, bool alive) {
  const SharedBytes place = place_of(pointer, sizeof(uint64_t), "mbarrier");
  std::memset(state_of(place), alive ? kWritten | kMbarrier : 0, sizeof(uint64_t));
}

}  // namespace ws::emulator
