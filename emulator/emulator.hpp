// The emulator's core, as the device layer and ptx/ see it: who am I, meet the others, wait, fail.
//
// A fiber runs each CUDA thread. The blocks of a cluster (all blocks of a cooperative grid) form a
// Group that one host thread schedules; groups spread over the host's cores. A warp- or
// warpgroup-wide instruction is one `converge`: the last thread to arrive acts for all. Everything
// else that waits is a barrier, a condition that the scheduler looks at (wait_until), or a yield.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "emulator/clock.hpp"
#include "emulator/place.hpp"
#include "warpsmith/error.hpp"

namespace ws::emulator {

// ---- Faults: the named errors ------------------------------------------------------------------

enum class Fault {
  kDivergence,     // threads that must execute one collective together do not
  kDeadlock,       // no thread can go on
  kUnwrittenRead,  // shared memory is read that nothing wrote, or whose copy is still in flight
  kOutOfRange,     // an index, lane or shared-memory address outside its range
  kMisaligned,     // an address or size that the instruction does not take
  kRace,           // two accesses to the same memory, one of them a write, that nothing orders
  kInvalidUse,     // anything else that PTX leaves undefined
};
const char* to_string(Fault fault);

class FaultError : public Error {
 public:
  FaultError(Fault fault, int64_t block, int thread, std::string message, ErrorContext context,
             Place place = {})
      : Error(std::move(message), std::move(context)),
        fault_(fault),
        block_(block),
        thread_(thread),
        place_(place) {}
  Fault fault() const { return fault_; }
  int64_t block() const { return block_; }
  int thread() const { return thread_; }
  Place place() const { return place_; }  // line 0: not known

 private:
  Fault fault_;
  int64_t block_;
  int thread_;
  Place place_;
};

// Called with each fault before it is thrown, where it is set: for programs that end there, because
// their kernels are compiled with nothing to unwind (cuda_file/).
using FaultHandler = void (*)(const FaultError& fault);
extern constinit FaultHandler fault_handler;

// Throws a FaultError that carries the current block, thread and launch.
[[noreturn]] void fail(Fault fault, const std::string& message);

// ---- Options and counts ------------------------------------------------------------------------

enum class Order { kForward, kReverse, kRandom };  // in which order ready threads run
inline constexpr std::array kAllOrders = {Order::kForward, Order::kReverse, Order::kRandom};
const char* to_string(Order order);
std::optional<Order> order_named(std::string_view name);

// What looks for faults beyond those that an instruction's model meets anyway. Each can be off.
enum class Detector {
  kSharedRaces,  // accesses to shared memory that nothing orders
  kGlobalRaces,  // the same in global memory, within a block and between blocks; stale .nc loads
  kBounds,       // global accesses outside the tensors of the call, and of registered memory
  kRegisters,    // wgmma: registers that change under a product
  kBudgets,      // more registers or blocks than the GPU has
  kPlaces,       // lanes of a warp that execute one aligned instruction at two places
  kSize,
};
const char* to_string(Detector detector);

struct Options {
  Order order = Order::kForward;
  bool order_is_set = false;  // by somebody: checks run in no other
  uint64_t seed = 0;          // of kRandom
  int workers = 0;            // host threads; 0: one per core
  uint32_t off = 0;           // detectors that are: a set of 1 << Detector
  bool uses(Detector detector) const { return (off >> static_cast<int>(detector) & 1) == 0; }
};
// Of this process; a launch reads them once. They begin as the environment says:
// WARPSMITH_EMULATOR="order=random seed=7 workers=1 off=shared_races,bounds", any of these.
Options& options();

// What a launch executed. Memory is counted by the load and store primitives, in bytes asked for.
enum class Count {
  kLaunches,
  kBlocks,
  kThreads,
  kSwitches,          // fiber switches
  kWarpInstructions,  // warp- and warpgroup-wide instructions: shuffles, votes, mma, ldmatrix ...
  kShuffles,
  kBarriers,  // block, named, cluster and grid barriers, one per barrier completed
  kGlobalLoads,
  kGlobalLoadBytes,
  kGlobalStores,
  kGlobalStoreBytes,
  kSharedLoadBytes,
  kSharedStoreBytes,
  kAtomics,
  kAsyncCopies,  // cp.async, bulk and tensor copies
  kAsyncBytes,
  kMma,  // mma.sync and wgmma instructions
  kSize,
};
const char* to_string(Count count);
using Counts = std::array<uint64_t, static_cast<size_t>(Count::kSize)>;
Counts counts();  // summed since the last reset, over all launches of this process that have ended
void reset_counts();

extern constinit thread_local Counts local_counts;  // of this host thread, not yet in counts()
inline void count(Count what, uint64_t amount = 1) {
  local_counts[static_cast<size_t>(what)] += amount;
}

// Of this host thread: grows where memory changes, so that spinning threads may hope.
extern constinit thread_local uint64_t progress;
inline void count_progress() { ++progress; }

// ---- Threads, blocks, shared memory ------------------------------------------------------------

struct Group;   // emulator/scheduler.hpp
struct Runner;  // ... the fiber that a thread runs on
struct Block;
struct AsyncThread;  // emulator/async.hpp: copies in flight of a thread
struct AsyncBlock;   // ... and mbarriers of a block
struct RaceWord;     // emulator/shared_races.hpp

// A callable that is only borrowed: for parameters.
template <class Signature>
class FunctionRef;
template <class Result, class... Parameters>
class FunctionRef<Result(Parameters...)> {
 public:
  template <class Function>
    requires(!std::same_as<std::remove_cvref_t<Function>, FunctionRef>)
  FunctionRef(Function&& function)  // NOLINT: borrows any callable, as std::function_ref will
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Parameters... parameters) -> Result {
          return (*static_cast<std::remove_reference_t<Function>*>(object))(
              std::forward<Parameters>(parameters)...);
        }) {}
  Result operator()(Parameters... parameters) const {
    return call_(object_, std::forward<Parameters>(parameters)...);
  }

 private:
  void* object_;
  Result (*call_)(void*, Parameters...);
};

