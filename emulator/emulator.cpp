#include "emulator/emulator.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "emulator/global_memory.hpp"
#include "emulator/profile.hpp"
#include "emulator/scheduler.hpp"
#include "emulator/shared_memory.hpp"
#include "emulator/trace.hpp"
#include "warpsmith/arch.hpp"
#include "warpsmith/interrupt.hpp"

namespace ws::emulator {

Block::Block() = default;
Block::Block(Block&&) noexcept = default;
Block::~Block() = default;
Thread::Thread() = default;
Thread::Thread(Thread&&) noexcept = default;
Thread::~Thread() = default;

AsyncThread& async_of(Thread& thread) {
  if (!thread.async) thread.async = std::make_unique<AsyncThread>();
  return *thread.async;
}
AsyncBlock& async_of(Block& block) {
  if (!block.async) block.async = std::make_unique<AsyncBlock>();
  return *block.async;
}

// ---- Faults, options, counts -------------------------------------------------------------------

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::kDivergence: return "divergence";
    case Fault::kDeadlock: return "deadlock";
    case Fault::kUnwrittenRead: return "unwritten read";
    case Fault::kOutOfRange: return "out of range";
    case Fault::kMisaligned: return "misaligned";
    case Fault::kRace: return "race";
    case Fault::kInvalidUse: return "invalid use";
  }
  return "?";
}

void fail(Fault fault, const std::string& message) { throw make_fault(fault, self(), message); }

void fail_outside_kernel() { throw Error("device code was called outside an emulated kernel"); }

const char* to_string(Order order) {
  switch (order) {
    case Order::kForward: return "forward";
    case Order::kReverse: return "reverse";
    case Order::kRandom: return "random";
  }
  return "?";
}

std::optional<Order> order_named(std::string_view name) {
  const auto* const at =
      std::ranges::find_if(kAllOrders, [&](Order order) { return name == to_string(order); });
  return at != kAllOrders.end() ? std::optional(*at) : std::nullopt;
}

const char* to_string(Detector detector) {
  switch (detector) {
    case Detector::kSharedRaces: return "shared_races";
    case Detector::kGlobalRaces: return "global_races";
    case Detector::kBounds: return "bounds";
    case Detector::kRegisters: return "registers";
    case Detector::kBudgets: return "budgets";
    case Detector::kPlaces: return "places";
    case Detector::kSize: break;
  }
  return "?";
}

namespace {

// "shared_races,bounds"
uint32_t set_of_detectors(const std::string& names) {
  uint32_t set = 0;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    std::string known;
    uint32_t bit = 0;
    for (int i = 0; i < static_cast<int>(Detector::kSize); ++i) {
      const char* other = to_string(static_cast<Detector>(i));
      known.append(i > 0 ? ", " : "").append(other);
      if (name == other) bit = 1u << i;
    }
    require(bit != 0, "WARPSMITH_EMULATOR: off=", name, " is none of ", known);
    set |= bit;
  }
  return set;
}

Options options_of_environment() {
  Options options;
  const char* text = std::getenv("WARPSMITH_EMULATOR");
  std::istringstream words(text != nullptr ? text : "");
  for (std::string word; words >> word;) {
    const size_t equals = std::min(word.find('='), word.size() - 1);
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    const auto number = [&](uint64_t least, uint64_t most) {
      uint64_t n = 0;
      const char* const last = value.data() + value.size();
      const auto [end, failure] = std::from_chars(value.data(), last, n);
      require(failure == std::errc() && end == last && n >= least && n <= most,
              "WARPSMITH_EMULATOR: ", word, " is no whole number from ", least, " to ", most);
      return n;
    };
    if (const std::optional<Order> order = key == "order" ? order_named(value) : std::nullopt) {
      options.order = *order;
      options.order_is_set = true;
    } else if (key == "seed") {
      options.seed = number(0, UINT64_MAX);
    } else if (key == "workers") {
      options.workers = static_cast<int>(number(1, 1024));
    } else if (key == "off") {
      options.off |= set_of_detectors(value);
    } else {
      throw InvalidArgument(
          concatenate("WARPSMITH_EMULATOR: '", word,
                      "' is not order=forward|reverse|random, seed=NUMBER, workers=NUMBER or "
                      "off=DETECTOR,..."));
    }
  }
  return options;
}

}  // namespace

