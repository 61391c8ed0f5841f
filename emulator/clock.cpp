#include "emulator/clock.hpp"

#include <algorithm>
#include <array>

namespace ws::emulator {
namespace {

// Whether no epoch of `a` is below that of `b`.
bool all_at_least(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  if (a.size() < b.size()) return false;
  uint32_t below = 0;  // no early end: the compiler takes eight at a time
  for (size_t i = 0; i < b.size(); ++i) below |= static_cast<uint32_t>(a[i] < b[i]);
  return below == 0;
}

}  // namespace

const std::vector<uint32_t>* Clock::find(int64_t block) const {
  const auto& blocks = known_->blocks;
  const auto at =
      std::ranges::lower_bound(blocks, block, {}, [](const auto& b) { return b->block; });
  return at != blocks.end() && (*at)->block == block ? &(*at)->epochs : nullptr;
}

std::vector<boost::intrusive_ptr<Clock::OfBlock>>& Clock::own_blocks() {
  if (!known_) known_ = new Known;
  if (known_->use_count() > 1) known_ = new Known(*known_);
  return known_->blocks;
}

// The place in own_blocks() that tells of the block, perhaps null.
boost::intrusive_ptr<Clock::OfBlock>& Clock::slot(int64_t block) {
  auto& blocks = own_blocks();
  const auto at =
      std::ranges::lower_bound(blocks, block, {}, [](const auto& b) { return b->block; });
  if (at != blocks.end() && (*at)->block == block) return *at;
  const auto made = blocks.emplace(at, new OfBlock);
  (*made)->block = block;
  return *made;
}

std::vector<uint32_t>& Clock::own_epochs(int64_t block) {
  auto& known = slot(block);
  if (known->use_count() > 1) known = new OfBlock(*known);
  return known->epochs;
}

void Clock::see(int64_t block, uint32_t actor, uint32_t epoch) {
  if (has_seen(block, actor, epoch)) return;  // so that it stays shared
  std::vector<uint32_t>& epochs = own_epochs(block);
  if (actor >= epochs.size()) epochs.resize(actor + 1);
  epochs[actor] = epoch;
}

void Clock::join(const Clock& other) {
  if (!other.known_ || known_ == other.known_) return;
  if (!known_) {
    known_ = other.known_;
    return;
  }
  // The threads that wait for one barrier mostly know the same and learn the same.
  struct Joined {
    Clock mine, others, both;
  };
  thread_local std::array<Joined, 64> memory;
  const auto mixed = reinterpret_cast<uintptr_t>(known_.get()) * 31 +
                     reinterpret_cast<uintptr_t>(other.known_.get());
  Joined& joined = memory[(mixed >> 4) % memory.size()];
  if (joined.mine.known_ == known_ && joined.others.known_ == other.known_) {
    known_ = joined.both.known_;
    return;
  }
  const Clock before = *this;
  for (const auto& theirs : other.known_->blocks) {
    const std::vector<uint32_t>* mine = epochs_of(theirs->block);
    if (mine == &theirs->epochs || (mine != nullptr && all_at_least(*mine, theirs->epochs)))
      continue;
    if (mine == nullptr || all_at_least(theirs->epochs, *mine)) {
      slot(theirs->block) = theirs;
      continue;
    }
    std::vector<uint32_t>& epochs = own_epochs(theirs->block);
    epochs.resize(std::max(epochs.size(), theirs->epochs.size()));
    for (size_t i = 0; i < theirs->epochs.size(); ++i) {
      epochs[i] = std::max(epochs[i], theirs->epochs[i]);
    }
  }
  joined = {before, other, *this};
}

bool Clock::covers(const Clock& other) const {
  if (!other.known_ || known_ == other.known_) return true;
  if (!known_) return false;
  return std::ranges::all_of(other.known_->blocks, [this](const auto& theirs) {
    const std::vector<uint32_t>* mine = epochs_of(theirs->block);
    return mine == &theirs->epochs || (mine != nullptr && all_at_least(*mine, theirs->epochs));
  });
}

Clock Clock::apart() const {
  Clock copy;
  if (!known_) return copy;
  copy.known_ = new Known;
  for (const auto& block : known_->blocks) copy.known_->blocks.emplace_back(new OfBlock(*block));
  return copy;
}

}  // namespace ws::emulator
