// Fibers and the scheduler that runs them: one Scheduler per host thread, one Group at a time.
#pragma once

#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <chrono>
#include <exception>
#include <random>

#include "emulator/async.hpp"
#include "emulator/emulator.hpp"
#include "emulator/profile.hpp"
#include "emulator/shared_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define WS_ASAN 1
#else
#define WS_ASAN 0
#endif

namespace ws::emulator {

// barrier.cluster of one cluster: per thread, exited threads not counted.
struct ClusterBarrier {
  int missing = 0;  // running threads that have not arrived
  int live = 0;     // running threads
  uint64_t generation = 0;
  std::vector<Thread*> waiting;
  ClockSum arrived;        // of those who have
  ClockSum inits_arrived;  // ... and the mbarriers' initialisations that they pass on
  Clock clock;             // of all, when the last generation was complete
  Clock inits;

  void complete() {
    ++generation;
    missing = live;
    clock = arrived.take();
    inits = inits_arrived.take();
  }
};

class Scheduler;
class GlobalMemory;

// What the groups of a launch share.
struct Launch {
  const Options& options;
  GlobalMemory& memory;
  std::atomic<bool> failed = false;
  std::atomic<int> busy = 0;  // host threads that do not just wait for others
};

// Blocks that may wait for each other: a cluster, or all blocks of a cooperative grid.
struct Group {
  Group(const LaunchShape& shape, FunctionRef<void(std::byte*)> body, size_t blocks, Launch& launch)
      : shape(shape),
        body(body),
        options(launch.options),
        launch(launch),
        loads_by_windows(!shape.overlaps && !profiling),
        blocks(blocks),
        shared(blocks, shape.shared_bytes, options.uses(Detector::kSharedRaces)),
        first_epoch(shared.first_epoch()) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  const LaunchShape& shape;
  FunctionRef<void(std::byte*)> body;
  const Options& options;
  Launch& launch;
  const bool loads_by_windows;  // most loads need no look at each (global_memory.hpp)
  std::vector<Block> blocks;
  SharedMemory shared;
  const uint32_t first_epoch;  // older ones are another group's
  std::vector<Thread> threads;
  std::vector<ClusterBarrier> clusters;
  int grid_arrived = 0;
  std::vector<Thread*> grid_waiting;

  std::vector<Thread*> ready;        // the last one runs next
  std::vector<Thread*> conditional;  // wait for a Condition
  std::vector<Thread*> yielded;      // run when nobody else can
  size_t finished = 0;
  std::mt19937_64 random;
  uint64_t switches = 0;
  uint64_t idle_passes = 0;  // in which threads did nothing but yield
  uint64_t progress_seen = 0;
  std::exception_ptr failure;
  bool cancelled = false;  // after a failure: threads that wait are unwound
  Scheduler* scheduler = nullptr;

  ClusterBarrier& cluster_of(const Thread& thread);
};

// A stack with the fiber on it, which runs one CUDA thread after another: threads that never wait
// cost no switch at all.
struct Runner {
  boost::context::fiber context;  // where it goes on, while another one runs
  Thread* assigned = nullptr;
  bool quit = false;
  // For ASan, which must be told of every change of stacks.
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
};

// Unwinds a waiting thread after another one has failed.
struct Cancelled {};

class Scheduler {
 public:
  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() { trim(0); }

  // Runs the group's threads to their end; throws the first failure. While they only wait for what
  // they do not bring about themselves, the next groups begin, as on a GPU more blocks are
  // resident.
  void run(std::unique_ptr<Group> first, FunctionRef<std::unique_ptr<Group>()> next_group);

  // Called by the running thread, which has put itself where it will be found again: others run.
  void suspend(Thread& me);

  // Now and then: others run although the thread could go on.
  void preempt(Thread& me);

  // The same thread goes on; a loop that never waits, and may never end, can be interrupted all the
  // same.
  void count_access(Thread& me) {
    if (--until_pick_ <= 0) [[unlikely]]
      pick_again(me);
  }

  // Makes waiting threads ready; they will run in this order.
  static void release(Group& group, std::vector<Thread*>& waiting) {
    group.ready.insert(group.ready.end(), waiting.rbegin(), waiting.rend());
    waiting.clear();
  }