Options& options() {
  static Options instance = options_of_environment();
  return instance;
}

const char* to_string(Count count) {
  switch (count) {
    case Count::kLaunches: return "launches";
    case Count::kBlocks: return "blocks";
    case Count::kThreads: return "threads";
    case Count::kSwitches: return "switches";
    case Count::kWarpInstructions: return "warp_instructions";
    case Count::kShuffles: return "shuffles";
    case Count::kBarriers: return "barriers";
    case Count::kGlobalLoads: return "global_loads";
    case Count::kGlobalLoadBytes: return "global_load_bytes";
    case Count::kGlobalStores: return "global_stores";
    case Count::kGlobalStoreBytes: return "global_store_bytes";
    case Count::kSharedLoadBytes: return "shared_load_bytes";
    case Count::kSharedStoreBytes: return "shared_store_bytes";
    case Count::kAtomics: return "atomics";
    case Count::kAsyncCopies: return "async_copies";
    case Count::kAsyncBytes: return "async_bytes";
    case Count::kMma: return "mma";
    case Count::kSize: break;
  }
  return "?";
}

constinit thread_local Counts local_counts{};
constinit thread_local uint64_t progress = 0;

namespace {

std::mutex counts_mutex;
Counts total_counts{};

void collect_counts() {
  const std::lock_guard lock(counts_mutex);
  for (size_t i = 0; i < total_counts.size(); ++i) total_counts[i] += local_counts[i];
  local_counts.fill(0);
}

}  // namespace

Counts counts() {
  const std::lock_guard lock(counts_mutex);
  return total_counts;
}

void reset_counts() {
  const std::lock_guard lock(counts_mutex);
  total_counts.fill(0);
}

// ---- Who am I ----------------------------------------------------------------------------------

bool uses(Detector detector) { return self().block->group->options.uses(detector); }
int64_t grid_blocks() { return self().block->group->shape.blocks; }
int cluster_size() { return self().block->group->shape.cluster; }

Block& block_of_cluster(int rank) {
  Block& mine = *self().block;
  const int size = cluster_size();
  if (rank < 0 || rank >= size) {
    fail(Fault::kOutOfRange, concatenate("cluster rank ", rank, " of ", size));
  }
  return *(&mine - mine.cluster_rank + rank);
}

size_t choose(size_t n) {
  Group& group = *self().block->group;
  switch (group.options.order) {
    case Order::kForward: return 0;
    case Order::kReverse: return n - 1;
    case Order::kRandom: return group.random() % n;
  }
  return 0;
}

// ---- Order of memory ---------------------------------------------------------------------------

void release_to(Clock& clock) {
  Thread& me = self();
  clock.join(me.clock);
  clock.see(me.block->index, actor_of_thread(me.index), me.epoch++);
}

void release_to(ClockSum& clocks) {
  Thread& me = self();
  clocks.add(me.clock);
  clocks.sum().see(me.block->index, actor_of_thread(me.index), me.epoch++);
}

void acquire_from(const Clock& clock) { self().clock.join(clock); }

namespace {

// Those who meet come after all that the others did.
void synchronize(std::span<Thread* const> threads) {
  ClockSum all;
  Fenced flags;
  for (const Thread* thread : threads) {
    all.add(thread->clock);
    if (thread->order) flags.join(thread->order->flags);
  }
  for (Thread* thread : threads) {
    all.sum().see(thread->block->index, actor_of_thread(thread->index), thread->epoch++);
  }
  for (Thread* thread : threads) thread->clock = all.sum();
  if (flags.empty()) return;
  for (Thread* thread : threads) thread->ordering().flags = flags;
}

}  // namespace

// ---- Meeting and waiting -----------------------------------------------------------------------

