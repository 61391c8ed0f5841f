// The shared memory of a group's blocks, with what the emulator knows of each byte.
#pragma once

#include "emulator/emulator.hpp"
#include "emulator/shared_races.hpp"

namespace ws::emulator {

// What is known of a byte: a set of these, and above them how many copies and products in flight
// still read it.
enum ByteState : uint8_t {
  kWritten = 1,
  kInFlight = 2,  // the destination of a copy that has not landed
  kMbarrier = 4,  // part of an mbarrier object
  kReader = 8,    // one of the readers
  kReaders = 0xF8,
};

// Memory for the blocks of one group, all bytes unwritten. The host thread keeps it for the next
// group.
class SharedMemory {
 public:
  SharedMemory(size_t blocks, size_t bytes, bool with_races);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();
  void give(Block& block, size_t index) const;

  // What is known of accesses is kept from group to group, and told apart by epochs.
  uint32_t first_epoch() const;
  void end_epoch(uint32_t last);

 private:
  struct Arena;
  static Arena& free_arena();

  Arena& arena_;
  size_t bytes_;     // of a block, as the launch asked
  size_t capacity_;  // of a block, whole kilobytes
  std::byte* data_ = nullptr;
  uint8_t* state_ = nullptr;
  uint32_t* writer_ = nullptr;
  RaceWord* races_ = nullptr;
};

}  // namespace ws::emulator
