#include "emulator/scheduler.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "emulator/profile.hpp"
#include "emulator/trace.hpp"
#include "emulator/wgmma.hpp"
#include "warpsmith/interrupt.hpp"

namespace ws::emulator {
namespace {

namespace context = boost::context;

constexpr size_t kStackBytes = WS_ASAN ? 512 * 1024 : 128 * 1024;
constexpr size_t kIdleRunners = 16384;  // kept between launches

// Stacks of pages that are touched on first use, with a page below that nobody may touch: a kernel
// that overflows its stack stops there, in the debugger, and not in another thread's variables.
class StackAllocator {
 public:
  context::stack_context allocate() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
      throw Error(
          concatenate("the emulator has no memory for another stack: ", std::strerror(errno)));
    }
    // Where the system has no more mappings to give (very large cooperative grids) stacks go
    // without.
    mprotect(memory, page, PROT_NONE);
#if WS_ASAN
    // Where an unmapped stack lay, the shadow of its frames still stands.
    __asan_unpoison_memory_region(memory, kStackBytes + page);
#endif
    context::stack_context stack;
    stack.size = kStackBytes + page;
    stack.sp = static_cast<std::byte*>(memory) + stack.size;
    return stack;
  }
  void deallocate(context::stack_context& stack) {
    munmap(static_cast<std::byte*>(stack.sp) - stack.size, stack.size);
  }
};

}  // namespace

constinit thread_local Thread* current_thread = nullptr;
constinit FaultHandler fault_handler = nullptr;

Scheduler& Scheduler::of_this_host_thread() {
  thread_local Scheduler instance;
  return instance;
}

// ---- Changing stacks ---------------------------------------------------------------------------

Runner& Scheduler::new_runner_of(Thread& thread) {
  if (idle_.empty()) {
    Runner* runner = runners_.emplace_back(std::make_unique<Runner>()).get();
    StackAllocator allocator;
    const context::stack_context stack = allocator.allocate();
    // Stacks begin at different cache lines of their pages: their tops, which every switch touches,
    // would else all compete for the same few sets of the cache.
    const size_t offset = runners_.size() * 17 % 64 * 64;
    runner->size = kStackBytes - offset;
    runner->bottom = static_cast<std::byte*>(stack.sp) - kStackBytes;
    void* top = static_cast<std::byte*>(stack.sp) - offset;
    runner->context =
        context::fiber(std::allocator_arg, context::preallocated(top, stack.size - offset, stack),
                       allocator, [this, runner](context::fiber from) {
                         arrived(std::move(from), *runner);
                         loop(*runner);
                         previous_ = runner;
                         active_ = &main_;
#if WS_ASAN
                         __sanitizer_start_switch_fiber(nullptr, main_.bottom, main_.size);
#endif
                         return std::move(main_.context);
                       });
    idle_.push_back(runner);
  }
  Runner& runner = *idle_.back();
  idle_.pop_back();
  runner.assigned = &thread;
  thread.runner = &runner;
  return runner;
}

// What a runner does for its life: its CUDA thread, then the next one that has not begun, until the
// next one to run already has a stack of its own.
void Scheduler::loop(Runner& me) {
  for (;;) {
    if (me.assigned != nullptr) {
      execute(*me.assigned);
      me.assigned->runner = nullptr;
      me.assigned = nullptr;
    }
    if (me.quit) return;
    Thread* next = pick();
    if (next != nullptr && next->runner == nullptr) {
      me.assigned = next;
      next->runner = &me;
      continue;
    }
    idle_.push_back(&me);
    switch_to(next != nullptr ? *next->runner : main_);
  }
}

void Scheduler::trim(size_t keep) {
  if (idle_.size() <= keep) return;
  while (idle_.size() > keep) {
    Runner* runner = idle_.back();
    idle_.pop_back();
    runner->quit = true;
    switch_to(*runner);
  }
  std::erase_if(runners_, [](const auto& runner) { return runner->quit; });
}

// ---- Running threads ---------------------------------------------------------------------------

void Scheduler::execute(Thread& thread) {
  current_thread = &thread;
  thread.block->started = true;
  ++group_->switches;
  try {
    const TracedThread traced;
    group_->body(thread.block->shared);
    thread_ended(thread);
  } catch (const Cancelled&) {  // another thread's failure is the one to tell
  } catch (...) {
    if (!group_->failure) group_->failure = std::current_exception();
    group_->cancelled = true;
  }
  thread.finished = true;
  ++group_->finished;
  if (!group_->cancelled) {
    try {
      leave_barriers(*thread.block);
    } catch (...) {
      group_->failure = std::current_exception();
      group_->cancelled = true;
    }
  }
  current_thread = nullptr;
}