namespace {

[[gnu::always_inline]] inline void suspend(Thread& me, const char* operation) {
  me.waiting_for = operation;
  me.block->group->scheduler->suspend(me);
  me.waiting_for = nullptr;
}

uint32_t lanes_of_warp(const Thread& thread) {
  const int lanes = std::min(32, thread.block->threads - thread.warp() * 32);
  return lanes == 32 ? 0xFFFFFFFFu : (1u << lanes) - 1;
}

// Text is put together apart from the functions that wait: a stream in their frames would be room
// on every stack that a switch lands on.
[[noreturn, gnu::cold, gnu::noinline]] void fail_mask(const Thread& me, uint32_t mask,
                                                      const char* operation) {
  if ((mask >> me.lane() & 1u) == 0) {
    fail(Fault::kInvalidUse, concatenate(operation, ": lane ", me.lane(),
                                         " is not in its own member mask 0x", std::hex, mask));
  }
  fail(Fault::kDivergence,
       concatenate(operation, ": the member mask names lanes up to ", 31 - std::countl_zero(mask),
                   ", the last warp of a block of ", me.block->threads, " threads has ",
                   std::popcount(lanes_of_warp(me))));
}
[[noreturn, gnu::cold, gnu::noinline]] void fail_warpgroup(const Thread& me,
                                                           const char* operation) {
  fail(Fault::kInvalidUse, concatenate(operation, ": thread ", me.index, " of a block of ",
                                       me.block->threads, " is in no whole warpgroup of 128"));
}
[[noreturn, gnu::cold, gnu::noinline]] void fail_meeting(const Thread& me, const Meeting& meeting,
                                                         const char* operation) {
  fail(Fault::kDivergence,
       concatenate("thread ", me.index, " executes ", operation, " where thread ",
                   meeting.waiting.front()->index, " waits in ", meeting.operation));
}

// Fails unless the caller's lane is in `mask` and the warp has all lanes of it.
void check_mask(const Thread& me, uint32_t mask, const char* operation) {
  if ((mask >> me.lane() & 1u) == 0 || (mask & ~lanes_of_warp(me)) != 0) [[unlikely]] {
    fail_mask(me, mask, operation);
  }
}

// Where those of `mask` meet: who has come already stands there.
Meeting& meeting_of(std::vector<Meeting>& place, uint32_t mask, const char* operation) {
  for (Meeting& meeting : place) {
    if (meeting.mask == mask && meeting.arrived > 0) return meeting;
  }
  auto free = std::ranges::find(place, 0, &Meeting::arrived);
  if (free == place.end()) free = place.emplace(place.end());
  free->operation = operation;
  free->mask = mask;
  free->expected = mask != 0 ? std::popcount(mask) : 128;
  free->payloads.assign(mask != 0 ? 32 : 128, nullptr);
  return *free;
}

}  // namespace

void wait_until(const char* operation, Condition& condition) {
  if (condition.holds()) return;
  Thread& me = self();
  me.until = &condition;
  me.block->group->conditional.push_back(&me);
  suspend(me, operation);
  me.until = nullptr;
}

void yield(const char* operation) {
  const TracedWait traced({.operation = operation, .takes_turn = false});
  Thread& me = self();
  me.block->group->yielded.push_back(&me);
  suspend(me, operation);
}

void watch_for_spins(const void* place, const char* operation) {
  constexpr int kPatience = 32;
  constexpr int kMostLooks = 4096;  // at any places, with nothing stored in between
  Thread& me = self();
  me.looks_at_one = me.looked_at == place ? me.looks_at_one + 1 : 0;
  me.looked_at = place;
  if (++me.looks < kMostLooks && me.looks_at_one < kPatience) return;
  me.looks = 0;
  yield(operation);
}

void meet(uint32_t mask, const char* operation, void* payload,
          FunctionRef<void(std::span<void* const>)> act) {
  Thread& me = self();
  Block& block = *me.block;
  const bool warp = mask != 0;
  if (warp) {
    check_mask(me, mask, operation);
  } else if (me.index / 128 >= block.threads / 128) [[unlikely]] {
    fail_warpgroup(me, operation);
  }
  profile_collective(operation, mask);
  Meeting& meeting = meeting_of(warp ? block.warps[static_cast<size_t>(me.warp())]
                                     : block.warpgroups[static_cast<size_t>(me.index / 128)],
                                mask, operation);
  if (meeting.operation != operation && std::strcmp(meeting.operation, operation) != 0)
      [[unlikely]] {
    fail_meeting(me, meeting, operation);
  }
  meeting.payloads[static_cast<size_t>(warp ? me.lane() : me.index % 128)] = payload;
  if (++meeting.arrived < meeting.expected) {
    meeting.waiting.push_back(&me);
    suspend(me, operation);
    return;
  }
  act(meeting.payloads);  // may not meet itself, so `meeting` stays where it is
  meeting.arrived = 0;
  Scheduler::release(*block.group, meeting.waiting);
}

