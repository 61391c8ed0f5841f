// Vector clocks: which accesses of the others a thread comes after, by all that orders memory.
//
// An actor is a thread of a block, or what works for the block beside its threads: the copies of an
// mbarrier, the products of a warp. Each counts epochs; a new one begins whenever it passes
// its memory on. An access belongs to its actor's epoch, and comes before what a thread does whose
// clock has seen that epoch (Flanagan and Freund, "FastTrack: efficient and precise dynamic race
// detection", 2009).
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>
#include <cstdint>
#include <utility>
#include <vector>

namespace ws::emulator {

// Actors of a block: first the streams, then its threads.
inline constexpr uint32_t kStreams = 64;
inline constexpr uint32_t kProductStreams = 32;  // from here on: one a warp; below: mbarriers
constexpr uint32_t actor_of_thread(int thread) { return kStreams + static_cast<uint32_t>(thread); }

// A value; copies share what they know until one of them learns more. Of one host thread.
class Clock {
 public:
  bool has_seen(int64_t block, uint32_t actor, uint32_t epoch) const {
    if (!known_) return false;
    const std::vector<uint32_t>* epochs = epochs_of(block);
    return epochs != nullptr && actor < epochs->size() && (*epochs)[actor] >= epoch;
  }
  // Sees what `other` has seen.
  void join(const Clock& other);
  // Sees this epoch of an actor.
  void see(int64_t block, uint32_t actor, uint32_t epoch);
  // Whether both share what they know: a quick way to tell that joining changes nothing.
  bool shares(const Clock& other) const { return known_ == other.known_; }
  bool empty() const { return !known_; }
  // Whether it has seen all that `other` has.
  bool covers(const Clock& other) const;
  // Shares nothing: for another host thread.
  Clock apart() const;

 private:
  template <class T>
  using Counted = boost::intrusive_ref_counter<T, boost::thread_unsafe_counter>;
  struct OfBlock : Counted<OfBlock> {
    int64_t block = 0;
    std::vector<uint32_t> epochs;  // by actor; 0: nothing
  };
  struct Known : Counted<Known> {
    std::vector<boost::intrusive_ptr<OfBlock>> blocks;  // sorted
  };

  const std::vector<uint32_t>* epochs_of(int64_t block) const {
    const auto& blocks = known_->blocks;
    if (blocks.size() == 1) return blocks[0]->block == block ? &blocks[0]->epochs : nullptr;
    return find(block);
  }
  const std::vector<uint32_t>* find(int64_t block) const;
  // To change: shared with no other clock.
  std::vector<boost::intrusive_ptr<OfBlock>>& own_blocks();
  boost::intrusive_ptr<OfBlock>& slot(int64_t block);
  std::vector<uint32_t>& own_epochs(int64_t block);

  boost::intrusive_ptr<Known> known_;  // null: nothing
};

// What those who arrive at a barrier have seen, together. They mostly share what they know.
class ClockSum {
 public:
  void add(const Clock& clock) {
    if (!last_.empty() && clock.shares(last_)) return;
    sum_.join(clock);
    last_ = clock;
  }
  Clock& sum() { return sum_; }
  Clock take() {
    last_ = {};
    return std::exchange(sum_, {});
  }

 private:
  Clock sum_;
  Clock last_;
};

// What a thread had done and seen at its last fence, for who looks at the flags that it sets; and
// what the flags that it has looked at pass on, seen from its next fence on. Both for all blocks
// and for its own block. Threads that meet share them: one of them may fence, another set the flag.
struct Fenced {
  Clock released, released_in_block;
  Clock observed, observed_in_block;

  bool empty() const { return released_in_block.empty() && observed_in_block.empty(); }
  void join(const Fenced& other) {
    if (other.empty()) return;
    released.join(other.released);
    released_in_block.join(other.released_in_block);
    observed.join(other.observed);
    observed_in_block.join(other.observed_in_block);
  }
};

}  // namespace ws::emulator
