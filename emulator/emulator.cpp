#include "emulator/emulator.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "emulator/scheduler.hpp"
#include "emulator/shared_memory.hpp"

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

namespace {

Options options_of_environment() {
  Options options;
  const char* text = std::getenv("WARPSMITH_EMULATOR");
  std::istringstream words(text != nullptr ? text : "");
  for (std::string word; words >> word;) {
    const size_t equals = std::min(word.find('='), word.size() - 1);
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    const auto number = [&] {
      char* end = nullptr;
      const uint64_t n = std::strtoull(value.c_str(), &end, 10);
      require(!value.empty() && *end == '\0', "WARPSMITH_EMULATOR: ", word, " is no number");
      return n;
    };
    if (word == "order=forward") {
      options.order = Order::kForward;
    } else if (word == "order=reverse") {
      options.order = Order::kReverse;
    } else if (word == "order=random") {
      options.order = Order::kRandom;
    } else if (key == "seed") {
      options.seed = number();
    } else if (key == "workers") {
      options.workers = static_cast<int>(number());
    } else {
      throw InvalidArgument(
          concatenate("WARPSMITH_EMULATOR: '", word,
                      "' is not order=forward|reverse|random, seed=NUMBER or workers=NUMBER"));
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
  Thread& me = self();
  me.block->group->yielded.push_back(&me);
  suspend(me, operation);
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

void check_warpgroup(const char* operation) {
  int nothing = 0;
  converge_warpgroup(operation, nothing, [](auto) {});
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

// Counts the caller in; true if that completed the barrier.
bool arrive(int id, int threads, const char* operation) {
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
  } else if (barrier.expected != threads) {
    fail(Fault::kInvalidUse,
         concatenate(operation, " ", id, ": ", threads, " threads expected, but ", barrier.expected,
                     " by those who have arrived"));
  }
  uint32_t& lanes = barrier.lanes[static_cast<size_t>(me.warp())];
  const uint32_t lane = 1u << me.lane();
  if ((lanes & lane) != 0) {
    fail(Fault::kInvalidUse,
         concatenate(operation, " ", id, ": the thread arrives a second time, ", barrier.arrived,
                     " of ", threads, " threads have arrived"));
  }
  lanes |= lane;
  if (lanes != lanes_of_warp(me)) return false;
  barrier.arrived += 32;
  if (barrier.arrived < threads) return false;
  for (int warp = 0; warp * 32 < block.threads; ++warp) {
    const uint32_t there = barrier.lanes[static_cast<size_t>(warp)];
    if (there != 0 && there != lanes_of_warp(block.first[warp * 32])) {
      fail(Fault::kDivergence,
           concatenate(operation, " ", id, " completes without lane ", std::countr_one(there),
                       " of warp ", warp, ", of which other lanes have arrived"));
    }
  }
  barrier.expected = 0;
  barrier.arrived = 0;
  barrier.lanes.fill(0);
  count(Count::kBarriers);
  Scheduler::release(*block.group, barrier.waiting);
  return true;
}

}  // namespace

void barrier_sync(int id, int threads) {
  if (arrive(id, threads, "barrier.sync")) return;
  Thread& me = self();
  me.block->barriers[static_cast<size_t>(id)].waiting.push_back(&me);
  suspend(me, name_of_sync(id));
}

void barrier_arrive(int id, int threads) { arrive(id, threads, "barrier.arrive"); }

void barrier_block() { barrier_sync(0, (self().block->threads + 31) / 32 * 32); }

void barrier_cluster_arrive() {
  constexpr const char* kOperation = "barrier.cluster.arrive";
  Thread& me = self();
  int nothing = 0;  // .aligned: the warp's lanes together
  converge_warp(lanes_of_warp(me), kOperation, nothing, [](auto) {});
  if (me.cluster_arrived) {
    fail(Fault::kInvalidUse, concatenate(kOperation, " twice without barrier.cluster.wait"));
  }
  Group& group = *me.block->group;
  ClusterBarrier& cluster = group.cluster_of(me);
  me.cluster_arrived = true;
  me.cluster_generation = cluster.generation;
  if (--cluster.missing > 0) return;
  ++cluster.generation;
  cluster.missing = cluster.live;
  count(Count::kBarriers);
  Scheduler::release(group, cluster.waiting);
}

void barrier_cluster_wait() {
  constexpr const char* kOperation = "barrier.cluster.wait";
  Thread& me = self();
  if (!me.cluster_arrived) {
    fail(Fault::kInvalidUse, concatenate(kOperation, " without barrier.cluster.arrive"));
  }
  ClusterBarrier& cluster = me.block->group->cluster_of(me);
  if (cluster.generation == me.cluster_generation) {
    cluster.waiting.push_back(&me);
    suspend(me, kOperation);
  }
  me.cluster_arrived = false;
}

void griddepcontrol_wait() { self().may_touch_global = true; }

void fail_before_wait(const char* operation) {
  fail(Fault::kInvalidUse,
       concatenate(operation,
                   " before griddepcontrol.wait: the launch overlaps the one before it, "
                   "whose writes need not be there"));
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
  group.grid_waiting.push_back(&me);
  if (group.grid_waiting.size() < group.threads.size()) {
    suspend(me, "grid barrier");
    return;
  }
  *counter ^= kTop;
  group.grid_waiting.pop_back();
  count(Count::kBarriers);
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

  // Calls work() here and on up to `helpers` other threads; returns when all calls have.
  void run(int helpers, FunctionRef<void()> work) {
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
    done_.wait(lock, [this] { return active_ == 0; });
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

void run_group(const LaunchShape& shape, FunctionRef<void(std::byte*)> body, int64_t first,
               int64_t blocks, const Options& chosen) {
  Group group(shape, body, chosen);
  group.random.seed(chosen.seed + static_cast<uint64_t>(first));
  group.blocks.resize(static_cast<size_t>(blocks));
  group.threads.resize(static_cast<size_t>(blocks * shape.threads));
  group.clusters.resize(static_cast<size_t>(blocks / shape.cluster));
  for (ClusterBarrier& cluster : group.clusters) {
    cluster.live = cluster.missing = shape.cluster * shape.threads;
  }
  SharedMemory memory(static_cast<size_t>(blocks), shape.shared_bytes);
  for (int64_t b = 0; b < blocks; ++b) {
    Block& block = group.blocks[static_cast<size_t>(b)];
    block.group = &group;
    block.index = first + b;
    block.cluster_rank = static_cast<int>(block.index % shape.cluster);
    block.threads = shape.threads;
    block.first = &group.threads[static_cast<size_t>(b * shape.threads)];
    block.warps.resize(static_cast<size_t>((shape.threads + 31) / 32));
    block.warpgroups.resize(static_cast<size_t>(shape.threads / 128));
    memory.give(block, static_cast<size_t>(b));
    for (int t = 0; t < shape.threads; ++t) {
      block.first[t].block = &block;
      block.first[t].index = t;
      block.first[t].may_touch_global = !shape.overlaps;
    }
  }
  count(Count::kBlocks, static_cast<uint64_t>(blocks));
  count(Count::kThreads, static_cast<uint64_t>(blocks * shape.threads));
  Scheduler::of_this_host_thread().run(group);
}

}  // namespace

void launch(const LaunchShape& shape, FunctionRef<void(std::byte*)> body) {
  if (running()) throw Error("a kernel may not launch a kernel in the emulator");
  require(shape.blocks >= 1 && shape.threads >= 1 && shape.threads <= 1024,
          "launch: blocks=", shape.blocks, " threads=", shape.threads, " is outside CUDA's limits");
  require(shape.cluster >= 1 && shape.cluster <= 16 && shape.blocks % shape.cluster == 0,
          "launch: a grid of ", shape.blocks, " blocks cannot form clusters of ", shape.cluster);
  require(shape.shared_bytes <= kMostShared, "launch: ", shape.shared_bytes,
          " bytes of shared memory, ", kMostShared, " is the most a block can have");
  const Options chosen = options();
  const int64_t blocks = shape.cooperative ? shape.blocks : shape.cluster;
  const int64_t groups = shape.blocks / blocks;
  const auto cores = static_cast<int64_t>(
      chosen.workers > 0 ? chosen.workers : std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  count(Count::kLaunches);
  const auto work = [&] {
    for (int64_t i = next++; i < groups && !failed; i = next++) {
      const int64_t group = chosen.order == Order::kReverse ? groups - 1 - i : i;
      try {
        run_group(shape, body, group * blocks, blocks, chosen);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
    collect_counts();
  };
  // A helper's start costs as much as some hundred threads that do little.
  constexpr int64_t kThreadsWorthAHelper = 512;
  const int64_t useful = shape.blocks * shape.threads / kThreadsWorthAHelper;
  Workers::instance().run(static_cast<int>(std::min({cores - 1, groups - 1, useful})), work);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ws::emulator
