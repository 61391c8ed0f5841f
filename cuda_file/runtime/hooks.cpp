// Every access to memory that the file's code makes comes by here: the compiler puts the calls in
// that it would put in for ThreadSanitizer (-fsanitize=thread), and here they find the emulator
// instead. What is no memory of the device is soon told and left alone.
#include <cstdint>
#include <cstring>

#include "cuda_file/runtime/frame.hpp"
#include "cuda_file/runtime/memory.hpp"
#include "cuda_file/runtime/places.hpp"
#include "cuda_file/runtime/process.hpp"
#include "emulator/global_memory.hpp"
#include "emulator/profile.hpp"
#include "emulator/scheduler.hpp"

// The linker's.
extern "C" const char __executable_start;  // NOLINT
extern "C" const char __data_start;        // NOLINT

namespace ws::cuda_file {
namespace {

using emulator::Thread;

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The most that one instruction moves.
constexpr size_t kWidest = 16;

// ---- The store that is being made --------------------------------------------------------------

// Hooks come before their store, whose value nobody knows yet. What it changed is looked at as soon
// as the thread comes by again; no other thread of the host thread runs in between.
struct Store {
  std::byte* address = nullptr;
  size_t bytes = 0;
  bool shared = false;
  bool is_part = false;
  uint8_t* written = nullptr;  // of global memory
  emulator::Place place;
  std::array<std::byte, kWidest> before;
};
thread_local Store store;

// ---- Shared memory -----------------------------------------------------------------------------

// Which variable is there; the emulator knows only the block's memory as a whole.
void check_variable(const emulator::Block& block, uintptr_t address, size_t bytes,
                    const char* operation) {
  Frame& of = *frame;
  const size_t offset = address - number(block.shared);
  if (offset >= of.dynamic_offset()) return;
  const Frame::Variable* below = nullptr;
  for (const Frame::Variable& v : of.known_variables()) {
    if (offset >= v.offset && offset + bytes <= v.offset + v.variable->bytes) return;
  }
  for (const Frame::Variable& v : of.known_variables()) {
    if (offset >= v.offset) below = &v;
  }
  std::string what = concatenate(operation, " of ", bytes, " bytes");
  if (below != nullptr) {
    what += concatenate(" at byte ", offset - below->offset, " of ", below->variable->name,
                        ", which has ", below->variable->bytes, " bytes of shared memory");
  } else {
    what += " in shared memory where no variable is";
  }
  emulator::fail(emulator::Fault::kOutOfRange, what);
}

bool in_shared(const emulator::Block& block, uintptr_t address) {
  return address - number(block.shared) < block.shared_bytes;
}

// ---- Global memory -----------------------------------------------------------------------------

[[noreturn, gnu::cold, gnu::noinline]] void fail_address(uintptr_t address, size_t bytes,
                                                         bool writes, emulator::Place place) {
  const char* const verb = writes ? "writes" : "reads";
  const Allocation* near = in_arena(address) ? nearest(address) : nullptr;
  if (near != nullptr) {
    const auto offset = static_cast<int64_t>(address - near->begin);
    end_with("out of range",
             concatenate(verb, " ", bytes, " bytes at byte ", offset, " of ", near->text()), place);
  }
  const auto past = static_cast<int64_t>(address - number(emulator::self().block->shared));
  constexpr int64_t kNear = int64_t{1} << 20;
  if (past > -kNear && past < kNear) {
    end_with("out of range",
             concatenate(verb, " ", bytes, " bytes at byte ",
                         past - static_cast<int64_t>(frame->dynamic_offset()), " of the ",
                         frame->extents.shared,
                         " bytes of dynamic shared memory that the launch asks for"),
             place);
  }
  if (address < 4096) {
    end_with("illegal address",
             concatenate(verb, " ", bytes, " bytes at ", reinterpret_cast<void*>(address),
                         ": a null pointer"),
             place);
  }
  const std::string at =
      concatenate(verb, " ", bytes, " bytes at ", reinterpret_cast<void*>(address));
  if (in_arena(address)) {
    end_with("illegal address", at + ": no memory of the device is anywhere near", place);
  }
  end_with("illegal address",
           at + ": that is the host's memory, which a kernel cannot reach "
                "(cudaMalloc and cudaMemcpy it, or cudaMallocManaged)",
           place);
}

// Constants that the compiler has laid down: string literals, tables.
bool is_read_only(uintptr_t address) {
  return address >= number(&__executable_start) && address < number(&__data_start);
}

// The memory that the access is in; null where there is nothing to look at.
const Allocation* global_at(uintptr_t address, size_t bytes, bool writes, emulator::Place place) {
  const Allocation* of = find_cached(address);
  if (of != nullptr) [[likely]] {
    if (of->freed) {
      end_with(
          "out of range",
          concatenate(writes ? "writes " : "reads ", bytes, " bytes at byte ", address - of->begin,
                      " of ", of->text(), ", freed at ", emulator::to_string(of->freed_at)),
          place);
    }
    if (address + bytes > of->begin + of->bytes) {
      end_with("out of range",
               concatenate(writes ? "writes " : "reads ", bytes, " bytes at byte ",
                           address - of->begin, " of ", of->text()),
               place);
    }
    if (of->owner == Owner::kConstant) {
      if (writes) {
        end_with("invalid use", concatenate("a kernel writes __constant__ ", of->name), place);
      }
      return nullptr;
    }
    return of;
  }
  // The arguments of the launch, and what the kernel's code itself consists of.
  const KernelCall& kernel = frame->kernel;
  if (address - number(kernel.object) < kernel.bytes && !writes) return nullptr;
  if (!writes && is_read_only(address)) return nullptr;
  fail_address(address, bytes, writes, place);
}

void require_written(const Allocation& of, uintptr_t address, size_t bytes, emulator::Place place) {
  const uint8_t* written = of.written + (address - of.begin);
  for (size_t i = 0; i < bytes; ++i) {
    if (written[i] != 0) continue;
    end_with("unwritten read",
             concatenate("reads byte ", address - of.begin + i, " of ", of.text(),
                         ", which nothing has written: a cudaMemcpy or cudaMemset is missing"),
             place);
  }
}

// ---- One access --------------------------------------------------------------------------------

// kPart: of an access that is made when all parts have been told of.
enum class How { kOrdinary, kVolatile, kPart };

// In another block of the cluster.
bool cluster_shared(const void* pointer) {
  return emulator::cluster_size() > 1 && emulator::is_shared(pointer);
}

void read_device(Thread& me, uintptr_t address, size_t bytes, How how, emulator::Place place) {
  std::array<std::byte, kWidest> ignored;
  const auto* pointer = reinterpret_cast<const void*>(address);
  settle();
  me.place = place;
  if (in_shared(*me.block, address)) {
    check_variable(*me.block, address, bytes, "shared load");
    emulator::check_shared(pointer, bytes, bytes, "shared load");
    emulator::load_shared(ignored.data(), pointer, bytes);
    emulator::profile_shared_load("ld.shared", pointer, bytes);
    return;
  }
  if (cluster_shared(pointer)) {
    emulator::check_shared(pointer, bytes, bytes, "ld.shared::cluster");
    emulator::load_shared(ignored.data(), pointer, bytes);
    return;
  }
  const Allocation* const at = global_at(address, bytes, false, place);
  if (at == nullptr) return;
  if (how == How::kVolatile && (bytes == 4 || bytes == 8)) {
    emulator::load_strong(ignored.data(), pointer, bytes, emulator::Reach::kDevice);
  } else {
    emulator::load_global_beside_atomics(ignored.data(), pointer, bytes);
  }
  if (at->written != nullptr) require_written(*at, address, bytes, place);
}

void write_device(Thread& me, uintptr_t address, size_t bytes, How how, emulator::Place place) {
  auto* pointer = reinterpret_cast<std::byte*>(address);
  settle();
  me.place = place;
  if (in_shared(*me.block, address) || cluster_shared(pointer)) {
    if (in_shared(*me.block, address)) {
      check_variable(*me.block, address, bytes, "shared store");
    }
    emulator::check_shared(pointer, bytes, bytes, "shared store");
    emulator::begin_store_shared(pointer, bytes);
    emulator::profile_shared_store("st.shared", pointer, bytes);
    store.shared = true;
    store.written = nullptr;
  } else {
    const Allocation* const at = global_at(address, bytes, true, place);
    if (at == nullptr) return;
    uint8_t* const written = at->written != nullptr ? at->written + (address - at->begin) : nullptr;
    if (how == How::kVolatile && (bytes == 4 || bytes == 8)) {
      // Seen by others who look again and again; what it stores comes in a moment.
      emulator::store_strong(pointer, pointer, bytes, std::nullopt);
      if (written != nullptr) std::memset(written, 1, bytes);
      return;
    }
    // Others may run here, and make stores of their own: only then this one begins.
    emulator::begin_store_global(pointer, bytes);
    store.shared = false;
    store.written = written;
  }
  store.address = pointer;
  store.bytes = bytes;
  store.place = place;
  store.is_part = how == How::kPart;
  std::memcpy(store.before.data(), pointer, bytes);
}

// ---- Host code ---------------------------------------------------------------------------------

[[gnu::cold, gnu::noinline]] void check_host(uintptr_t address, bool writes, const void* from) {
  const Allocation* of = find_cached(address);
  if (of == nullptr || of->is_for_host()) return;
  const bool is_variable = of->owner == Owner::kVariable || of->owner == Owner::kConstant;
  const emulator::Place place = place_of_access(from);
  if (place.line() == 0) return;  // not the file's own code
  end_with("host access",
           concatenate("host code ", writes ? "writes" : "reads", " byte ", address - of->begin,
                       " of ", of->text(), ": ",
                       is_variable ? "cudaMemcpyToSymbol and cudaMemcpyFromSymbol reach it"
                                   : "cudaMemcpy reaches it"),
           place);
}

bool is_local(const Thread& me, uintptr_t address) {
  return address - number(me.runner->bottom) < me.runner->size;
}

[[gnu::always_inline]] inline void access(const void* pointer, size_t bytes, bool writes, How how,
                                          const void* from) {
  const uintptr_t address = number(pointer);
  Thread* const me = emulator::current_thread;
  if (me == nullptr) {
    if (may_be_devices(address)) check_host(address, writes, from);
    return;
  }
  if (is_local(*me, address)) return;
  // What the emulator knows of the thread: its headers' accesses may be told at the file's lines.
  if (address - number(me) < sizeof(Thread)) return settle();
  const emulator::Place place = place_of_access(from);
  if (is_in_emulator(place)) return settle();  // before the instruction: it may let others run
  // Functions of the standard library that the file and the emulator both use are linked once, with
  // hooks: by the emulator's calls they come to the host's memory, at no line of the file.
  if (place.line() == 0 && !may_be_devices(address) && !emulator::is_shared(pointer)) return;
  // An address that is no multiple of the width is a fault of its own.
  (writes ? write_device : read_device)(*me, address, bytes, how, place);
}

// In pieces that an instruction can move: of a struct, or of what may lie anywhere.
void access_range(const void* pointer, size_t bytes, bool writes, const void* from) {
  const auto* at = static_cast<const std::byte*>(pointer);
  while (bytes > 0) {
    const uintptr_t both = number(at) | kWidest;
    size_t piece = both & (~both + 1);
    while (piece > bytes) piece /= 2;
    access(at, piece, writes, How::kPart, from);
    at += piece;
    bytes -= piece;
  }
}

}  // namespace

void check_atomic(void* address, size_t bytes, const char* operation) {
  const Thread& me = emulator::self();
  const uintptr_t at = number(address);
  if (is_local(me, at)) {
    end_with("invalid use", concatenate(operation, " on a local variable of the thread"), me.place);
  }
  if (emulator::is_shared(address)) {
    if (in_shared(*me.block, at)) check_variable(*me.block, at, bytes, operation);
    emulator::check_shared(address, bytes, bytes, operation);
    return;
  }
  const Allocation* of = global_at(at, bytes, true, me.place);
  if (of != nullptr && of->written != nullptr) require_written(*of, at, bytes, me.place);
}

void check_copy(const void* shared, const void* global, size_t bytes, size_t read_bytes,
                const char* operation) {
  const Thread& me = emulator::self();
  if (!in_shared(*me.block, number(shared))) {
    end_with("invalid use", concatenate(operation, " to what is not the block's shared memory"),
             me.place);
  }
  check_variable(*me.block, number(shared), bytes, operation);
  if (read_bytes == 0) return;
  if (is_local(me, number(global)) || emulator::is_shared(global)) {
    end_with("invalid use", concatenate(operation, " from what is not global memory"), me.place);
  }
  const Allocation* of = global_at(number(global), read_bytes, false, me.place);
  if (of != nullptr && of->written != nullptr) {
    require_written(*of, number(global), read_bytes, me.place);
  }
}

void settle() {
  if (store.address == nullptr) return;
  Thread& me = emulator::self();
  me.place = store.place;
  std::byte* const address = std::exchange(store.address, nullptr);
  // Of a part it is not known, so it counts as a change.
  const std::byte* const before = store.is_part ? nullptr : store.before.data();
  if (store.shared) {
    emulator::end_store_shared(address, before, store.bytes);
  } else {
    if (store.written != nullptr) std::memset(store.written, 1, store.bytes);
    emulator::end_store_global(address, before, store.bytes);
  }
}

}  // namespace ws::cuda_file