// What a thread waits for. The scheduler asks when nothing else can run, as that thread.
class Condition {
 public:
  virtual bool holds() = 0;
  virtual std::string describe() const { return {}; }  // its state, for the report of a deadlock

 protected:
  ~Condition() = default;
};

std::string to_string(const Place& place);  // "kernels/softmax/03_online.cuh:22"

// What few threads know of the order of memory.
struct ThreadOrder {
  Clock fenced;         // what it came after when it executed fence.proxy.async
  Clock fenced_global;  // ... for global memory
  Clock inits;          // mbarriers' initialisations that fences have passed on to it
  Clock reads;          // reads of others that are over, whatever may be seen of their writes
  Fenced flags;
};

struct Thread {
  Block* block = nullptr;
  int index = 0;  // in the block
  Runner* runner = nullptr;
  Place place;         // in the source: of the instruction that it executes or executed last
  uint32_t epoch = 0;  // of its accesses now
  Clock clock;         // what of others' it comes after
  const void* looked_at = nullptr;     // in memory last
  int looks_at_one = 0;                // how often without another in between
  int looks = 0;                       // since it changed something
  std::unique_ptr<ThreadOrder> order;  // beside the clock: null as long as nothing is there
  bool finished = false;
  bool may_touch_global = true;       // a launch that overlaps: only after griddepcontrol.wait
  const char* waiting_for = nullptr;  // the instruction it waits in, for reports
  Condition* until = nullptr;         // the condition it waits for, if any
  bool cluster_arrived = false;       // barrier.cluster.arrive without its wait
  uint64_t cluster_generation = 0;    // ... and of which generation
  uint32_t proxy_fences = 0;          // fence.proxy.async executed
  uint32_t init_fences = 0;           // those and fence.mbarrier_init
  std::unique_ptr<AsyncThread> async;

  Thread();
  Thread(Thread&&) noexcept;
  ~Thread();
  int lane() const { return index % 32; }
  int warp() const { return index / 32; }
  ThreadOrder& ordering() {
    if (!order) order = std::make_unique<ThreadOrder>();
    return *order;
  }
};

// Threads that execute one warp- or warpgroup-wide instruction together.
struct Meeting {
  const char* operation = nullptr;
  uint32_t mask = 0;  // lanes of a warp; of a warpgroup 0
  int expected = 0;
  int arrived = 0;
  std::vector<void*> payloads;  // by lane, or by thread of the warpgroup; null where not arrived
  std::vector<Thread*> waiting;
};

// One of a block's 16 barriers. Warps arrive, so lanes count once their warp is complete.
struct Barrier {
  ClockSum arrivals;
  Fenced flags;                      // of those who have arrived
  int expected = 0;                  // threads, a multiple of 32
  int arrived = 0;                   // threads of complete warps
  std::array<uint32_t, 32> lanes{};  // arrived, by warp
  std::vector<Thread*> waiting;
  bool open() const { return expected != 0; }
};