void Scheduler::thread_ended(Thread& thread) {
  Block& block = *thread.block;
  if (thread.async) finish_copies(thread);
  const bool multiplies = block.async && block.async->wgmma;
  if (multiplies) finish_products(thread);
  if (++block.exited == block.threads && block.async) {
    finish_copies(block);
    if (multiplies) finish_products(block);
  }
  ClusterBarrier& cluster = group_->cluster_of(thread);
  --cluster.live;
  if (group_->shape.cluster > 1) release_to(cluster.arrived);  // who has exited counts as arrived
  const bool counted = thread.cluster_arrived && thread.cluster_generation == cluster.generation;
  if (!counted && --cluster.missing == 0 && !cluster.waiting.empty()) {
    cluster.complete();
    release(*group_, cluster.waiting);
  }
}

// Puts any of the ready threads last; or says that conditions should be looked at before they must.
bool Scheduler::permute() {
  Group& group = *group_;
  if (!group.conditional.empty() && group.random() % (8 + group.conditional.size() / 4) == 0)
    return false;
  std::swap(group.ready[group.random() % group.ready.size()], group.ready.back());
  return true;
}

void Scheduler::preempt(Thread& me) {
  // Not where the main stack acts for a thread, whose condition it looks at.
  constexpr uint64_t kMostBetween = 16;
  if (active_ == &main_ || --until_preemption_ > 0) return;
  until_preemption_ = 1 + static_cast<int>(group_->random() % kMostBetween);
  group_->ready.push_back(&me);
  suspend(me);
}

void Scheduler::wake_conditional() {
  Group& group = *group_;
  std::vector<Thread*> woken;
  std::erase_if(group.conditional, [&](Thread* thread) {
    if (group.failure) return false;
    current_thread = thread;  // a condition sees the world as its thread does
    bool holds = false;
    try {
      holds = thread->until->holds();
    } catch (...) {
      group.failure = std::current_exception();
    }
    current_thread = nullptr;
    if (holds) woken.push_back(thread);
    return holds;
  });
  release(group, woken);
}

// Whether it is time for the main stack to look at what goes on outside of the group: Python's
// signal handlers, which may be called there, find little room on a fiber's stack.
bool Scheduler::should_look(const Launch& launch) {
  constexpr int kPicks = 32;
  until_look_ = kPicks;
  looks_ =
      launch.failed || (runtime::interruption != nullptr &&
                        std::chrono::steady_clock::now() - asked_ > runtime::kBetweenQuestions);
  return looks_;
}

void Scheduler::pick_again(Thread& me) {
  constexpr int kAccesses = 1 << 16;
  until_pick_ = kAccesses;
  if (active_ == &main_) return;  // which acts for a thread, whose condition it looks at
  until_look_ = 0;
  group_->ready.push_back(&me);
  suspend(me);
}

void Scheduler::look(Group& group) {
  looks_ = false;
  try {
    if (group.launch.failed) throw Cancelled{};  // the launch tells the first failure
    ask_for_interruption();
  } catch (...) {
    group.failure = std::current_exception();
  }
}

void Scheduler::ask_for_interruption() {
  if (runtime::interruption == nullptr) return;
  struct Asking {
    Asking() { runtime::asking = true; }
    ~Asking() { runtime::asking = false; }
  };
  const Asking scope;
  runtime::interruption();
  asked_ = std::chrono::steady_clock::now();
}

// Runs the group's threads until all have ended, or nobody can go on but by what others do.
Scheduler::Step Scheduler::step(Group& group) {
  group_ = &group;
  release(group, group.yielded);  // since the last step
  for (;;) {
    if (Thread* next = pick()) switch_to(runner_of(*next));
    if (looks_) {
      look(group);
      if (!group.failure) continue;
    }
    if (group.failure) return Step::kFailed;
    wake_conditional();
    if (group.failure) return Step::kFailed;
    if (!group.ready.empty()) {
      group.idle_passes = 0;
    } else if (!group.yielded.empty()) {
      // A store is progress.
      const uint64_t now = progress + local_counts[static_cast<size_t>(Count::kGlobalStores)] +
                           local_counts[static_cast<size_t>(Count::kSharedStoreBytes)];
      if (std::exchange(group.progress_seen, now) != now) group.idle_passes = 0;
      ++group.idle_passes;
      return Step::kWaits;
    } else if (group.finished == group.threads.size()) {
      return Step::kDone;
    } else {
      group.failure = std::make_exception_ptr(stuck(group));
      return Step::kFailed;
    }
  }
}