  // What the thread that waits for a launch does meanwhile, now and then: throws Interrupted where
  // that should end.
  void ask_for_interruption();

  static Scheduler& of_this_host_thread();

 private:
  Thread* pick();
  bool should_look(const Launch& launch);
  void look(Group& group);
  void pick_again(Thread& me);
  bool permute();
  Runner& runner_of(Thread& thread) {
    return thread.runner != nullptr ? *thread.runner : new_runner_of(thread);
  }
  Runner& new_runner_of(Thread& thread);
  void switch_to(Runner& target);
  void arrived(boost::context::fiber from, Runner& here);
  void loop(Runner& me);
  void execute(Thread& thread);
  void thread_ended(Thread& thread);
  enum class Step { kDone, kFailed, kWaits };
  Step step(Group& group);
  bool stuck_for_ever(std::span<const std::unique_ptr<Group>> groups);
  void wake_conditional();
  void cancel(Group& group);
  void trim(size_t keep);

  Group* group_ = nullptr;
  Runner main_;  // the host thread's own stack
  Runner* active_ = &main_;
  Runner* previous_ = nullptr;  // who switched to the active one
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<Runner*> idle_;
  int until_preemption_ = 1;  // accesses
  bool waits_ = false;        // for other host threads
  int until_look_ = 0;        // picks until the clock is asked
  int until_pick_ = 0;        // accesses until there is a pick for that
  bool looks_ = false;        // the main stack should
  std::chrono::steady_clock::time_point asked_;
};

// What a switch goes through is inlined into the few functions that wait: a processor predicts
// returns by the calls that it has seen on the stack before, so every return after a switch costs
// some 20 cycles.

// The next thread to run, or null where the main stack should see to conditions, yields and
// failures.
[[gnu::always_inline]] inline Thread* Scheduler::pick() {
  Group& group = *group_;
  if (group.ready.empty() || group.cancelled) return nullptr;
  if (--until_look_ <= 0 && should_look(group.launch)) [[unlikely]]
    return nullptr;
  if (group.options.order == Order::kRandom && !permute()) return nullptr;
  Thread* next = group.ready.back();
  group.ready.pop_back();
  return next;
}

[[gnu::always_inline]] inline void Scheduler::switch_to(Runner& target) {
  Runner& here = *active_;
  previous_ = &here;
  active_ = &target;
#if WS_ASAN
  __sanitizer_start_switch_fiber(&here.fake_stack, target.bottom, target.size);
#endif
  arrived(std::move(target.context).resume(), here);
}

// The first thing on the new stack: `from` is where the previous runner stopped.
[[gnu::always_inline]] inline void Scheduler::arrived(boost::context::fiber from,
                                                      [[maybe_unused]] Runner& here) {
#if WS_ASAN
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(here.fake_stack, &bottom, &size);
  if (previous_ == &main_) {
    main_.bottom = bottom;
    main_.size = size;
  }
#endif
  previous_->context = std::move(from);
}

[[gnu::always_inline]] inline void Scheduler::suspend(Thread& me) {
  Thread* next = pick();
  if (next != &me) {
    switch_to(next != nullptr ? runner_of(*next) : main_);
    current_thread = &me;
    ++group_->switches;
  }
  if (group_->cancelled) [[unlikely]]
    throw Cancelled{};
}

// Where ordinary accesses happen, threads may change places in random order: between a load and a
// store that belong together, say, which a barrier should have protected.
inline void maybe_preempt() {
  Thread& me = self();
  Group& group = *me.block->group;
  if (group.options.order == Order::kRandom) {
    group.scheduler->preempt(me);
  } else {
    group.scheduler->count_access(me);
  }
}

// A thread has exited: barriers that wait for it no longer do.
void leave_barriers(Block& block);

std::string to_string(const LaunchShape& shape);  // "blocks=8 threads=128 ...", for reports
// The error for a group in which no thread can go on.
FaultError stuck(Group& group);
FaultError make_fault(Fault fault, const Thread& thread, const std::string& message);

}  // namespace ws::emulator