// The .aligned instructions of a warp that some of its lanes have come to.
struct Aligned {
  struct Instruction {
    Place place;
    uint32_t lanes;
  };
  std::deque<Instruction> open;
  int64_t closed = 0;
  std::array<int64_t, 32> executed{};  // by lane
};

// Registers of a warpgroup's threads, as setmaxnreg gives and takes them.
struct RegisterBudget {
  int now = 0;     // a thread
  int wanted = 0;  // after the setmaxnreg that it executes
};

struct Block {
  Group* group = nullptr;
  int64_t index = 0;
  int cluster_rank = 0;
  int threads = 0;
  int exited = 0;
  bool started = false;
  Thread* first = nullptr;      // its threads stand in a row
  std::byte* shared = nullptr;  // 1024-byte aligned
  size_t shared_bytes = 0;
  uint8_t* state = nullptr;  // a set of ByteState for each byte of `shared`
  // For each 4 bytes of `shared`: who wrote them last, see shared_memory.cpp
  uint32_t* writer = nullptr;
  RaceWord* races = nullptr;                 // ... and what is known of accesses; null: not asked
  std::array<uint32_t, kStreams> streams{};  // epochs of what works for the block
  std::vector<std::vector<Meeting>> warps;   // open ones and closed ones to use again
  std::vector<std::vector<Meeting>> warpgroups;
  std::vector<Aligned> aligned;           // by warp
  std::vector<RegisterBudget> registers;  // by warpgroup
  int free_registers = 0;                 // of the block, that no warp holds
  std::array<Barrier, 16> barriers;
  int open_barriers = 0;
  bool multiplies = false;  // by wgmma
  std::unique_ptr<AsyncBlock> async;

  Block();
  Block(Block&&) noexcept;
  ~Block();
};

extern constinit thread_local Thread* current_thread;  // null outside kernels
[[noreturn]] void fail_outside_kernel();

inline bool running() { return current_thread != nullptr; }
inline Thread& self() {
  if (current_thread == nullptr) [[unlikely]]
    fail_outside_kernel();
  return *current_thread;
}

// The thread goes on at this place: said at the head of every instruction.
inline void at(Place place) { self().place = place; }

bool uses(Detector detector);  // this launch does
int64_t grid_blocks();
int cluster_size();
Block& block_of_cluster(int rank);  // a block of the caller's cluster

// The place of a choice that the hardware makes among n: by Options::order the first, the last or
// any.
size_t choose(size_t n);

// 32-bit shared-window addresses as PTX has them: bits 0-23 the offset in the block's window, which
// starts at kSharedWindowBase; bits 24-31 are 0 for the block itself (so this address means another
// byte to another block, as on the GPU) and else 1 + the rank in the cluster.
inline constexpr uint32_t kSharedWindowBase = 1024;
inline constexpr int kSharedRankShift = 24;
uint32_t shared_address(
    const void* pointer);  // fails if the pointer is not in the cluster's shared memory
std::byte* shared_pointer(uint32_t address);            // fails if the address is outside
uint32_t map_shared_rank(const void* local, int rank);  // mapa
bool is_shared(const void* pointer);                    // of any block of the caller's cluster

// Checked access to shared memory; all fail with the operation's name.
// ... the bytes are inside and aligned
void check_shared(const void* pointer, size_t bytes, size_t alignment, const char* operation);
// ... ordinary loads and stores: unwritten, in flight; overwriting what a copy still uses
void read_shared(const void* pointer, size_t bytes, const char* operation);
void write_shared(void* pointer, const void* source, size_t bytes, const char* operation);
// ... one row of ldmatrix, which may be one that nobody uses: false where nothing has written it
bool read_shared_row(const void* pointer, size_t bytes, const char* operation);
void load_shared(void* registers, const void* shared, size_t bytes);   // ld.shared
void store_shared(void* shared, const void* registers, size_t bytes);  // st.shared
// ... a store that the program makes itself, as those to global memory (global_memory.hpp)
void begin_store_shared(const void* shared, size_t bytes);
void end_store_shared(const void* shared, const void* before, size_t bytes);
// ... atom.shared, as begin_atomic() and end_atomic(): atomics do not race with each other
void begin_atomic_shared(const void* shared, size_t bytes, const char* operation);
void end_atomic_shared(const void* shared, bool changed);
// ... reads by the async proxy (wgmma, bulk and tensor stores): also fails where an ordinary store
// was not followed by its thread's fence.proxy.async
void read_shared_async(const void* pointer, size_t bytes, const char* operation);

// ---- Order of memory ---------------------------------------------------------------------------