// Whether no group of this host thread has done anything but yield for too long, and those of other
// host threads have neither, or not for some seconds.
bool Scheduler::stuck_for_ever(std::span<const std::unique_ptr<Group>> groups) {
  constexpr uint64_t kPasses = 10000;
  constexpr uint64_t kMilliseconds = 20;
  constexpr uint64_t kMillisecondsOfOthers = 5000;
  std::atomic<int>& busy = groups.front()->launch.busy;
  const uint64_t least = (*std::ranges::min_element(groups, {}, &Group::idle_passes))->idle_passes;
  const bool idle = least > kPasses;
  if (idle != waits_) {
    busy += idle ? -1 : 1;
    waits_ = idle;
  }
  if (!idle) return false;
  if (groups.front()->blocks.size() == static_cast<size_t>(groups.front()->shape.blocks))
    return true;
  if (least > kPasses + (busy <= 0 ? kMilliseconds : kMillisecondsOfOthers)) return true;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return false;
}

void Scheduler::run(std::unique_ptr<Group> first,
                    FunctionRef<std::unique_ptr<Group>()> next_group) {
  constexpr uint64_t kPassesAlone = 64;
  constexpr size_t kMostGroups = 512;
  const auto begin = [this](Group& group) {
    group.scheduler = this;
    group.ready.reserve(group.threads.size());
    for (Thread& thread : group.threads) group.ready.push_back(&thread);
    if (group.options.order == Order::kForward) std::ranges::reverse(group.ready);
  };
  until_preemption_ = 1;
  Launch& launch = first->launch;
  std::vector<std::unique_ptr<Group>> groups;
  groups.push_back(std::move(first));
  begin(*groups.front());
  std::exception_ptr failure;
  for (size_t at = 0; !groups.empty() && !failure;) {
    Group& group = *groups[at];
    switch (step(group)) {
      case Step::kFailed: failure = group.failure; break;
      case Step::kDone:
        count(Count::kSwitches, group.switches);
        end_profile_of_group(group.blocks);
        groups.erase(groups.begin() + static_cast<ptrdiff_t>(at));
        break;
      case Step::kWaits:
        if (group.idle_passes % kPassesAlone == 0 && groups.size() < kMostGroups) {
          if (auto another = next_group()) {
            begin(*another);
            groups.push_back(std::move(another));
          }
        }
        if (launch.failed) {
          failure = std::make_exception_ptr(Cancelled{});  // the launch tells the first one
        } else if (stuck_for_ever(groups)) {
          failure = std::make_exception_ptr(stuck(group));
        }
        ++at;
        break;
    }
    if (at >= groups.size()) at = 0;
  }
  if (failure) {
    for (const auto& group : groups) cancel(*group);
  }
  groups.clear();
  trim(kIdleRunners);
  group_ = nullptr;
  if (std::exchange(waits_, false)) ++launch.busy;
  if (failure) std::rethrow_exception(failure);
}

void Scheduler::cancel(Group& group) {
  group_ = &group;
  group.cancelled = true;
  for (Thread& thread : group.threads) {
    if (thread.runner != nullptr && !thread.finished) switch_to(*thread.runner);
  }
}

Group::~Group() {
  for (const Thread& thread : threads) shared.end_epoch(thread.epoch);
  for (const Block& block : blocks) {
    for (const uint32_t epoch : block.streams) shared.end_epoch(epoch);
  }
}

ClusterBarrier& Group::cluster_of(const Thread& thread) {
  return clusters[static_cast<size_t>((thread.block - blocks.data()) / shape.cluster)];
}

// ---- Reports -----------------------------------------------------------------------------------

std::string to_string(const Place& place) {
  return concatenate(source_path(place.file_name()), ":", place.line());
}

std::string to_string(const LaunchShape& shape) {
  return concatenate("blocks=", shape.blocks, " threads=", shape.threads,
                     " cluster=", shape.cluster, " shared=", shape.shared_bytes,
                     shape.cooperative ? " cooperative" : "");
}

FaultError make_fault(Fault fault, const Thread& thread, const std::string& message) {
  const LaunchShape& shape = thread.block->group->shape;
  ErrorContext context;
  context.launch = to_string(shape);
  const Options& options = thread.block->group->options;
  if (options.order != Order::kForward) {
    context.launch += concatenate(" order=", to_string(options.order));
    if (options.order == Order::kRandom) context.launch += concatenate(" seed=", options.seed);
  }
  context.place =
      concatenate(thread.place.line() != 0 ? to_string(thread.place) + ", " : "", "block ",
                  thread.block->index, ", thread ", thread.index, thread.waiting_for ? ", in " : "",
                  thread.waiting_for ? thread.waiting_for : "", " (emulator)");
  FaultError made(fault, thread.block->index, thread.index,
                  concatenate(to_string(fault), ": ", message), context, thread.place);
  if (fault_handler != nullptr) fault_handler(made);
  return made;
}

