#include "emulator/mbarrier.hpp"

#include <cstring>

#include "emulator/async.hpp"
#include "emulator/profile.hpp"
#include "emulator/scheduler.hpp"
#include "emulator/shared_memory.hpp"
#include "emulator/trace.hpp"

namespace ws::emulator {
namespace {

constexpr uint32_t kMagic = 0x6D626172;             // "mbar"
constexpr uint32_t kMostArrivals = (1u << 20) - 1;  // PTX ISA, "Mbarrier object: valid range"
constexpr int64_t kMostTx = (1 << 20) - 1;

uint64_t object_of(size_t index) { return (uint64_t{kMagic} << 32) | index; }

std::string describe(const MbarrierState& state) {
  return concatenate("mbarrier at shared byte ", state.offset, " of block ", state.block->index,
                     ": phase ", state.phase, ", ", state.pending, " of ", state.count,
                     " arrivals pending, ", state.tx, " bytes pending, ", state.transfers.size(),
                     " copies in flight");
}

// The block whose shared memory holds the object, checked.
Block& block_of(void* barrier, const char* operation) {
  check_shared(barrier, sizeof(uint64_t), sizeof(uint64_t), operation);
  const uint32_t rank = shared_address(barrier) >> kSharedRankShift;
  return rank == 0 ? *self().block : block_of_cluster(static_cast<int>(rank) - 1);
}

uint32_t offset_of(const Block& block, void* barrier) {
  return static_cast<uint32_t>(static_cast<std::byte*>(barrier) - block.shared);
}

// Whoever uses the mbarrier comes after its initialisation.
void require_initialised(const MbarrierState& state, const char* operation) {
  const Thread& me = self();
  const Thread& other = *state.initializer;
  if (&me == &other || !uses(Detector::kSharedRaces)) return;
  const auto seen_by = [&](const Clock& clock) {
    return clock.has_seen(other.block->index, actor_of_thread(other.index), state.init_epoch);
  };
  if (seen_by(me.clock) || (me.order && seen_by(me.order->inits))) return;
  fail(Fault::kRace, concatenate(operation, ": nothing orders it after the mbarrier.init by block ",
                                 other.block->index, ", thread ", other.index,
                                 " of the mbarrier at shared byte ", state.offset));
}

MbarrierState& find(void* barrier, const char* operation) {
  Block& block = block_of(barrier, operation);
  const uint32_t offset = offset_of(block, barrier);
  uint64_t object = 0;
  std::memcpy(&object, barrier, sizeof object);
  auto& all = async_of(block).mbarriers;
  const size_t index = object & 0xFFFFFFFFu;
  if (object >> 32 == kMagic && index < all.size() && all[index].valid &&
      all[index].offset == offset) {
    require_initialised(all[index], operation);
    return all[index];
  }
  const bool was_one = (block.state[offset] & kMbarrier) != 0;
  fail(Fault::kInvalidUse,
       concatenate(
           operation, ": the mbarrier at shared byte ", offset, " of block ", block.index,
           was_one ? " has been overwritten" : " has not been initialised by mbarrier.init"));
}

// Others than the block's own ordinary instructions need the initialisation passed on.
void require_fenced(const MbarrierState& state, const char* operation) {
  if (state.initializer->init_fences != state.fences) return;
  fail(Fault::kInvalidUse,
       concatenate(operation, ": the mbarrier at shared byte ", state.offset, " of block ",
                   state.block->index, " was initialised by thread ", state.initializer->index,
                   " without fence.mbarrier_init or fence.proxy.async after it"));
}

void complete_if_due(MbarrierState& state) {
  if (state.pending > 0 || state.tx != 0) return;
  trace_phase(*state.block, state.offset, state.phase);
  state.arrived.sum().see(state.block->index, state.stream, state.block->streams[state.stream]++);
  state.clock.join(state.arrived.take());
  ++state.phase;
  state.pending = state.count;
}

void add_tx(MbarrierState& state, int64_t bytes, const char* operation) {
  state.tx += bytes;
  if (state.tx > kMostTx || state.tx < -kMostTx) {
    fail(Fault::kInvalidUse, concatenate(operation, ": ", state.tx, " bytes pending is outside [",
                                         -kMostTx, ", ", kMostTx, "] (", describe(state), ")"));
  }
}

// Lets copies land while the phase that `target` begins waits for nothing else: as late as a wait
// can tell.
void land(MbarrierState& state, uint64_t target) {
  while (state.phase == target && state.pending == 0 && !state.transfers.empty()) {
    const auto at =
        state.transfers.begin() + static_cast<ptrdiff_t>(choose(state.transfers.size()));
    const Transfer transfer = std::move(*at);
    state.transfers.erase(at);
    transfer.land(state.stream);
    add_tx(state, -int64_t{transfer.bytes}, "complete_tx");
    complete_if_due(state);
  }
}

// Waits for the phase after `target` phases have completed.
class PhaseWait final : public Condition {
 public:
  PhaseWait(MbarrierState& state, uint64_t target) : state_(state), target_(target) {}
  bool holds() override {
    if (!state_.valid) {
      fail(Fault::kInvalidUse,
           "mbarrier.inval while a thread waits for " + emulator::describe(state_));
    }
    land(state_, target_);
    if (state_.phase > target_ + 1) {
      fail(Fault::kInvalidUse,
           concatenate("the mbarrier completed two phases while this thread waited for phase ",
                       target_, ", and it cannot tell: ", emulator::describe(state_)));
    }
    return state_.phase > target_;
  }
  std::string describe() const override { return emulator::describe(state_); }

