#include "emulator/shared_races.hpp"

#include <algorithm>
#include <bit>

#include "emulator/scheduler.hpp"

namespace ws::emulator {
namespace {

constexpr uint32_t kActorsOfBlock = 2048;  // a power of two above kStreams + 1024

// The rank in the cluster of the running thread's block.
uint16_t name_of(uint32_t actor) {
  return static_cast<uint16_t>(static_cast<uint32_t>(self().block->cluster_rank) * kActorsOfBlock +
                               actor);
}

struct Who {
  const Thread& me = self();
  uint16_t actor = name_of(actor_of_thread(me.index));
  uint32_t oldest = me.block->group->first_epoch;
  // Blocks of the cluster, by rank.
  int64_t first_block = me.block->index - me.block->cluster_rank;

  // Whether the cell is of an access that this thread need not come after, or comes after.
  bool comes_after(const RaceCell& cell) const {
    return cell.epoch < oldest || cell.actor == actor ||
           me.clock.has_seen(first_block + cell.actor / kActorsOfBlock, cell.actor % kActorsOfBlock,
                             cell.epoch);
  }
  // Who has read what a copy brought, and no more, came after it.
  bool comes_after_landing(const RaceCell& cell) const {
    return cell.actor % kActorsOfBlock < kProductStreams && comes_after_read(cell);
  }
  // One warp's wait ends the products of its warpgroup. Stages are handed back to copies so, by one
  // arrival for four warps (as CUTLASS does); for stores that is not enough.
  bool comes_after_end(const RaceCell& read, bool by_copy) const {
    const uint32_t actor = read.actor % kActorsOfBlock;
    const bool product = actor >= kProductStreams && actor < kStreams;
    return (by_copy || !product) && comes_after_read(read);
  }
  bool comes_after_read(const RaceCell& cell) const {
    return me.order && me.order->reads.has_seen(first_block + cell.actor / kActorsOfBlock,
                                                cell.actor % kActorsOfBlock, cell.epoch);
  }
};

[[noreturn, gnu::cold, gnu::noinline]] void fail_race(const Who& who, const char* operation,
                                                      bool writes, size_t byte,
                                                      const RaceCell& other, bool other_writes) {
  const auto actor = other.actor % kActorsOfBlock;
  const auto block = who.first_block + other.actor / kActorsOfBlock;
  std::string by = concatenate("block ", block, ", thread ", static_cast<int>(actor) - kStreams);
  if (actor < kProductStreams) by = concatenate("a copy to block ", block);
  if (actor >= kProductStreams && actor < kStreams) {
    by = concatenate("a product (wgmma) of block ", block, ", warp ", actor - kProductStreams);
  }
  fail(Fault::kRace,
       concatenate(operation, writes ? " to" : " of", " shared byte ", byte, " races with the ",
                   other_writes ? "write" : "read", " by ", by, " at ",
                   to_string(other.place.unpacked()), ": nothing orders the two"));
}

uint8_t mask_of(size_t word, size_t begin, size_t end) {
  const size_t from = std::max(begin, word * 4) - word * 4;
  const size_t to = std::min(end, word * 4 + 4) - word * 4;
  return static_cast<uint8_t>((1u << to) - (1u << from));
}

// What a visit leaves in a word.
enum class Leaves { kNothing, kRead, kWrite };

// Calls visit(word, its number, the bytes of it that the access has) for each word that the access
// touches, and once for four that nothing tells apart (RaceWord).
template <Leaves kLeaves, class Visit>
[[gnu::always_inline]] inline void each_word(const SharedBytes& at, Visit&& visit) {
  constexpr size_t kQuad = 4;
  RaceWord* const words = at.block.races;
  const size_t end = at.offset + at.bytes;
  if (((at.offset | at.bytes) & 15) == 0) {
    for (size_t word = at.offset / 4; word < end / 4; word += kQuad) {
      const size_t visits = words[word].apart ? kQuad : 1;
      for (size_t i = 0; i < visits; ++i) visit(words[word + i], word + i, uint8_t{15});
      if (kLeaves == Leaves::kWrite) words[word].apart = false;
    }
    return;
  }
  for (size_t word = at.offset / 4; word * 4 < end; ++word) {
    RaceWord* const quad = words + word / kQuad * kQuad;
    if (kLeaves != Leaves::kNothing && !quad->apart) {
      quad->apart = true;
      std::fill(quad + 1, quad + kQuad, *quad);
    }
    visit(quad->apart ? words[word] : *quad, word, mask_of(word, at.offset, end));
  }
}

size_t byte_of(size_t word, const RaceCell& cell) {
  return word * 4 + static_cast<size_t>(std::countr_zero(static_cast<unsigned>(cell.bytes)));
}

[[gnu::always_inline]] inline void check_read(const Who& who, const RaceWord& word, size_t number,
                                              uint8_t bytes, const char* operation) {
  if ((word.write.bytes & bytes) != 0 && !who.comes_after(word.write)) [[unlikely]] {
    fail_race(who, operation, false, byte_of(number, word.write), word.write, true);
  }
}

[[gnu::always_inline]] inline void check_write(const Who& who, const RaceWord& word, size_t number,
                                               uint8_t bytes, const char* operation, bool changes,
                                               bool by_copy) {
  if (changes && (word.write.bytes & bytes) != 0 && !who.comes_after(word.write) &&
      !who.comes_after_landing(word.write)) [[unlikely]] {
    fail_race(who, operation, true, byte_of(number, word.write), word.write, true);
  }
  for (const RaceCell& read : word.reads) {
    if ((read.bytes & bytes) != 0 && !who.comes_after(read) && !who.comes_after_end(read, by_copy))
        [[unlikely]] {
      fail_race(who, operation, true, byte_of(number, read), read, false);
    }
  }
}

[[gnu::always_inline]] inline void note_read(const Who& who, RaceWord& word, RaceCell cell) {
  RaceCell* slot = &word.reads[0];
  if (slot->actor != cell.actor && slot->epoch >= who.oldest) {
    RaceCell* const second = &word.reads[1];
    // The first stays while it is concurrent with this one.
    if (second->actor == cell.actor || !who.comes_after(*slot)) slot = second;
  }
  const bool same = slot->actor == cell.actor && slot->epoch == cell.epoch;
  if (same) cell.bytes = static_cast<uint8_t>(cell.bytes | slot->bytes);
  *slot = cell;
}

[[gnu::always_inline]] inline void note_write(RaceWord& word, RaceCell cell) {
  word.write = cell;
  for (RaceCell& read : word.reads) {
    read.bytes = static_cast<uint8_t>(read.bytes & ~cell.bytes);
    if (read.bytes == 0) read.epoch = 0;
  }
}

bool off(const SharedBytes& at) { return at.block.races == nullptr; }

}  // namespace

void race_read(const SharedBytes& at, const char* operation) {
  if (off(at)) return;
  const Who who;
  const PackedPlace place = who.me.place;
  each_word<Leaves::kRead>(at, [&](RaceWord& word, size_t number, uint8_t bytes) {
    check_read(who, word, number, bytes, operation);
    note_read(who, word, {who.me.epoch, who.actor, bytes, false, place});
  });
}

void race_write(const SharedBytes& at, const char* operation, bool changes) {
  if (off(at)) return;
  const Who who;
  const PackedPlace place = who.me.place;
  each_word<Leaves::kWrite>(at, [&](RaceWord& word, size_t number, uint8_t bytes) {
    check_write(who, word, number, bytes, operation, changes, false);
    note_write(word, {who.me.epoch, who.actor, bytes, false, place});
  });
}

void race_atomic(const SharedBytes& at, const char* operation) {
  if (off(at)) return;
  const Who who;
  const PackedPlace place = who.me.place;
  each_word<Leaves::kWrite>(at, [&](RaceWord& word, size_t number, uint8_t bytes) {
    check_write(who, word, number, bytes, operation, !word.write.atomic, false);
    // An ordinary write stays known until somebody else comes after it.
    if (word.write.atomic || word.write.actor != who.actor || word.write.epoch < who.oldest) {
      note_write(word, {who.me.epoch, who.actor, bytes, true, place});
    }
  });
}

void race_check_read(const SharedBytes& at, const char* operation) {
  if (off(at)) return;
  const Who who;
  each_word<Leaves::kNothing>(at, [&](const RaceWord& word, size_t number, uint8_t bytes) {
    check_read(who, word, number, bytes, operation);
  });
}

void race_check_write(const SharedBytes& at, const char* operation) {
  if (off(at)) return;
  const Who who;
  each_word<Leaves::kNothing>(at, [&](const RaceWord& word, size_t number, uint8_t bytes) {
    check_write(who, word, number, bytes, operation, true, true);
  });
}

void race_note_read(const SharedBytes& at, uint32_t actor, uint32_t epoch) {
  if (off(at)) return;
  const Who who;
  const uint16_t name = name_of(actor);
  const PackedPlace place = who.me.place;
  each_word<Leaves::kRead>(at, [&](RaceWord& word, size_t, uint8_t bytes) {
    note_read(who, word, {epoch, name, bytes, false, place});
  });
}

void race_note_write(const SharedBytes& at, uint32_t actor, uint32_t epoch) {
  if (off(at)) return;
  // Streams are the block's whose memory it is.
  const auto name =
      static_cast<uint16_t>(static_cast<uint32_t>(at.block.cluster_rank) * kActorsOfBlock + actor);
  const PackedPlace place = self().place;
  each_word<Leaves::kWrite>(at, [&](RaceWord& word, size_t, uint8_t bytes) {
    note_write(word, {epoch, name, bytes, false, place});
  });
}

uint32_t epoch_of_write(const Block& block, size_t word) {
  const RaceWord* const quad = block.races + word / 4 * 4;
  return (quad->apart ? block.races[word] : *quad).write.epoch;
}

}  // namespace ws::emulator