// The running thread passes on what it has done and seen; what it does from now on is a new epoch.
void release_to(Clock& clock);
void release_to(ClockSum& clocks);
// ... and comes after what `clock` has seen.
void acquire_from(const Clock& clock);

// ---- Meeting and waiting -----------------------------------------------------------------------

// Blocks the thread until the condition holds.
void wait_until(const char* operation, Condition& condition);
template <class Predicate>
  requires std::is_invocable_r_v<bool, Predicate&>
void wait_until(const char* operation, Predicate&& predicate) {
  struct Asked final : Condition {
    explicit Asked(Predicate& p) : predicate(p) {}
    bool holds() override { return predicate(); }
    Predicate& predicate;
  };
  Asked asked(predicate);
  wait_until(operation, static_cast<Condition&>(asked));
}
// Lets the others run: for spin loops. A grid whose threads do nothing but yield is a deadlock.
void yield(const char* operation);
// The thread looks at a place that others may change: who does so again and again lets them run.
void watch_for_spins(const void* place, const char* operation);

// The lanes of `mask` of the caller's warp, or (mask 0) the 128 threads of its warpgroup, meet:
// each brings a payload; the last to arrive calls act(payloads) and frees all.
void meet(uint32_t mask, const char* operation, void* payload,
          FunctionRef<void(std::span<void* const>)> act);

// Fails where lanes of the caller's warp execute an instruction that is .aligned at two places.
// Each lane calls it once for each such instruction.
void check_aligned(const char* operation);

// Lanes of `mask` of the caller's warp execute one instruction together. act(lanes): 32 pointers to
// the lanes' payloads, null outside the mask.
template <class Payload, class Act>
void converge_warp(uint32_t mask, const char* operation, Payload& mine, Act&& act) {
  meet(mask, operation, const_cast<void*>(static_cast<const void*>(&mine)),
       [&act](std::span<void* const> payloads) {
         std::array<Payload*, 32> lanes;
         for (size_t i = 0; i < 32; ++i) lanes[i] = static_cast<Payload*>(payloads[i]);
         count(Count::kWarpInstructions);
         act(std::span<Payload* const, 32>(lanes));
       });
}

// The 128 threads of the caller's warpgroup (4 warps from a multiple of 4) execute one instruction.
template <class Payload, class Act>
void converge_warpgroup(const char* operation, Payload& mine, Act&& act) {
  meet(0, operation, const_cast<void*>(static_cast<const void*>(&mine)),
       [&act](std::span<void* const> payloads) {
         std::array<Payload*, 128> threads;
         for (size_t i = 0; i < 128; ++i) threads[i] = static_cast<Payload*>(payloads[i]);
         count(Count::kWarpInstructions, 4);
         act(std::span<Payload* const, 128>(threads));
       });
}

// All lanes of the caller's warp, at one place of the source: what PTX calls .aligned.
template <class Payload, class Act>
void converge_aligned(const char* operation, Payload& mine, Act&& act) {
  check_aligned(operation);
  converge_warp(0xFFFFFFFFu, operation, mine, std::forward<Act>(act));
}

void check_warpgroup(const char* operation);     // all threads of the warpgroup execute it
void check_in_warpgroup(const char* operation);  // the thread is in a whole one
void sync_warp(uint32_t mask);                   // bar.warp.sync
bool elect(uint32_t mask);                       // elect.sync

void barrier_block();                       // __syncthreads
void barrier_sync(int id, int threads);     // barrier.sync
void barrier_arrive(int id, int threads);   // barrier.arrive
void barrier_cluster_arrive(bool release);  // barrier.cluster.arrive.release or .relaxed
void barrier_cluster_wait();                // barrier.cluster.wait
// All threads of a cooperative launch. `counter` is what ptx/grid.hpp counts with on the GPU.
void barrier_grid(uint32_t* counter);
void griddepcontrol_wait();
void setmaxnreg(int registers, bool increases);

// ---- Launch ------------------------------------------------------------------------------------

struct LaunchShape {
  int64_t blocks = 1;
  int threads = 1;
  int cluster = 1;
  size_t shared_bytes = 0;
  bool cooperative = false;
  bool overlaps = false;  // the launch before it may still run, until a thread waits for it
  int registers = 0;      // of a thread at its start; 0: what the multiprocessor has for one block
};
// Runs `body(shared memory of the block)` once per CUDA thread; throws the first fault.
void launch(const LaunchShape& shape, FunctionRef<void(std::byte* shared)> body);

}  // namespace ws::emulator
