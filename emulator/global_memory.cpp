#include "emulator/global_memory.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "emulator/bulk_add.hpp"
#include "emulator/profile.hpp"
#include "emulator/scheduler.hpp"
#include "emulator/wgmma.hpp"
#include "warpsmith/call_memory.hpp"

namespace ws::emulator {

constinit thread_local std::array<LoadWindow, 4> load_windows{};

namespace {

// ---- What is known of each word ----------------------------------------------------------------

// One access of the launch with this number.
struct Cell {
  uint32_t epoch;
  uint32_t block : 28;
  uint32_t bytes : 4;  // of the word: a set
  uint32_t actor : 12;
  uint32_t manner_number : 4;
  uint32_t launch : 16;
  PackedPlace place;
  Manner manner() const { return static_cast<Manner>(manner_number); }
};
static_assert(sizeof(Cell) == 16);

// For each four bytes of global memory who wrote them last, and for each who read them last: zero
// where nobody has been, and pages that are never touched cost nothing. Kept for later launches,
// whose number tells their cells from older ones.
class Shadow {
 public:
  Shadow() = default;
  explicit Shadow(size_t words) : bytes_(2 * words * sizeof(Cell)) {
    {
      const std::lock_guard lock(mutex());
      auto& free = free_ones();
      const auto at = std::ranges::find_if(free, [&](const Shadow& s) {
        return s.bytes_ >= bytes_ && s.bytes_ < 4 * bytes_ + 65536;
      });
      if (at != free.end()) {
        swap(*at);
        free.erase(at);
        return;
      }
    }
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    cells_ = static_cast<Cell*>(memory);
  }
  Shadow(Shadow&& other) noexcept { swap(other); }
  Shadow& operator=(Shadow&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Shadow() {
    if (cells_ != nullptr) munmap(cells_, bytes_);
  }
  static void keep(Shadow shadow, bool reused_numbers) {
    constexpr size_t kMostKept = 32;
    const std::lock_guard lock(mutex());
    if (reused_numbers) free_ones().clear();
    if (shadow.cells_ != nullptr && !reused_numbers && free_ones().size() < kMostKept) {
      free_ones().push_back(std::move(shadow));
    }
  }
  Cell* writes() const { return cells_; }
  Cell* reads() const { return cells_ + bytes_ / sizeof(Cell) / 2; }

 private:
  void swap(Shadow& other) noexcept {
    std::swap(cells_, other.cells_);
    std::swap(bytes_, other.bytes_);
  }
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
  static std::vector<Shadow>& free_ones() {
    static std::vector<Shadow> instance;
    return instance;
  }

  Cell* cells_ = nullptr;
  size_t bytes_ = 0;
};

class SpinLock {
 public:
  void lock() {
    while (taken_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_;
};

// ---- Registered memory -------------------------------------------------------------------------

struct Registered {
  size_t bytes;
  bool shared_by_all;
};

std::shared_mutex registry_mutex;
std::map<uintptr_t, Registered>& registry() {
  static auto& instance = *new std::map<uintptr_t, Registered>;  // for who frees after main
  return instance;
}

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

void register_memory(const void* begin, size_t bytes, bool shared_by_all) {
  const std::lock_guard lock(registry_mutex);
  registry()[number(begin)] = {bytes, shared_by_all};
}
void forget_memory(const void* begin) {
  const std::lock_guard lock(registry_mutex);
  registry().erase(number(begin));
}

// ---- Of one launch -----------------------------------------------------------------------------

namespace {

struct Region {
  uintptr_t begin = 0;
  size_t bytes = 0;
  bool written = false;  // else kernels only read it
  Shadow shadow{};
  mutable std::atomic<bool> is_read = false;  // in this launch
  bool holds(uintptr_t address) const { return address - begin < bytes; }
  bool watched() const { return shadow.writes() != nullptr; }
};

// What strong accesses to a word pass on: to all blocks, and within the block that made them.
struct Location {
  Clock to_all;
  Clock to_block;
  int64_t block = -1;
};

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

class GlobalMemory {
 public:
  explicit GlobalMemory(const Options& options)
      : strict(CallMemory::extents() != nullptr && options.uses(Detector::kBounds)),
        finds_races(options.uses(Detector::kGlobalRaces)),
        checks_bounds(options.uses(Detector::kBounds)) {
    if (strict) {
      for (const Extent& extent : *CallMemory::extents()) {
        add(number(extent.begin), extent.bytes, extent.written);
      }
    }
    const std::shared_lock lock(registry_mutex);
    for (const auto& [begin, memory] : registry()) {
      if (!strict || memory.shared_by_all) add(begin, memory.bytes, true);
    }
    std::ranges::sort(found_, {}, &Found::begin);
    for (const Found& found : found_) {
      if (regions_.empty() || found.begin >= regions_.back().begin + regions_.back().bytes) {
        Region& region = regions_.emplace_back();
        region.begin = found.begin;
        region.bytes = found.bytes;
        region.written = found.written;
        continue;
      }
      // Tensors that share memory are one region.
      Region& shared = regions_.back();
      shared.bytes = std::max(shared.bytes, found.begin + found.bytes - shared.begin);
      shared.written = shared.written || found.written;
    }
    if (!finds_races) return;
    for (Region& region : regions_) {
      if (region.written) region.shadow = Shadow(region.bytes / 4 + 2);
    }
  }
  GlobalMemory(const GlobalMemory&) = delete;
  GlobalMemory& operator=(const GlobalMemory&) = delete;
  ~GlobalMemory() {
    for (Region& region : regions_) Shadow::keep(std::move(region.shadow), launch == 0);
  }

  const Region* find(uintptr_t address) const {
    // Mostly the one of the access before.
    thread_local std::pair<uint64_t, const Region*> last{0, nullptr};
    if (last.first == serial_ && last.second->holds(address)) return last.second;
    const Region* region = search(address);
    if (region != nullptr) last = {serial_, region};
    return region;
  }
  const Region* search(uintptr_t address) const {
    auto after = std::ranges::upper_bound(regions_, address, {}, &Region::begin);
    if (after == regions_.begin()) return nullptr;
    const Region& region = *--after;
    return region.holds(address) ? &region : nullptr;
  }
  // The region that the address misses by little, or null.
  const Region* near(uintptr_t address) const {
    const auto at = std::ranges::find_if(regions_, [&](const Region& r) {
      return address + kRoomAround >= r.begin && address < r.begin + r.bytes + kRoomAround;
    });
    return at != regions_.end() ? &*at : nullptr;
  }

  SpinLock& lock_of(uintptr_t address) { return locks_[address / 64 % locks_.size()]; }

  const bool strict;
  const bool finds_races;
  const bool checks_bounds;

 private:
  const uint64_t serial_ = next_serial();

 public:
  // Of 16 bits: where they begin again, what older launches have left is thrown away.
  const uint32_t launch = static_cast<uint32_t>(serial_ & 0xFFFFu);

  // Strong accesses, by address.
  std::mutex mutex;
  std::atomic<bool> passes_on = false;  // some fence or release has been before
  std::unordered_map<uintptr_t, Location> locations;
  // When a thread (block, actor) last executed fence.proxy.async for global memory.
  std::map<std::pair<int64_t, uint32_t>, uint32_t> proxy_fences;

 private:
  void add(uintptr_t begin, size_t bytes, bool written) {
    if (bytes > 0) found_.push_back({begin, bytes, written});
  }

  struct Found {
    uintptr_t begin;
    size_t bytes;
    bool written;
  };
  std::vector<Found> found_;
  std::deque<Region> regions_;
  std::array<SpinLock, 256> locks_;
};

void ForgetGlobalMemory::operator()(GlobalMemory* memory) const { delete memory; }
GlobalMemoryOfLaunch global_memory_of_launch(const Options& options) {
  return GlobalMemoryOfLaunch(new GlobalMemory(options));
}

namespace {

GlobalMemory& memory_of(const Thread& thread) { return thread.block->group->launch.memory; }

// ---- Bounds ------------------------------------------------------------------------------------

// Whether the process could read the address: the system says so without a crash.
bool is_readable(uintptr_t address) {
  constexpr uintptr_t kPage = 4096;
  thread_local uintptr_t known = 1;  // a page
  const uintptr_t at = address / kPage * kPage;
  if (at == known) return true;
  char byte = 0;
  const iovec here{&byte, 1};
  const iovec there{reinterpret_cast<void*>(address), 1};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1 && errno == EFAULT) return false;
  known = at;
  return true;
}

[[noreturn, gnu::cold, gnu::noinline]] void fail_bounds(const GlobalMemory& memory,
                                                        uintptr_t address, size_t bytes,
                                                        const char* operation) {
  const Region* region = memory.find(address);
  if (region == nullptr) region = memory.near(address);
  std::string text =
      concatenate(operation, " of ", bytes, " bytes at ", reinterpret_cast<const void*>(address));
  if (region != nullptr) {
    const auto offset = static_cast<int64_t>(address - region->begin);
    text += concatenate(": bytes [", offset, ", ", offset + static_cast<int64_t>(bytes),
                        ") of a tensor or buffer of ", region->bytes);
  } else {
    text += memory.strict ? ": in no tensor of the call, nor in its workspace"
                          : ": there is no memory (an index that overflows 32 bits?)";
  }
  fail(Fault::kOutOfRange, text);
}

// The region that holds the bytes; null where nothing is known of them.
const Region* region_of(const GlobalMemory& memory, uintptr_t address, size_t bytes,
                        const char* operation) {
  const Region* region = memory.find(address);
  if (!memory.checks_bounds) {
    return region != nullptr && address + bytes <= region->begin + region->bytes ? region : nullptr;
  }
  const bool outside = region != nullptr ? address + bytes > region->begin + region->bytes
                       : memory.strict ? true
                                       : memory.near(address) != nullptr || !is_readable(address) ||
                                             !is_readable(address + bytes - 1);
  if (outside) fail_bounds(memory, address, bytes, operation);
  return region;
}

// ---- Races -------------------------------------------------------------------------------------

struct Who {
  explicit Who(const Thread& thread, uint32_t launch_number)
      : me(thread),
        launch(launch_number),
        block(static_cast<uint32_t>(thread.block->index) & 0xFFFFFFFu),
        actor(actor_of_thread(thread.index)),
        epoch(thread.epoch) {}

  bool comes_after(const Cell& cell) const {
    return cell.launch != launch || (cell.block == block && cell.actor == actor) ||
           me.clock.has_seen(cell.block, cell.actor, cell.epoch);
  }
  Cell cell(uint32_t bytes, Manner manner) const {
    return {epoch, block, bytes, actor, static_cast<uint32_t>(manner), launch, me.place};
  }

  const Thread& me;
  uint32_t launch;
  uint32_t block;
  uint32_t actor;
  uint32_t epoch;
};

[[noreturn, gnu::cold, gnu::noinline]] void fail_race(const char* operation, const Region& region,
                                                      uintptr_t address, const char* what,
                                                      const Cell& other) {
  const auto thread = static_cast<int>(other.actor) - static_cast<int>(kStreams);
  fail(Fault::kRace,
       concatenate(operation, " at byte ", address - region.begin, " of a tensor or buffer of ",
                   region.bytes, " races with the ", what, " by block ", other.block, ", thread ",
                   thread, " at ", to_string(other.place.unpacked()), ": nothing orders the two"));
}

bool both_strong(const Cell& cell, Manner manner) {
  const auto is_strong = [](Manner m) { return m == Manner::kStrong || m == Manner::kMixed; };
  return is_strong(cell.manner()) && is_strong(manner);
}

// Calls visit(number of the word, the bytes of it that the access has, the word's address); kLocks:
// under the lock of the word, which else the caller has.
template <bool kLocks, class Visit>
[[gnu::always_inline]] inline void each_word(GlobalMemory& memory, const Region& region,
                                             uintptr_t address, size_t bytes, Visit&& visit) {
  // Words are the memory's, whatever the region begins with.
  const uintptr_t origin = region.begin / 4 * 4;
  for (uintptr_t word = address / 4 * 4; word < address + bytes;) {
    std::unique_lock guard(memory.lock_of(word), std::defer_lock);
    if constexpr (kLocks) guard.lock();
    do {
      const size_t from = std::max(address, word) - word;
      const size_t to = std::min(address + bytes, word + 4) - word;
      visit((word - origin) / 4, (1u << to) - (1u << from), word);
      word += 4;
    } while (word % 64 != 0 && word < address + bytes);
  }
}

// Whether the writer of what a copy reads, or its reader, has made it known to the async proxy.
bool fenced_for_copies(GlobalMemory& memory, const Thread& me, const Cell& write) {
  if (me.order && me.order->fenced_global.has_seen(write.block, write.actor, write.epoch))
    return true;
  const std::lock_guard lock(memory.mutex);
  const auto at = memory.proxy_fences.find({write.block, write.actor});
  return at != memory.proxy_fences.end() && at->second >= write.epoch;
}

void race_read(GlobalMemory& memory, const Region& region, uintptr_t address, size_t bytes,
               Manner manner, const char* operation, const Stream* stream) {
  const Thread& me = self();
  const Who who(me, memory.launch);
  Who reader = who;
  if (stream != nullptr) {
    reader.actor = stream->actor;
    reader.epoch = stream->epoch;
  }
  if (!region.is_read.load(std::memory_order_relaxed)) region.is_read = true;
  each_word<true>(memory, region, address, bytes, [&](size_t word, uint32_t set, uintptr_t at) {
    Cell& write = region.shadow.writes()[word];
    if (write.launch == who.launch && (write.bytes & set) != 0) [[unlikely]] {
      if (manner == Manner::kReadOnly) {
        fail(Fault::kInvalidUse, concatenate("ld.global.nc of what this launch has written, at ",
                                             to_string(write.place.unpacked()),
                                             ": the read-only path may hold the old value"));
      }
      if (!both_strong(write, manner) && !who.comes_after(write)) {
        fail_race(operation, region, at, "write", write);
      }
      if (manner == Manner::kAsync && write.manner() != Manner::kAsync &&
          !fenced_for_copies(memory, me, write)) {
        fail(Fault::kInvalidUse, concatenate(operation, " of what block ", write.block,
                                             " has written at ", to_string(write.place.unpacked()),
                                             " without fence.proxy.async.global after it"));
      }
    }
    Cell& read = region.shadow.reads()[word];
    // Of several concurrent readers one is kept: by turns the first and the last.
    const bool keep = read.launch == who.launch && !who.comes_after(read) &&
                      ((me.epoch ^ static_cast<uint32_t>(me.index)) & 1) != 0 &&
                      manner != Manner::kReadOnly;
    if (!keep) read = reader.cell(set, manner);
  });
}

template <bool kLocks = true>
void race_write(GlobalMemory& memory, const Region& region, uintptr_t address, size_t bytes,
                const void* source, Manner manner, const char* operation) {
  const Thread& me = self();
  const Who who(me, memory.launch);
  // A store that changes nothing conflicts with no other store.
  const bool changes =
      source == nullptr || std::memcmp(reinterpret_cast<const void*>(address), source, bytes) != 0;
  const bool reads = region.is_read;
  each_word<kLocks>(memory, region, address, bytes, [&](size_t word, uint32_t set, uintptr_t at) {
    Cell& write = region.shadow.writes()[word];
    if (changes && (write.bytes & set) != 0 && !both_strong(write, manner) &&
        !who.comes_after(write)) [[unlikely]] {
      fail_race(operation, region, at, "write", write);
    }
    const Cell* const read_cell = reads ? &region.shadow.reads()[word] : nullptr;
    if (reads && (read_cell->bytes & set) != 0 && read_cell->launch == who.launch) [[unlikely]] {
      const Cell& read = *read_cell;
      if (read.manner() == Manner::kReadOnly) {
        fail(Fault::kInvalidUse,
             concatenate(operation, " to what this launch has read by ld.global.nc, at ",
                         to_string(read.place.unpacked())));
      }
      if (!both_strong(read, manner) && !who.comes_after(read)) {
        fail_race(operation, region, at, "read", read);
      }
    }
    // An ordinary write stays known until somebody else comes after it.
    const bool stays = manner == Manner::kStrong && write.manner() != Manner::kStrong &&
                       write.launch == who.launch && write.block == who.block &&
                       write.actor == who.actor;
    if (!stays) write = who.cell(set, manner);
  });
}

void require_no_accumulators(const Thread& me, const void* registers, size_t bytes,
                             const char* operation) {
  if (!me.block->multiplies || bytes % 4 != 0) return;
  for (size_t i = 0; i < bytes; i += 4) {
    uint32_t bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(registers) + i, 4);
    if ((bits & 0x7FFFFFFFu & ~kQuietBit) == kInFlightBits && uses(Detector::kRegisters)) {
      fail(Fault::kInvalidUse,
           concatenate(operation,
                       " of an accumulator of a product (wgmma) in flight: a wait is "
                       "missing"));
    }
  }
}

// The region that the access is in; null where nothing is known of it.
const Region* checked_region(const Thread& me, const void* global, size_t bytes, size_t alignment,
                             bool writes, const char* operation) {
  if (!me.may_touch_global) [[unlikely]] {
    fail(Fault::kInvalidUse,
         concatenate(operation,
                     " before griddepcontrol.wait: the launch overlaps the one before it, "
                     "whose writes need not be there"));
  }
  check_alignment(global, alignment, operation);
  if (is_shared(global)) [[unlikely]] {
    fail(Fault::kInvalidUse, concatenate(operation, ": a global address in shared memory"));
  }
  if (bytes == 0) return nullptr;
  const Region* region = region_of(memory_of(me), number(global), bytes, operation);
  if (region != nullptr && writes && !region->written) [[unlikely]] {
    fail(Fault::kInvalidUse, concatenate(operation, " to an input of the call, at byte ",
                                         number(global) - region->begin, " of ", region->bytes));
  }
  return region;
}

void note_read(const Thread& me, const Region* region, const void* global, size_t bytes,
               Manner manner, const char* operation, const Stream* stream = nullptr) {
  if (region == nullptr || !region->watched() || bytes == 0) return;
  race_read(memory_of(me), *region, number(global), bytes, manner, operation, stream);
}

void note_write(const Thread& me, const Region* region, const void* global, const void* source,
                size_t bytes, Manner manner, const char* operation) {
  if (region == nullptr || !region->watched() || bytes == 0) return;
  race_write(memory_of(me), *region, number(global), bytes, source, manner, operation);
}

}  // namespace

void check_alignment(const void* global, size_t alignment, const char* operation) {
  if (number(global) % alignment == 0) [[likely]]
    return;
  fail(Fault::kMisaligned, concatenate(operation, ": the global address ", global,
                                       " is not a multiple of ", alignment, " bytes"));
}

void check_global(const void* global, size_t bytes, size_t alignment, bool writes,
                  const char* operation) {
  checked_region(self(), global, bytes, alignment, writes, operation);
}

void read_global(const void* global, size_t bytes, Manner manner, const char* operation,
                 const Stream* stream) {
  const Thread& me = self();
  note_read(me, memory_of(me).find(number(global)), global, bytes, manner, operation, stream);
}

void write_global(const void* global, const void* source, size_t bytes, Manner manner,
                  const char* operation) {
  const Thread& me = self();
  note_write(me, memory_of(me).find(number(global)), global, source, bytes, manner, operation);
}

namespace {

void load(void* registers, const void* global, size_t bytes, Manner manner) {
  Thread& me = self();
  const char* const operation = manner == Manner::kReadOnly ? "ld.global.nc" : "ld.global";
  maybe_preempt();
  const Region* region = checked_region(me, global, bytes, bytes, false, operation);
  profile_global(operation, global, bytes);
  if (region != nullptr && !region->written) {
    if (me.block->group->loads_by_windows && region->bytes >= 16) {
      thread_local size_t next = 0;
      // Up to where 16 bytes fit, so that a look at the first of an access is enough.
      const LoadWindow window{region->begin, region->bytes - 15};
      if (std::ranges::find(load_windows, window.begin, &LoadWindow::begin) == load_windows.end()) {
        load_windows[next++ % load_windows.size()] = window;
      }
    }
  } else {
    note_read(me, region, global, bytes, manner, operation);
    watch_for_spins(global, operation);
  }
  count(Count::kGlobalLoads);
  count(Count::kGlobalLoadBytes, bytes);
  std::memcpy(registers, global, bytes);
  maybe_preempt();
}

}  // namespace

void load_global_checked(void* registers, const void* global, size_t bytes, bool read_only) {
  load(registers, global, bytes, read_only ? Manner::kReadOnly : Manner::kWeak);
}

void load_global_beside_atomics(void* registers, const void* global, size_t bytes) {
  load(registers, global, bytes, Manner::kMixed);
}

namespace {

constexpr const char* kStore = "st.global";

const Region* count_store(Thread& me, const void* global, size_t bytes) {
  maybe_preempt();
  const Region* region = checked_region(me, global, bytes, bytes, true, kStore);
  profile_global(kStore, global, bytes);
  me.looks = 0;
  count(Count::kGlobalStores);
  count(Count::kGlobalStoreBytes, bytes);
  return region;
}

}  // namespace

void store_global(void* global, const void* registers, size_t bytes) {
  Thread& me = self();
  const Region* region = count_store(me, global, bytes);
  require_no_accumulators(me, registers, bytes, kStore);
  note_write(me, region, global, registers, bytes, Manner::kWeak, kStore);
  std::memcpy(global, registers, bytes);
}

void begin_store_global(const void* global, size_t bytes) { count_store(self(), global, bytes); }

void end_store_global(const void* global, const void* before, size_t bytes) {
  const Thread& me = self();
  // Whether the store changed anything is the same from both sides.
  note_write(me, memory_of(me).find(number(global)), global, before, bytes, Manner::kWeak, kStore);
}

// ---- Strong accesses ---------------------------------------------------------------------------

namespace {

// Clocks of locations go from host thread to host thread, so they share nothing with others.
void pass_on(GlobalMemory& memory, const Thread& me, const void* address, const Clock& to_all,
             const Clock& to_block, bool replaces) {
  if (to_all.empty() && to_block.empty() && !(replaces && memory.passes_on)) return;
  memory.passes_on = true;
  const std::lock_guard lock(memory.mutex);
  Location& location = memory.locations[number(address)];
  const auto join = [&](Clock& clock, const Clock& more, bool anew) {
    Clock joined = anew ? Clock{} : clock.apart();
    joined.join(more);
    clock = joined.apart();
  };
  join(location.to_all, to_all, replaces);
  join(location.to_block, to_block, replaces || location.block != me.block->index);
  location.block = me.block->index;
}

// What the location's strong writes have passed on is seen.
void look(GlobalMemory& memory, Thread& me, const void* address) {
  if (!memory.passes_on) return;
  Clock to_all;
  Clock to_block;
  {
    const std::lock_guard lock(memory.mutex);
    const auto at = memory.locations.find(number(address));
    if (at == memory.locations.end()) return;
    to_all = at->second.to_all.apart();
    if (at->second.block == me.block->index) to_block = at->second.to_block.apart();
  }
  Fenced& flags = me.ordering().flags;
  flags.observed.join(to_all);
  flags.observed_in_block.join(to_all);
  flags.observed_in_block.join(to_block);
}

void acquire(Thread& me, Reach reach) {
  if (!me.order) return;
  const Fenced& flags = me.order->flags;
  me.clock.join(reach == Reach::kBlock ? flags.observed_in_block : flags.observed);
}

}  // namespace

void leave_at(const void* address) {
  const Thread& me = self();
  if (!me.order) return;
  const Fenced& flags = me.order->flags;
  pass_on(memory_of(me), me, address, flags.released, flags.released_in_block, false);
}

void look_at(const void* address) {
  Thread& me = self();
  look(memory_of(me), me, address);
}

void begin_atomic(const void* address, size_t bytes, const char* operation) {
  Thread& me = self();
  maybe_preempt();
  const Region* region = checked_region(me, address, bytes, bytes, true, operation);
  profile_atomic(operation, address, bytes);
  leave_at(address);
  count(Count::kAtomics);
  // What is noted and what happens to the word are one, also to other host threads.
  GlobalMemory& memory = memory_of(me);
  std::unique_lock guard(memory.lock_of(number(address) / 4 * 4));
  if (region != nullptr && region->watched()) {
    race_write<false>(memory, *region, number(address), bytes, nullptr, Manner::kStrong, operation);
  }
  guard.release();  // end_atomic() unlocks
}

void end_atomic(const void* address, bool changed, bool returns) {
  Thread& me = self();
  memory_of(me).lock_of(number(address) / 4 * 4).unlock();
  if (changed) count_progress();
  if (returns) {
    look_at(address);
    if (!changed) watch_for_spins(address, "atom.global");
  }
  if (changed) me.looks = 0;
  maybe_preempt();
}

void add_global(std::byte* to, const std::byte* value, size_t bytes, AddElement add,
                const char* operation) {
  Thread& me = self();
  const Region* region = checked_region(me, to, bytes, bytes, true, operation);
  GlobalMemory& memory = memory_of(me);
  const std::lock_guard guard(memory.lock_of(number(to) / 4 * 4));
  if (region != nullptr && region->watched()) {
    race_write<false>(memory, *region, number(to), bytes, nullptr, Manner::kStrong, operation);
  }
  add(to, value);
}

void add_global_f32(float* address, float value, const char* operation) {
  const auto add = [](std::byte* to, const std::byte* added) {
    const std::atomic_ref target(*reinterpret_cast<float*>(to));
    target.store(target.load(std::memory_order_relaxed) + *reinterpret_cast<const float*>(added),
                 std::memory_order_relaxed);
  };
  add_global(reinterpret_cast<std::byte*>(address), reinterpret_cast<const std::byte*>(&value),
             sizeof value, add, operation);
}

void acquire_observed() { acquire(self(), Reach::kDevice); }

void load_strong(void* registers, const void* global, size_t bytes, std::optional<Reach> acquired) {
  const char* const operation = acquired ? "ld.acquire" : "ld.relaxed";
  Thread& me = self();
  maybe_preempt();
  const Region* region = checked_region(me, global, bytes, bytes, false, operation);
  profile_global(operation, global, bytes);
  note_read(me, region, global, bytes, Manner::kStrong, operation);
  count(Count::kGlobalLoads);
  count(Count::kGlobalLoadBytes, bytes);
  watch_for_spins(global, operation);
  if (bytes == 4) {
    const auto value = __atomic_load_n(static_cast<const uint32_t*>(global), __ATOMIC_ACQUIRE);
    std::memcpy(registers, &value, 4);
  } else {
    const auto value = __atomic_load_n(static_cast<const uint64_t*>(global), __ATOMIC_ACQUIRE);
    std::memcpy(registers, &value, 8);
  }
  look(memory_of(me), me, global);
  if (acquired) acquire(me, *acquired);
  maybe_preempt();
}

void store_strong(void* global, const void* registers, size_t bytes,
                  std::optional<Reach> released) {
  const char* const operation = released ? "st.release" : "st.relaxed";
  Thread& me = self();
  maybe_preempt();
  const Region* region = checked_region(me, global, bytes, bytes, true, operation);
  profile_global(operation, global, bytes);
  note_write(me, region, global, registers, bytes, Manner::kStrong, operation);
  const Fenced& flags = me.ordering().flags;
  if (released) {
    Clock done;
    release_to(done);
    pass_on(memory_of(me), me, global, *released == Reach::kDevice ? done : flags.released, done,
            true);
  } else {
    pass_on(memory_of(me), me, global, flags.released, flags.released_in_block, true);
  }
  count_progress();
  me.looks = 0;
  count(Count::kGlobalStores);
  count(Count::kGlobalStoreBytes, bytes);
  const auto put = [&]<class Word>(Word value) {
    std::memcpy(&value, registers, sizeof(Word));
    __atomic_store_n(static_cast<Word*>(global), value, __ATOMIC_RELEASE);
  };
  if (bytes == 2) {
    put(uint16_t{});
  } else if (bytes == 4) {
    put(uint32_t{});
  } else {
    put(uint64_t{});
  }
}

void fence_acq_rel(Reach reach) {
  Thread& me = self();
  acquire(me, reach);
  Clock done;
  release_to(done);
  Fenced& flags = me.ordering().flags;
  if (reach == Reach::kDevice) flags.released = done;
  flags.released_in_block = std::move(done);
}

void fence_proxy_async_global() {
  Thread& me = self();
  me.ordering().fenced_global = me.clock;
  GlobalMemory& memory = memory_of(me);
  const std::lock_guard lock(memory.mutex);
  memory.proxy_fences[{me.block->index, actor_of_thread(me.index)}] = me.epoch++;
}

}  // namespace ws::emulator