// ---- What the compiler calls -------------------------------------------------------------------

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
using ws::cuda_file::access;
using ws::cuda_file::access_range;
using ws::cuda_file::How;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

#define WS_HOOKS(bytes)                                                   \
  void __tsan_read##bytes(void* p) {                                      \
    access(p, bytes, false, How::kOrdinary, __builtin_return_address(0)); \
  }                                                                       \
  void __tsan_write##bytes(void* p) {                                     \
    access(p, bytes, true, How::kOrdinary, __builtin_return_address(0));  \
  }                                                                       \
  void __tsan_volatile_read##bytes(void* p) {                             \
    access(p, bytes, false, How::kVolatile, __builtin_return_address(0)); \
  }                                                                       \
  void __tsan_volatile_write##bytes(void* p) {                            \
    access(p, bytes, true, How::kVolatile, __builtin_return_address(0));  \
  }                                                                       \
  void __tsan_unaligned_read##bytes(void* p) {                            \
    access_range(p, bytes, false, __builtin_return_address(0));           \
  }                                                                       \
  void __tsan_unaligned_write##bytes(void* p) {                           \
    access_range(p, bytes, true, __builtin_return_address(0));            \
  }                                                                       \
  void __tsan_unaligned_volatile_read##bytes(void* p) {                   \
    access_range(p, bytes, false, __builtin_return_address(0));           \
  }                                                                       \
  void __tsan_unaligned_volatile_write##bytes(void* p) {                  \
    access_range(p, bytes, true, __builtin_return_address(0));            \
  }
WS_HOOKS(1)
WS_HOOKS(2)
WS_HOOKS(4)
WS_HOOKS(8)
WS_HOOKS(16)
#undef WS_HOOKS

void __tsan_read_range(void* p, size_t bytes) {
  access_range(p, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* p, size_t bytes) {
  access_range(p, bytes, true, __builtin_return_address(0));
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
