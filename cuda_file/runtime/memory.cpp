#include "cuda_file/runtime/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <shared_mutex>

#include "emulator/emulator.hpp"
#include "emulator/global_memory.hpp"

namespace ws::cuda_file {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kArena = size_t{1} << 40;  // of addresses; memory only where something was given
// Between two allocations, so that an index that goes astray meets nobody's memory.
constexpr size_t kRoom = size_t{1} << 20;

size_t round_to(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Addresses of memory for kernels only, and as many bytes that say which of it has been written.
struct Arena {
  Arena() {
    memory = static_cast<std::byte*>(
        mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    void* bytes = mmap(nullptr, kArena, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || bytes == MAP_FAILED) throw std::bad_alloc();
    written = static_cast<uint8_t*>(bytes);
  }
  std::byte* memory;
  uint8_t* written;
  size_t used = 0;
  int open = 0;  // DeviceAccess
};
Arena& arena() {
  static auto& instance = *new Arena;
  return instance;
}

std::shared_mutex mutex;
std::mutex access_mutex;
std::atomic<uint64_t> generation = 1;
size_t total = 0;
uintptr_t variables_begin = 0;
uintptr_t variables_end = 0;

// By address; freed ones stay, for who still uses them.
std::deque<Allocation>& all() {
  static auto& instance = *new std::deque<Allocation>;
  return instance;
}

void insert(Allocation allocation) {
  emulator::register_memory(reinterpret_cast<void*>(allocation.begin), allocation.bytes, true);
  auto& list = all();
  list.insert(std::ranges::upper_bound(list, allocation.begin, {}, &Allocation::begin), allocation);
  ++generation;
}

size_t environment_number(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

std::string Allocation::text() const {
  std::string result = "the " + std::to_string(bytes) + " bytes of " + name;
  if (place.line() != 0) {
    result += owner == Owner::kVariable || owner == Owner::kConstant ? ", declared at " : " at ";
    result += emulator::to_string(place);
  }
  return result;
}

size_t memory_limit() {
  static const size_t limit = environment_number("WARPSMITH_CUDA_FILE_MEMORY", size_t{4} << 30);
  return limit;
}

size_t allocated_bytes() {
  const std::shared_lock lock(mutex);
  return total;
}

void* allocate(size_t bytes, Owner owner, const char* name, emulator::Place place) {
  const std::lock_guard lock(mutex);
  const size_t taken = round_to(std::max<size_t>(bytes, 1), kPage);
  if (bytes > memory_limit() - std::min(total, memory_limit())) return nullptr;
  Allocation made;
  made.bytes = bytes;
  made.owner = owner;
  made.name = name;
  made.place = place;
  if (owner == Owner::kDevice) {
    Arena& of = arena();
    if (of.used + taken + kRoom > kArena) return nullptr;
    std::byte* memory = of.memory + of.used + kRoom;
    const std::lock_guard access(access_mutex);
    if (of.open > 0) mprotect(memory - kRoom, taken + kRoom, PROT_READ | PROT_WRITE);
    made.begin = reinterpret_cast<uintptr_t>(memory);
    made.written = of.written + of.used + kRoom;
    of.used += taken + kRoom;
  } else {
    void* memory = mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    made.begin = reinterpret_cast<uintptr_t>(memory);
  }
  total += bytes;
  void* const begin = reinterpret_cast<void*>(made.begin);
  insert(made);
  return begin;
}

bool release(void* pointer, emulator::Place place) {
  const std::lock_guard lock(mutex);
  auto& list = all();
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const auto at =
      std::ranges::find_if(list, [&](const Allocation& a) { return a.begin == begin && !a.freed; });
  if (at == list.end() || at->owner >= Owner::kVariable) return false;
  emulator::forget_memory(pointer);
  at->freed = true;
  at->freed_at = place;
  total -= at->bytes;
  const size_t taken = round_to(std::max<size_t>(at->bytes, 1), kPage);
  if (at->owner == Owner::kDevice) {
    madvise(pointer, taken, MADV_DONTNEED);
    madvise(at->written, taken, MADV_DONTNEED);
  } else if (std::string_view(at->name) != "cudaHostRegister") {
    mprotect(pointer, taken, PROT_NONE);  // its addresses stay taken
    madvise(pointer, taken, MADV_DONTNEED);
  } else {
    list.erase(at);
  }
  ++generation;
  return true;
}

void add_variable(Allocation variable) {
  const std::lock_guard lock(mutex);
  const uintptr_t end = variable.begin + variable.bytes;
  variables_begin = variables_end == 0 ? variable.begin : std::min(variables_begin, variable.begin);
  variables_end = std::max(variables_end, end);
  insert(variable);
}

void add_host_memory(void* begin, size_t bytes, emulator::Place place) {
  Allocation made;
  made.begin = reinterpret_cast<uintptr_t>(begin);
  made.bytes = bytes;
  made.owner = Owner::kPinned;
  made.name = "cudaHostRegister";
  made.place = place;
  const std::lock_guard lock(mutex);
  total += bytes;
  insert(made);
}

const Allocation* find(uintptr_t address) {
  const std::shared_lock lock(mutex);
  const auto& list = all();
  auto after = std::ranges::upper_bound(list, address, {}, &Allocation::begin);
  if (after == list.begin()) return nullptr;
  const Allocation& found = *--after;
  return found.holds(address) ? &found : nullptr;
}

const Allocation* find_cached(uintptr_t address) {
  struct Known {
    uintptr_t begin = 0;
    size_t bytes = 0;
    const Allocation* allocation = nullptr;
  };
  thread_local uint64_t of_generation = 0;
  thread_local std::array<Known, 4> known;
  thread_local size_t next = 0;
  if (of_generation != generation.load(std::memory_order_relaxed)) {
    known.fill({});
    of_generation = generation;
  }
  for (const Known& k : known) {
    if (address - k.begin < k.bytes) return k.allocation;
  }
  const Allocation* found = find(address);
  if (found != nullptr) known[next++ % known.size()] = {found->begin, found->bytes, found};
  return found;
}

const Allocation* nearest(uintptr_t address) {
  constexpr uintptr_t kFar = kRoom;
  const std::shared_lock lock(mutex);
  const Allocation* best = nullptr;
  uintptr_t distance = kFar;
  for (const Allocation& a : all()) {
    const uintptr_t away = address < a.begin ? a.begin - address : address - (a.begin + a.bytes);
    if (away < distance) {
      distance = away;
      best = &a;
    }
  }
  return best;
}

bool in_arena(uintptr_t address) {
  static const auto begin = reinterpret_cast<uintptr_t>(arena().memory);
  return address - begin < kArena;
}

bool may_be_devices(uintptr_t address) {
  return in_arena(address) || address - variables_begin < variables_end - variables_begin;
}

DeviceAccess::DeviceAccess() {
  const std::lock_guard lock(access_mutex);
  Arena& of = arena();
  if (of.open++ == 0 && of.used > 0) mprotect(of.memory, of.used, PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  const std::lock_guard lock(access_mutex);
  Arena& of = arena();
  if (--of.open == 0 && of.used > 0) mprotect(of.memory, of.used, PROT_NONE);
}

}  // namespace ws::cuda_file
