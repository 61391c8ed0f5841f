// Copies and matrix products in flight: what asynchronous instructions keep per thread and per
// block until the wait that covers them.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "emulator/emulator.hpp"

namespace ws::emulator {

// Actions in the order of issue, cut into groups by commits, as cp.async, bulk stores and wgmma
// have them: a wait names how many of the youngest groups may stay in flight.
template <class Action>
class DeferredGroups {
 public:
  void add(Action action) { open_.push_back(std::move(action)); }
  void commit() { groups_.push_back(std::exchange(open_, {})); }

  // Takes all committed groups but the `keep` youngest and calls apply(action) for each action, in
  // the order of issue, or permuted as the hardware might (Options::order).
  template <class Apply>
  void wait(size_t keep, Apply&& apply, bool in_order = false) {
    std::vector<Action> due;
    while (groups_.size() > keep) {
      std::ranges::move(groups_.front(), std::back_inserter(due));
      groups_.pop_front();
    }
    while (!due.empty()) {
      const auto at = due.begin() + (in_order ? 0 : static_cast<ptrdiff_t>(choose(due.size())));
      apply(*at);
      due.erase(at);
    }
  }

  // Every action of the committed groups but the `keep` youngest; they stay.
  template <class Visit>
  void visit(size_t keep, Visit&& each) {
    for (size_t i = 0; i + keep < groups_.size(); ++i) {
      for (Action& action : groups_[i]) each(action);
    }
  }

  bool uncommitted() const { return !open_.empty(); }
  bool empty() const { return open_.empty() && groups_.empty(); }

 private:
  std::vector<Action> open_;
  std::deque<std::vector<Action>> groups_;
};

// A cp.async in flight.
struct SmallCopy {
  std::byte* to;
  const std::byte* from;
  int bytes;
  int source_bytes;
};

// A bulk or tensor store in flight: the source is read at the latest possible moment.
struct BulkStore {
  std::byte* from;  // in shared memory
  size_t bytes;
  std::vector<std::byte> data;  // once read
  bool read = false;
  std::function<void(const std::byte*)> write;  // to global memory
};

struct AsyncThread {
  DeferredGroups<SmallCopy> small_copies;
  DeferredGroups<BulkStore> bulk_stores;
};

// A copy in flight to shared memory, which counts `bytes` on an mbarrier when it lands.
struct Transfer {
  uint32_t bytes;
  std::function<void(uint32_t stream)> land;
};

struct MbarrierState {
  Block* block;
  uint32_t offset;  // in the block's shared memory
  bool valid;
  uint32_t count;       // arrivals of a phase
  uint32_t pending;     // ... that the current phase still waits for
  int64_t tx;           // bytes expected minus bytes landed
  uint64_t phase;       // completed phases
  Thread* initializer;  // and its fences so far: others need one after
  uint32_t fences;
  uint32_t stream;      // in which its copies land
  ClockSum arrived;     // of the current phase's arrivals
  Clock clock;          // ... of the phases that are complete
  Clock reads;          // ... and of arrivals that pass on no more than that they have read
  uint32_t init_epoch;  // of the initializer
  std::vector<Transfer> transfers;
};

struct WgmmaBlock;

struct AsyncBlock {
  std::deque<MbarrierState> mbarriers;  // an mbarrier's 64 bits hold its place here
  std::shared_ptr<WgmmaBlock> wgmma;    // products in flight, see wgmma.cpp; null before the first
};

AsyncThread& async_of(Thread& thread);
AsyncBlock& async_of(Block& block);

// What a thread or block that ends leaves in flight: finishes it, or fails where PTX has no
// meaning.
void finish_copies(Thread& thread);
void finish_copies(Block& block);

// Shared memory as copies use it.
// The destination of a copy: marks it in flight and fills it with kPoisonByte. `async_proxy` says
// which proxy writes.
void poison_shared(void* pointer, size_t bytes, bool async_proxy, const char* operation);
inline constexpr int kPoisonByte = 0xFF;  // NaN as f32, f16, bf16, e4m3, e5m2; -1 as an integer
// The copy has landed: for the thread that has waited for it, or in the epoch of a stream of the
// block, by the async proxy.
void land_shared(void* pointer, size_t bytes);
void land_shared(void* pointer, size_t bytes, uint32_t stream);
// What a product of the running thread's warp reads, in an epoch of a stream of its block.
struct ProductRead {
  bool checks;  // that the warp comes after what was written, and fenced
  bool holds;   // hold_shared()
  bool notes;   // for who writes next
  uint32_t stream;
  uint32_t epoch;
};
void product_reads(const void* pointer, size_t bytes, const ProductRead& how,
                   const char* operation);
// The running thread knows from here on that a copy has read.
void was_read_shared(const void* pointer, size_t bytes);
// ... or who has seen the epoch of a stream of its block.
void was_read_shared(const void* pointer, size_t bytes, uint32_t stream);
// The source of a copy that reads late: must not change between the two.
void hold_shared(const void* pointer, size_t bytes);
void release_shared(const void* pointer, size_t bytes);
// An mbarrier stands here: ordinary stores are a fault from now on, or no more.
void mark_mbarrier(void* pointer, bool alive);

}  // namespace ws::emulator