 private:
  MbarrierState& state_;
  uint64_t target_;
};

void acquire(const MbarrierState& state) {
  acquire_from(state.clock);
  if (!state.reads.empty()) self().ordering().reads.join(state.reads);
}

bool complete(const MbarrierState& state, uint32_t parity) {
  return (state.phase & 1) != (parity & 1);
}

trace::Waited traced_wait(const MbarrierState& state, uint32_t parity) {
  return {.operation = "mbarrier.try_wait",
          .block = state.block,
          .offset = state.offset,
          .phase = complete(state, parity) ? state.phase - 1 : state.phase};
}

}  // namespace

void mbarrier_init(void* barrier, uint32_t count) {
  constexpr const char* kOperation = "mbarrier.init";
  Block& block = block_of(barrier, kOperation);
  if (&block != self().block) {
    fail(Fault::kInvalidUse, concatenate(kOperation, " in another block's shared memory"));
  }
  if (count < 1 || count > kMostArrivals) {
    fail(Fault::kInvalidUse, concatenate(kOperation, ": ", count, " arrivals, [1, ", kMostArrivals,
                                         "] is what a phase can expect"));
  }
  const uint32_t offset = offset_of(block, barrier);
  if ((block.state[offset] & kMbarrier) != 0) {
    fail(Fault::kInvalidUse, concatenate(kOperation, ": there is a valid mbarrier at shared byte ",
                                         offset, " (mbarrier.inval first)"));
  }
  constexpr uint64_t kNothing = 0;
  write_shared(barrier, &kNothing, sizeof(uint64_t), kOperation);
  mark_mbarrier(barrier, true);
  auto& all = async_of(block).mbarriers;
  all.push_back({.block = &block,
                 .offset = offset,
                 .valid = true,
                 .count = count,
                 .pending = count,
                 .tx = 0,
                 .phase = 0,
                 .initializer = &self(),
                 .fences = self().init_fences,
                 .stream = static_cast<uint32_t>(all.size()) % kProductStreams,
                 .arrived = {},
                 .clock = {},
                 .reads = {},
                 .init_epoch = self().epoch,
                 .transfers = {}});
  const uint64_t object = object_of(all.size() - 1);
  std::memcpy(barrier, &object, sizeof object);
  trace_init(block, offset, count);
}

void mbarrier_inval(void* barrier) {
  MbarrierState& state = find(barrier, "mbarrier.inval");
  if (!state.transfers.empty()) {
    fail(Fault::kInvalidUse, "mbarrier.inval: " + describe(state));
  }
  state.valid = false;
  mark_mbarrier(barrier, false);
}

void mbarrier_arrive(void* barrier, bool passes_writes) {
  constexpr const char* kOperation = "mbarrier.arrive";
  profile_arrival(barrier, kOperation);
  MbarrierState& state = find(barrier, kOperation);
  if (state.block != self().block) require_fenced(state, kOperation);
  if (state.pending == 0) {
    fail(Fault::kInvalidUse,
         concatenate(kOperation, ": more arrivals than the phase expects (", describe(state), ")"));
  }
  trace_arrival(state.block, state.offset, state.phase, kOperation);
  if (passes_writes || state.block == self().block) {
    release_to(state.arrived);
  } else {
    release_to(state.reads);
  }
  if (self().order) state.reads.join(self().order->reads);
  --state.pending;
  complete_if_due(state);
}

void mbarrier_expect_tx(void* barrier, uint32_t bytes) {
  constexpr const char* kOperation = "mbarrier.expect_tx";
  MbarrierState& state = find(barrier, kOperation);
  if (state.block != self().block) require_fenced(state, kOperation);
  add_tx(state, bytes, kOperation);
}

bool mbarrier_try_wait(void* barrier, uint32_t parity) {
  constexpr const char* kOperation = "mbarrier.try_wait";
  MbarrierState& state = find(barrier, kOperation);
  const TracedWait traced(traced_wait(state, parity));
  PhaseWait wait(state, state.phase);
  bool done = complete(state, parity) || wait.holds();
  if (!done) {
    yield(kOperation);
    done = wait.holds();
  }
  if (done) acquire(state);
  return done;
}

void mbarrier_wait(void* barrier, uint32_t parity) {
  constexpr const char* kOperation = "mbarrier.try_wait";
  MbarrierState& state = find(barrier, kOperation);
  const TracedWait traced(traced_wait(state, parity));
  PhaseWait wait(state, state.phase);
  profile_wait(barrier, kOperation);
  if (!complete(state, parity)) wait_until(kOperation, static_cast<Condition&>(wait));
  acquire(state);
}

void mbarrier_add_transfer(void* barrier, uint32_t bytes, std::function<void(uint32_t stream)> land,
                           const char* operation, bool by_thread) {
  MbarrierState& state = find(barrier, operation);
  require_fenced(state, operation);
  profile_arrival(barrier, operation);
  if (by_thread) release_to(state.arrived);
  trace_copy(land, operation, bytes, state.block, state.offset);
  state.transfers.push_back({bytes, std::move(land)});
}

Stream mbarrier_stream(void* barrier, const char* operation) {
  const MbarrierState& state = find(barrier, operation);
  return {state.stream, state.block->streams[state.stream]};
}

void fence_mbarrier_init() {
  ++self().init_fences;
  release_to(self().ordering().inits);
}

void fence_proxy_async() {
  Thread& me = self();
  ++me.proxy_fences;
  ++me.init_fences;
  me.ordering().fenced = me.clock;
}

void finish_copies(Block& block) {
  for (const MbarrierState& state : block.async->mbarriers) {
    if (state.valid && !state.transfers.empty()) {
      fail(Fault::kInvalidUse,
           concatenate("the block exits while copies are in flight to its shared memory: ",
                       describe(state)));
    }
  }
}

}  // namespace ws::emulator