void check_aligned(const char* operation) {
  const Thread& me = self();
  Block& block = *me.block;
  if (!uses(Detector::kPlaces)) return;
  if (me.place.line() == 0) return;  // not known
  Aligned& warp = block.aligned[static_cast<size_t>(me.warp())];
  const auto at =
      static_cast<size_t>(warp.executed[static_cast<size_t>(me.lane())]++ - warp.closed);
  if (at >= warp.open.size()) warp.open.push_back({me.place, 0});
  Aligned::Instruction& first = warp.open[at];
  if (first.place.line() != me.place.line() || first.place.column() != me.place.column())
      [[unlikely]] {
    fail(Fault::kDivergence, concatenate(operation, ": lanes of a warp execute it at two places, ",
                                         to_string(first.place), " and ", to_string(me.place)));
  }
  first.lanes |= 1u << me.lane();
  while (!warp.open.empty() && warp.open.front().lanes == lanes_of_warp(me)) {
    warp.open.pop_front();
    ++warp.closed;
  }
}

void check_in_warpgroup(const char* operation) {
  const Thread& me = self();
  if (me.index / 128 >= me.block->threads / 128) [[unlikely]]
    fail_warpgroup(me, operation);
}

void check_warpgroup(const char* operation) {
  int nothing = 0;
  converge_warpgroup(operation, nothing, [](auto) {});
}

void sync_warp(uint32_t mask) {
  Thread* me = &self();
  converge_warp(mask, "bar.warp.sync", me, [](std::span<Thread** const, 32> lanes) {
    std::array<Thread*, 32> there;
    size_t count = 0;
    for (Thread** lane : lanes) {
      if (lane != nullptr) there[count++] = *lane;
    }
    synchronize({there.data(), count});
  });
}

bool elect(uint32_t mask) {
  // The leader of a mask is always the same one.
  bool elected = false;
  converge_warp(mask, "elect.sync", elected, [mask](std::span<bool* const, 32> lanes) {
    const Options& chosen = self().block->group->options;
    int leader = std::countr_zero(mask);
    if (chosen.order == Order::kReverse) leader = 31 - std::countl_zero(mask);
    if (chosen.order == Order::kRandom) {
      auto skip =
          static_cast<int>((chosen.seed + mask) * 0x9E3779B97F4A7C15u >> 32) % std::popcount(mask);
      for (skip = std::abs(skip); skip > 0; --skip) {
        do {
          leader = (leader + 1) % 32;
        } while ((mask >> leader & 1u) == 0);
      }
    }
    *lanes[static_cast<size_t>(leader)] = true;
  });
  return elected;
}

// ---- Barriers ----------------------------------------------------------------------------------

