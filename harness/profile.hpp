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

// "softmax/01_naive.cuh:23", or "01_naive.cuh:23" in the family that is talked about.
std::string short_place(const ProfilePlace& place, std::string_view family = {});

// The source of the line, without its indentation; empty where the build does not have it.
std::string source_of(const ProfilePlace& place);

// What is bad about a line, or worth knowing: "32.0 sectors a request, 4.0 would do: lanes are 4096
// bytes apart".
std::vector<std::string> remarks_on(const ProfileLine& line);

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
