// What the emulator sees of a run's memory accesses, warp by warp and by line of the source: what
// one would ask Nsight Compute. docs/profile.md says what each number means.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "warpsmith/error.hpp"

namespace ws {

struct ProfilePlace {
  std::string file;  // from the repository's root: "kernels/softmax/01_naive.cuh"
  int line = 0;
  std::string operation;  // "ld.global", "ldmatrix", "barrier.sync" ...
  bool operator==(const ProfilePlace&) const = default;
};

// What the lanes of one warp asked for at once.
struct WarpAccess {
  uint32_t lanes = 0;  // bit i: lane i takes part; 0: none was seen
  uint32_t width = 0;  // bytes that each asks for
  bool is_shared = false;
  // Where a lane's bytes begin: from the 128-byte line on that holds the first of them; of shared
  // memory in the block's own, whose word w is in bank w % 32.
  std::array<uint64_t, 32> offset{};
  // Of shared memory: lanes that are served together, those of them that take the most passes.
  uint32_t part = 0;
};

// One kind of instruction on one line, summed over all warps and launches.
struct ProfileLine {
  ProfilePlace place;
  uint64_t warp_instructions = 0;
  uint64_t active_lanes = 0;   // summed over them
  uint64_t divergent = 0;      // of them, those that not all lanes of the warp execute
  bool by_one_thread = false;  // such as a bulk copy: one lane is all that it takes

  // Global memory, in sectors of 32 bytes.
  uint64_t requests = 0;  // warp instructions, or copies of boxes and bulks
  uint64_t sectors = 0;
  uint64_t ideal_sectors = 0;   // had the same bytes lain side by side
  uint64_t asked_bytes = 0;     // by all lanes
  uint64_t unique_sectors = 0;  // over the whole run, each once
  int64_t stride = 0;           // bytes from lane to lane in most requests that are strided; else 0
  uint64_t strided = 0;         // requests of an even stride beyond the access's own width

  // Shared memory, in wavefronts: passes over the 32 banks.
  uint64_t shared_requests = 0;
  uint64_t wavefronts = 0;
  uint64_t ideal_wavefronts = 0;  // without bank conflicts
  uint64_t shared_bytes = 0;
  int swizzle = -1;  // bytes of a row of the pattern, of a tensor copy or wgmma operand; 0 none

  uint64_t most_on_one_address = 0;  // atomics

  std::vector<ProfilePlace> waits_for;  // what a barrier stands behind: writes, copies, arrivals

  WarpAccess access;  // the dearest of them, by sectors or wavefronts; the first of several

  // Clocks of one SM's memory pipes, if nothing overlapped: 64 bytes of global memory, one
  // wavefront, one collective instruction each take one. An order to read lines in, not a time.
  double cost() const {
    // Atomics on one address go one after the other.
    return static_cast<double>(std::max(sectors, most_on_one_address)) / kSectorsAClock +
           static_cast<double>(wavefronts) +
           (sectors + wavefronts == 0 ? static_cast<double>(warp_instructions) : 0.0);
  }
  // The same had every request taken the sectors that would do, and no banks collided.
  double ideal_cost() const {
    return sectors + wavefronts == 0 ? cost()
                                     : static_cast<double>(ideal_sectors) / kSectorsAClock +
                                           static_cast<double>(ideal_wavefronts);
  }

 private:
  static constexpr double kSectorsAClock = 2;
};

struct Profile {
  std::vector<ProfileLine> lines;  // the dearest first
  // Of the whole run, each once: what a cache without end leaves to DRAM.
  uint64_t unique_read_sectors = 0;
  uint64_t unique_written_sectors = 0;

  double cost() const {
    double sum = 0;
    for (const ProfileLine& line : lines) sum += line.cost();
    return sum;
  }
  double ideal_cost() const {
    double sum = 0;
    for (const ProfileLine& line : lines) sum += line.ideal_cost();
    return sum;
  }
  uint64_t requests() const { return sum(&ProfileLine::requests); }
  uint64_t sectors() const { return sum(&ProfileLine::sectors); }
  uint64_t ideal_sectors() const { return sum(&ProfileLine::ideal_sectors); }
  uint64_t wavefronts() const { return sum(&ProfileLine::wavefronts); }
  uint64_t ideal_wavefronts() const { return sum(&ProfileLine::ideal_wavefronts); }
  // What a learner asks first; 0 where there is nothing of the kind. Copies by one thread, which
  // have no lanes to spread, do not count here.
  double sectors_a_request() const {
    return ratio(sum(&ProfileLine::sectors, false), sum(&ProfileLine::requests, false));
  }
  double ideal_sectors_a_request() const {
    return ratio(sum(&ProfileLine::ideal_sectors, false), sum(&ProfileLine::requests, false));
  }
  // Wavefronts of those that it takes without bank conflicts.
  double ways() const { return ratio(wavefronts(), ideal_wavefronts()); }

 private:
  uint64_t sum(uint64_t ProfileLine::* member, bool with_copies = true) const {
    uint64_t total = 0;
    for (const ProfileLine& line : lines) {
      if (with_copies || !line.by_one_thread) total += line.*member;
    }
    return total;
  }
  static double ratio(uint64_t a, uint64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  }
};

// Between the two, launches of this process are profiled, by whichever host thread. Not in a CUDA
// build.
#ifdef WS_EMULATED
void begin_profile();
Profile end_profile();
#else
[[noreturn]] inline void begin_profile() {
  throw Error("profiles are the emulator's: this is the CUDA build, whose profiler is ncu");
}
inline Profile end_profile() { return {}; }
#endif

// Ends a profile that an exception has cut short.
class ProfileScope {
 public:
  ProfileScope() { begin_profile(); }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;
  ~ProfileScope() {
    if (!ended_) end_profile();
  }
  Profile end() {
    ended_ = true;
    return end_profile();
  }

 private:
  bool ended_ = false;
};

}  // namespace ws