namespace {

// With its number, for reports that keep no more than a pointer.
const char* name_of_sync(int id) {
  static constexpr const char* kNames[] = {
      "barrier.sync 0",  "barrier.sync 1",  "barrier.sync 2",  "barrier.sync 3",
      "barrier.sync 4",  "barrier.sync 5",  "barrier.sync 6",  "barrier.sync 7",
      "barrier.sync 8",  "barrier.sync 9",  "barrier.sync 10", "barrier.sync 11",
      "barrier.sync 12", "barrier.sync 13", "barrier.sync 14", "barrier.sync 15"};
  return kNames[id];
}

// A barrier of the whole block does not wait for warps that have exited, as on the hardware.
int missing_warps(const Block& block, const Barrier& barrier) {
  if (barrier.expected < (block.threads + 31) / 32 * 32) return 0;
  int missing = 0;
  for (int warp = 0; warp * 32 < block.threads; ++warp) {
    const Thread* const lanes = block.first + warp * 32;
    const int count = std::min(32, block.threads - warp * 32);
    const bool gone = std::all_of(lanes, lanes + count, [](const Thread& t) { return t.finished; });
    if (gone && barrier.lanes[static_cast<size_t>(warp)] == 0) ++missing;
  }
  return missing;
}

// Lets those go on who wait, if all have arrived; true if so.
// `last`: who has just come and waits as well, null if nobody does.
bool complete_if_due(Block& block, Barrier& barrier, int id, const char* operation, Thread* last) {
  int expected = barrier.expected;
  if (block.exited > 0) expected -= 32 * missing_warps(block, barrier);
  if (barrier.arrived < expected) return false;
  for (int warp = 0; warp * 32 < block.threads; ++warp) {
    const uint32_t there = barrier.lanes[static_cast<size_t>(warp)];
    if (there != 0 && there != lanes_of_warp(block.first[warp * 32])) {
      fail(Fault::kDivergence,
           concatenate(operation, " ", id, " completes without lane ", std::countr_one(there),
                       " of warp ", warp, ", of which other lanes have arrived"));
    }
  }
  barrier.expected = 0;
  --block.open_barriers;
  barrier.arrived = 0;
  barrier.lanes.fill(0);
  count(Count::kBarriers);
  const Clock clock = barrier.arrivals.take();
  const Fenced flags = std::exchange(barrier.flags, {});
  const auto see = [&](Thread& waiting) {
    waiting.clock = clock;
    if (!flags.empty()) waiting.ordering().flags.join(flags);
  };
  for (Thread* waiting : barrier.waiting) see(*waiting);
  if (last != nullptr) see(*last);
  Scheduler::release(*block.group, barrier.waiting);
  return true;
}

// Counts the caller in, who waits where he must.
void arrive(int id, int threads, bool waits) {
  const char* const operation = waits ? "barrier.sync" : "barrier.arrive";
  Thread& me = self();
  Block& block = *me.block;
  if (id < 0 || id > 15)
    fail(Fault::kOutOfRange, concatenate(operation, ": barrier ", id, " of 16"));
  const int whole = (block.threads + 31) / 32 * 32;
  if (threads <= 0 || threads % 32 != 0 || threads > whole) {
    fail(Fault::kInvalidUse, concatenate(operation, " ", id, ": ", threads,
                                         " threads, which is not a multiple of 32 up to ", whole));
  }
  Barrier& barrier = block.barriers[static_cast<size_t>(id)];
  if (!barrier.open()) {
    barrier.expected = threads;
    ++block.open_barriers;
  } else if (barrier.expected != threads) {
    fail(Fault::kInvalidUse,
         concatenate(operation, " ", id, ": ", threads, " threads expected, but ", barrier.expected,
                     " by those who have arrived"));
  }
  check_aligned(operation);
  uint32_t& lanes = barrier.lanes[static_cast<size_t>(me.warp())];
  const uint32_t lane = 1u << me.lane();
  if ((lanes & lane) != 0) {
    fail(Fault::kInvalidUse,
         concatenate(operation, " ", id, ": the thread arrives a second time, ", barrier.arrived,
                     " of ", threads, " threads have arrived"));
  }
  lanes |= lane;
  release_to(barrier.arrivals);
  if (me.order) barrier.flags.join(me.order->flags);
  if (lanes == lanes_of_warp(me)) {
    barrier.arrived += 32;
    if (complete_if_due(block, barrier, id, operation, waits ? &me : nullptr)) return;
  }
  if (!waits) return;
  barrier.waiting.push_back(&me);
  suspend(me, name_of_sync(id));
}

}  // namespace

void barrier_sync(int id, int threads) {
  profile_barrier("barrier.sync", id, threads);
  const TracedWait traced({.operation = "barrier.sync", .number = id});
  arrive(id, threads, true);
}

void barrier_arrive(int id, int threads) {
  trace_barrier_arrival(id, "barrier.arrive");
  arrive(id, threads, false);
}

void leave_barriers(Block& block) {
  if (block.open_barriers == 0) return;
  for (int id = 0; id < 16; ++id) {
    Barrier& barrier = block.barriers[static_cast<size_t>(id)];
    if (barrier.open()) complete_if_due(block, barrier, id, "barrier.sync", nullptr);
  }
}

void barrier_block() { barrier_sync(0, (self().block->threads + 31) / 32 * 32); }

