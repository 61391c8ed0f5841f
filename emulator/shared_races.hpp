// Races in shared memory: for each word who wrote it last and who has read it since, and whether
// whoever comes next has seen that (emulator/clock.hpp).
#pragma once

#include "emulator/emulator.hpp"

namespace ws::emulator {

// One access, of a thread or a stream of one of the cluster's blocks.
struct RaceCell {
  uint32_t epoch;
  uint16_t actor;  // and its block's rank in the cluster
  uint8_t bytes;   // of the word: a set
  bool atomic;     // does not race with its like
  PackedPlace place;
};

// What is known of four bytes of shared memory. Of several readers that do not come after one
// another two are kept, the first and the last: one of them is another thread than the next writer.
// Copies, products and vectors reach 16 bytes at a time: the first of each four words stands for
// all of them until an access to some of them tells them apart.
struct RaceWord {
  RaceCell write;
  std::array<RaceCell, 2> reads;
  bool apart = false;  // of the first of four
};

// Bytes [offset, offset + bytes) of the shared memory of a block of the caller's cluster.
struct SharedBytes {
  Block& block;
  size_t offset;
  size_t bytes;
};

// Fails unless the running thread comes after all that conflicts with its access; then remembers
// the access. A store that changes no byte conflicts with no other store: `changes` false.
void race_read(const SharedBytes& at, const char* operation);
void race_write(const SharedBytes& at, const char* operation, bool changes = true);
void race_atomic(const SharedBytes& at, const char* operation);
// Only the first, for what comes later or another actor does; only the second.
void race_check_read(const SharedBytes& at, const char* operation);
void race_check_write(const SharedBytes& at, const char* operation);
void race_note_read(const SharedBytes& at, uint32_t actor, uint32_t epoch);
void race_note_write(const SharedBytes& at, uint32_t actor, uint32_t epoch);
// Of the last write to a word of the block's shared memory.
uint32_t epoch_of_write(const Block& block, size_t word);

}  // namespace ws::emulator
