// profile: one run of a rung in the emulator, seen by line of the source (warpsmith/profile.hpp).
#pragma once

#include <string>
#include <vector>

#include "harness/instance.hpp"
#include "harness/json.hpp"
#include "harness/resources.hpp"
#include "warpsmith/profile.hpp"

namespace ws::harness {

// Runs the rung once, on outputs that hold poison; nothing is compared. Throws where it does not
// take the problem, and in a CUDA build.
Profile profile(const Rung& rung, Instance& instance);
Json to_json(const Profile& profile);

// How many blocks of a launch an SM holds, by each of its limits: those of Hopper.
struct OccupancyLimits {
  int by_threads = 0;
  int by_shared = 0;
  int by_blocks = 0;
  int by_registers = -1;  // -1: not known
  int blocks = 0;         // the least of them
  double occupancy = 0;   // warps resident of the most an SM holds
  // "threads", "shared memory", "blocks", "registers": what holds them down.
  std::string_view by;
};
OccupancyLimits occupancy_limits(const KernelResources& launch);
Json to_json(const OccupancyLimits& limits);

}  // namespace ws::harness