void barrier_cluster_arrive(bool release) {
  constexpr const char* kOperation = "barrier.cluster.arrive";
  trace_barrier_arrival(-1, kOperation);
  Thread& me = self();
  int nothing = 0;  // .aligned: the warp's lanes together
  check_aligned(kOperation);
  converge_warp(lanes_of_warp(me), kOperation, nothing, [](auto) {});
  if (me.cluster_arrived) {
    fail(Fault::kInvalidUse, concatenate(kOperation, " twice without barrier.cluster.wait"));
  }
  Group& group = *me.block->group;
  ClusterBarrier& cluster = group.cluster_of(me);
  me.cluster_arrived = true;
  me.cluster_generation = cluster.generation;
  if (release) release_to(cluster.arrived);
  if (me.order) {
    if (!release) cluster.arrived.add(me.order->flags.released);
    cluster.inits_arrived.add(me.order->inits);
  }
  if (--cluster.missing > 0) return;
  cluster.complete();
  count(Count::kBarriers);
  Scheduler::release(group, cluster.waiting);
}

void barrier_cluster_wait() {
  constexpr const char* kOperation = "barrier.cluster.wait";
  const TracedWait traced({.operation = kOperation});
  Thread& me = self();
  if (!me.cluster_arrived) {
    fail(Fault::kInvalidUse, concatenate(kOperation, " without barrier.cluster.arrive"));
  }
  ClusterBarrier& cluster = me.block->group->cluster_of(me);
  if (cluster.generation == me.cluster_generation) {
    cluster.waiting.push_back(&me);
    suspend(me, kOperation);
  }
  acquire_from(cluster.clock);
  if (!cluster.inits.empty()) me.ordering().inits.join(cluster.inits);
  me.cluster_arrived = false;
}

void griddepcontrol_wait() { self().may_touch_global = true; }

void setmaxnreg(int registers, bool increases) {
  const char* const operation = increases ? "setmaxnreg.inc" : "setmaxnreg.dec";
  constexpr int kThreads = 128;
  Thread& me = self();
  const TracedWait traced({.operation = operation});
  check_aligned(operation);
  check_warpgroup(operation);
  Block& block = *me.block;
  if (!uses(Detector::kBudgets)) return;
  RegisterBudget& budget = block.registers[static_cast<size_t>(me.index / kThreads)];
  if (budget.wanted != registers) {  // the first of the warpgroup
    if (increases ? registers < budget.now : registers > budget.now) {
      fail(Fault::kInvalidUse,
           concatenate(operation, " to ", registers, " registers: the warpgroup's threads have ",
                       budget.now));
    }
    budget.wanted = registers;
  }
  class Granted final : public Condition {
   public:
    Granted(Block& block, RegisterBudget& budget) : block_(block), budget_(budget) {}
    bool holds() override {
      const int more = (budget_.wanted - budget_.now) * kThreads;
      if (more > block_.free_registers) return false;
      block_.free_registers -= more;
      budget_.now = budget_.wanted;
      return true;
    }
    std::string describe() const override {
      return concatenate("from ", budget_.now, " to ", budget_.wanted, " registers a thread takes ",
                         (budget_.wanted - budget_.now) * kThreads, ", the block has ",
                         block_.free_registers, " that no warp holds");
    }

   private:
    Block& block_;
    RegisterBudget& budget_;
  } granted(block, budget);
  wait_until(operation, static_cast<Condition&>(granted));
}

void barrier_grid(uint32_t* counter) {
  constexpr uint32_t kTop = 0x80000000u;
  Thread& me = self();
  Group& group = *me.block->group;
  if (!group.shape.cooperative) {
    fail(Fault::kInvalidUse, "grid barrier in a launch that is not cooperative");
  }
  if ((*counter & ~kTop) != 0) {
    fail(Fault::kInvalidUse,
         concatenate("grid barrier: its counter is ", *counter,
                     ": it was not zero before its first use, or something else "
                     "has written it"));
  }
  profile_barrier("grid barrier", 0, me.block->threads);
  const TracedWait traced({.operation = "grid barrier"});
  group.grid_waiting.push_back(&me);
  if (group.grid_waiting.size() < group.threads.size()) {
    suspend(me, "grid barrier");
    return;
  }
  *counter ^= kTop;
  group.grid_waiting.pop_back();
  std::vector<Thread*> all{&me};
  count(Count::kBarriers);
  for (Thread* waiting : group.grid_waiting) all.push_back(waiting);
  synchronize(all);
  Scheduler::release(group, group.grid_waiting);
}

// ---- Launch ------------------------------------------------------------------------------------

