#include "emulator/scheduler.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

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
    group_->body(thread.block->shared);
    thread_ended(thread);
  } catch (const Cancelled&) {  // another thread's failure is the one to tell
  } catch (...) {
    if (!group_->failure) group_->failure = std::current_exception();
    group_->cancelled = true;
  }
  current_thread = nullptr;
  thread.finished = true;
  ++group_->finished;
}

void Scheduler::thread_ended(Thread& thread) {
  Block& block = *thread.block;
  if (thread.async) finish_copies(thread);
  if (++block.exited == block.threads && block.async) finish_copies(block);
  ClusterBarrier& cluster = group_->cluster_of(thread);
  --cluster.live;
  const bool counted = thread.cluster_arrived && thread.cluster_generation == cluster.generation;
  if (!counted && --cluster.missing == 0 && !cluster.waiting.empty()) {
    ++cluster.generation;
    cluster.missing = cluster.live;
    release(*group_, cluster.waiting);
  }
}

// Puts any of the ready threads last; or says that conditions should be looked at before they must.
bool Scheduler::permute() {
  Group& group = *group_;
  if (!group.conditional.empty() && group.random() % 64 == 0) return false;
  std::swap(group.ready[group.random() % group.ready.size()], group.ready.back());
  return true;
}

void Scheduler::preempt(Thread& me) {
  // Not where the main stack acts for a thread, whose condition it looks at.
  if (active_ == &main_ || group_->random() % 32 != 0) return;
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

// Lets threads that yielded try again; false once they have done nothing else for too long. A store
// is progress; for other groups, which may run on other cores, a spinning one waits some seconds.
bool Scheduler::wake_yielded() {
  constexpr uint64_t kPasses = 10000;
  Group& group = *group_;
  const uint64_t stores = local_counts[static_cast<size_t>(Count::kGlobalStores)] +
                          local_counts[static_cast<size_t>(Count::kSharedStoreBytes)];
  if (std::exchange(stores_seen_, stores) != stores) idle_passes_ = 0;
  if (++idle_passes_ > kPasses) {
    const bool alone = group.blocks.size() == static_cast<size_t>(group.shape.blocks);
    if (alone || idle_passes_ > kPasses + 5000) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  release(group, group.yielded);
  return true;
}

void Scheduler::run(Group& group) {
  group_ = &group;
  group.scheduler = this;
  idle_passes_ = 0;
  group.ready.reserve(group.threads.size());
  for (Thread& thread : group.threads) group.ready.push_back(&thread);
  if (group.options.order == Order::kForward) std::ranges::reverse(group.ready);
  while (!group.failure) {
    if (Thread* next = pick()) switch_to(runner_of(*next));
    if (group.failure) break;
    wake_conditional();
    if (!group.ready.empty()) {
      idle_passes_ = 0;
    } else if (!group.yielded.empty()) {
      if (!wake_yielded()) group.failure = std::make_exception_ptr(stuck(group));
    } else if (group.finished == group.threads.size()) {
      break;
    } else if (!group.failure) {
      group.failure = std::make_exception_ptr(stuck(group));
    }
  }
  if (group.failure) cancel();
  count(Count::kSwitches, group.switches);
  trim(kIdleRunners);
  group_ = nullptr;
  if (group.failure) std::rethrow_exception(group.failure);
}

void Scheduler::cancel() {
  group_->cancelled = true;
  for (Thread& thread : group_->threads) {
    if (thread.runner != nullptr && !thread.finished) switch_to(*thread.runner);
  }
}

ClusterBarrier& Group::cluster_of(const Thread& thread) {
  return clusters[static_cast<size_t>((thread.block - blocks.data()) / shape.cluster)];
}

// ---- Reports -----------------------------------------------------------------------------------

FaultError make_fault(Fault fault, const Thread& thread, const std::string& message) {
  const LaunchShape& shape = thread.block->group->shape;
  ErrorContext context;
  context.launch =
      concatenate("blocks=", shape.blocks, " threads=", shape.threads, " cluster=", shape.cluster,
                  " shared=", shape.shared_bytes, shape.cooperative ? " cooperative" : "");
  context.place = concatenate("block ", thread.block->index, ", thread ", thread.index,
                              thread.waiting_for ? ", in " : "",
                              thread.waiting_for ? thread.waiting_for : "", " (emulator)");
  return {fault, thread.block->index, thread.index, concatenate(to_string(fault), ": ", message),
          context};
}

namespace {

std::string whereabouts(const Thread& thread) {
  std::string text = concatenate("block ", thread.block->index, ", thread ", thread.index);
  if (thread.finished) return text + " has exited";
  text += concatenate(" waits in ", thread.waiting_for ? thread.waiting_for : "nothing");
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