namespace {

std::string whereabouts(const Thread& thread) {
  std::string text = concatenate("block ", thread.block->index, ", thread ", thread.index);
  if (thread.finished) return text + " has exited";
  text += concatenate(" waits in ", thread.waiting_for ? thread.waiting_for : "nothing");
  if (thread.place.line() != 0) text += concatenate(" at ", to_string(thread.place));
  if (thread.until != nullptr) {
    const std::string state = thread.until->describe();
    if (!state.empty()) text += concatenate(" (", state, ")");
  }
  return text;
}

// A collective that some of its threads have not reached.
struct Open {
  const char* operation;
  const Thread* first;                 // of those who wait
  std::vector<const Thread*> missing;  // empty: not known, for named barriers of some warps
  int present = 0;
};

std::vector<Open> open_collectives(const Group& group) {
  std::vector<Open> all;
  const auto missing_of = [](Open& open, const Block& block, int from, int to,
                             const std::vector<Thread*>& waiting) {
    for (int t = from; t < to; ++t) {
      const Thread* thread = block.first + t;
      const bool waits = std::ranges::find(waiting, thread) != waiting.end();
      waits ? void(++open.present) : open.missing.push_back(thread);
    }
  };
  for (const Block& block : group.blocks) {
    for (const auto& warp : block.warps) {
      for (const Meeting& m : warp) {
        if (m.arrived == 0) continue;
        Open open{m.operation, m.waiting.front(), {}};
        const int first = m.waiting.front()->warp() * 32;
        for (int lane = 0; lane < 32; ++lane) {
          if ((m.mask >> lane & 1u) != 0) {
            missing_of(open, block, first + lane, first + lane + 1, m.waiting);
          }
        }
        all.push_back(std::move(open));
      }
    }
    for (const auto& warpgroup : block.warpgroups) {
      for (const Meeting& m : warpgroup) {
        if (m.arrived == 0) continue;
        Open open{m.operation, m.waiting.front(), {}};
        const int first = m.waiting.front()->index / 128 * 128;
        missing_of(open, block, first, first + 128, m.waiting);
        all.push_back(std::move(open));
      }
    }
    for (const Barrier& barrier : block.barriers) {
      if (!barrier.open() || barrier.waiting.empty()) continue;
      Open open{barrier.waiting.front()->waiting_for, barrier.waiting.front(), {}};
      for (int warp = 0; warp * 32 < block.threads; ++warp) {
        // A warp of which some lanes have arrived, or any warp if all must come.
        const bool some = barrier.lanes[static_cast<size_t>(warp)] != 0;
        const int end = std::min(block.threads, warp * 32 + 32);
        if (some || barrier.expected >= block.threads) {
          missing_of(open, block, warp * 32, end, barrier.waiting);
        }
      }
      all.push_back(std::move(open));
    }
  }
  if (!group.grid_waiting.empty()) {
    Open open{"grid barrier", group.grid_waiting.front(), {}};
    for (const Block& block : group.blocks) {
      missing_of(open, block, 0, block.threads, group.grid_waiting);
    }
    all.push_back(std::move(open));
  }
  return all;
}

}  // namespace

FaultError stuck(Group& group) {
  // A collective that a member can never reach, because it has exited or waits in another one, is
  // divergence. Where threads wait for something else (an mbarrier, a named barrier of some warps),
  // that is what holds the rest up.
  const std::vector<Open> collectives = open_collectives(group);
  const auto divergence = [](const Open& open) {
    std::string text =
        concatenate(open.operation, ": ", open.present, " of ",
                    open.present + static_cast<int>(open.missing.size()), " threads arrived");
    for (size_t i = 0; i < std::min<size_t>(open.missing.size(), 4); ++i) {
      text += "\n    " + whereabouts(*open.missing[i]);
    }
    return make_fault(Fault::kDivergence, *open.first, text);
  };
  for (const Open& open : collectives) {
    if (std::ranges::any_of(open.missing, &Thread::finished)) return divergence(open);
  }
  if (group.conditional.empty() && group.yielded.empty()) {
    for (const Open& open : collectives) {
      if (!open.missing.empty()) return divergence(open);
    }
  }
  const Thread* first = nullptr;
  std::string text;
  int waiting = 0;
  // Those who wait for a condition first: the others wait for them.
  for (const bool conditional : {true, false}) {
    for (const Thread& thread : group.threads) {
      if (thread.finished || (thread.until != nullptr) != conditional) continue;
      if (first == nullptr) first = &thread;
      if (++waiting <= 8) text += "\n    " + whereabouts(thread);
    }
  }
  return make_fault(Fault::kDeadlock, *first, concatenate(waiting, " threads wait for ever", text));
}

}  // namespace ws::emulator