namespace {

// The host threads that help with launches, for the life of the process. A launch offers its work
// and does it itself; helpers join while there is some. So a launch never waits for a helper that
// does not come, as in a forked process, which has none.
class Workers {
 public:
  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    if (getpid() == process_) return;
    for (std::jthread& thread : threads_) thread.detach();  // they stayed in the parent process
  }

  // Calls work() here and on up to `helpers` other threads; returns when all calls have. While it
  // waits for those it calls idle().
  void run(int helpers, FunctionRef<void()> work, FunctionRef<void()> idle) {
    std::unique_lock lock(mutex_);
    if (helpers <= 0 || work_ != nullptr) {  // another host thread's launch has the helpers
      lock.unlock();
      work();
      return;
    }
    while (static_cast<int>(threads_.size()) < helpers) {
      threads_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
    }
    work_ = &work;
    wanted_ = helpers;
    lock.unlock();
    offered_.notify_all();
    work();
    lock.lock();
    work_ = nullptr;
    wanted_ = 0;
    while (!done_.wait_for(lock, runtime::kBetweenQuestions, [this] { return active_ == 0; })) {
      lock.unlock();
      idle();
      lock.lock();
    }
  }

  static Workers& instance() {
    static Workers workers;
    return workers;
  }

 private:
  void serve(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (offered_.wait(lock, stop, [this] { return wanted_ > 0; })) {
      --wanted_;
      ++active_;
      const FunctionRef<void()> work = *work_;
      lock.unlock();
      work();
      lock.lock();
      --active_;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any offered_;
  std::condition_variable done_;
  const FunctionRef<void()>* work_ = nullptr;
  int wanted_ = 0;
  int active_ = 0;
  pid_t process_ = getpid();
  std::vector<std::jthread> threads_;  // last, so that they end before what they use
};

// All blocks of a cooperative launch run at once: on an H200, which has so many multiprocessors.
void require_residency(const LaunchShape& shape) {
  constexpr int64_t kMultiprocessors = 132;
  const int threads = (shape.threads + 31) / 32 * 32;
  const auto by_shared = static_cast<int>(Multiprocessor::kSharedBytes /
                                          (shape.shared_bytes + Multiprocessor::kSharedReserved));
  const int blocks =
      std::min({Multiprocessor::kBlocks, Multiprocessor::kThreads / threads, by_shared});
  if (shape.blocks <= blocks * kMultiprocessors) return;
  ErrorContext context;
  context.launch = to_string(shape);
  throw FaultError(Fault::kInvalidUse, 0, 0,
                   concatenate(to_string(Fault::kInvalidUse), ": a cooperative launch of ",
                               shape.blocks, " blocks, where a GPU of ", kMultiprocessors,
                               " multiprocessors holds ", blocks, " each at once"),
                   context);
}

// Which group begins as the i-th. Blocks begin in the order of their index, as far as more than fit
// a GPU at once are concerned: kernels may wait for lower ones.
int64_t place_in_order(int64_t i, int64_t groups, const Options& chosen) {
  constexpr int64_t kWindow = 16;
  const int64_t first = i / kWindow * kWindow;
  const int64_t size = std::min(kWindow, groups - first);
  if (chosen.order == Order::kReverse) return first + size - 1 - (i - first);
  if (chosen.order == Order::kRandom) {
    // Steps of an odd number visit 16 places once each; a shorter window is rotated.
    const uint64_t mix =
        (chosen.seed + static_cast<uint64_t>(first) + 1) * 0x9E3779B97F4A7C15u >> 32;
    const auto step = static_cast<int64_t>(size == kWindow ? mix % 16 | 1 : 1);
    return first + ((i - first) * step + static_cast<int64_t>(mix >> 8 & 0xFF)) % size;
  }
  return i;
}

std::unique_ptr<Group> make_group(const LaunchShape& shape, FunctionRef<void(std::byte*)> body,
                                  int64_t first, int64_t blocks, Launch& launch) {
  auto made = std::make_unique<Group>(shape, body, static_cast<size_t>(blocks), launch);
  Group& group = *made;
  group.random.seed(group.options.seed + static_cast<uint64_t>(first));
  group.threads.resize(static_cast<size_t>(blocks * shape.threads));
  group.clusters.resize(static_cast<size_t>(blocks / shape.cluster));
  for (ClusterBarrier& cluster : group.clusters) {
    cluster.live = cluster.missing = shape.cluster * shape.threads;
  }
  const int registers =
      shape.registers != 0 ? shape.registers : Multiprocessor::registers_of_thread(shape.threads);
  for (int64_t b = 0; b < blocks; ++b) {
    Block& block = group.blocks[static_cast<size_t>(b)];
    block.group = &group;
    block.index = first + b;
    block.cluster_rank = static_cast<int>(block.index % shape.cluster);
    block.threads = shape.threads;
    block.first = &group.threads[static_cast<size_t>(b * shape.threads)];
    block.warps.resize(static_cast<size_t>((shape.threads + 31) / 32));
    block.aligned.resize(block.warps.size());
    block.registers.assign(static_cast<size_t>(shape.threads / 128), {registers, registers});
    block.warpgroups.resize(static_cast<size_t>(shape.threads / 128));
    block.streams.fill(group.first_epoch);
    group.shared.give(block, static_cast<size_t>(b));
    for (int t = 0; t < shape.threads; ++t) {
      block.first[t].block = &block;
      block.first[t].index = t;
      block.first[t].epoch = group.first_epoch;
      block.first[t].may_touch_global = !shape.overlaps;
    }
  }
  count(Count::kBlocks, static_cast<uint64_t>(blocks));
  count(Count::kThreads, static_cast<uint64_t>(blocks * shape.threads));
  return made;
}

}  // namespace

void launch(const LaunchShape& shape, FunctionRef<void(std::byte*)> body) {
  if (running()) throw Error("a kernel may not launch a kernel in the emulator");
  if (runtime::asking)
    throw Error("a handler of a signal may not run a kernel while its thread runs one");
  require(shape.blocks >= 1 && shape.threads >= 1 && shape.threads <= 1024,
          "launch: blocks=", shape.blocks, " threads=", shape.threads, " is outside CUDA's limits");
  require(shape.cluster >= 1 && shape.cluster <= 16 && shape.blocks % shape.cluster == 0,
          "launch: a grid of ", shape.blocks, " blocks cannot form clusters of ", shape.cluster);
  require(shape.shared_bytes <= Multiprocessor::kSharedBytesOfBlock, "launch: ", shape.shared_bytes,
          " bytes of shared memory, ", Multiprocessor::kSharedBytesOfBlock,
          " is the most a block can have");
  const Options chosen = options();
  if (shape.cooperative && chosen.uses(Detector::kBudgets)) require_residency(shape);
  const int64_t blocks = shape.cooperative ? shape.blocks : shape.cluster;
  const int64_t groups = shape.blocks / blocks;
  const auto cores = static_cast<int64_t>(
      chosen.workers > 0 ? chosen.workers : std::max(1u, std::thread::hardware_concurrency()));
  std::exception_ptr failure;
  count(Count::kLaunches);
  trace_launch(shape);
  const GlobalMemoryOfLaunch global = global_memory_of_launch(chosen);
  Launch state{.options = chosen, .memory = *global};
  std::atomic<int64_t> next{0};
  const auto next_group = [&]() -> std::unique_ptr<Group> {
    const int64_t i = next++;
    if (i >= groups || state.failed) return nullptr;
    return make_group(shape, body, place_in_order(i, groups, chosen) * blocks, blocks, state);
  };
  const auto guarded = [&](auto&& body) {
    try {
      body();
    } catch (...) {
      if (!state.failed.exchange(true)) failure = std::current_exception();
    }
  };
  const auto work = [&] {
    load_windows.fill({});
    ++state.busy;
    guarded([&] {
      while (auto group = next_group()) {
        Scheduler::of_this_host_thread().run(std::move(group), next_group);
      }
    });
    --state.busy;
    load_windows.fill({});
    collect_counts();
  };
  // A helper's start costs as much as some hundred threads that do little.
  constexpr int64_t kThreadsWorthAHelper = 512;
  const int64_t useful = shape.blocks * shape.threads / kThreadsWorthAHelper;
  const auto idle = [&] {
    if (state.failed) return;
    guarded([] { Scheduler::of_this_host_thread().ask_for_interruption(); });
  };
  Workers::instance().run(static_cast<int>(std::min({cores - 1, groups - 1, useful})), work, idle);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ws::emulator
