// The machine under a measurement: what every result file says, and the physical limits.
#pragma once

#include <string>

#include "harness/json.hpp"

namespace ws::harness {

struct Machine {
  std::string device;  // "NVIDIA H200"; "emulator"
  int capability = 0;  // major * 10 + minor
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
  double clock = 0;        // of the multiprocessors at most, Hz
  double memory_rate = 0;  // bytes per second that no kernel exceeds
  std::string driver;      // highest CUDA version the driver runs: "13.0"
  std::string runtime;     // CUDA version of this build
};

// Of the current device. Throws InvalidArgument that says what to do where there is no GPU.
Machine machine();

// What the data sheet says of a device, found by its name as results have it; the rates of one that
// the table does not know are 0.
Machine known_machine(std::string_view device);

// Dense floating-point operations per second by the data sheet, tensor cores for the types they
// take; of a GPU that the table does not know computed from its clock.
double peak_flops(const Machine& machine, DType dtype);

// The least microseconds the device could take: input bytes at its memory's rate, output bytes as
// far as they cannot stay in the L2, operations at twice the peak (a clock may boost, TF32 may
// stand in for f32).
double floor_microseconds(const Machine& machine, const Problem& problem, const Cost& cost);

// Of the sources this was built from; WARPSMITH_REVISION in the environment overrides it.
std::string revision();

Json to_json(const Machine& machine);
// Git revision and date (UTC): when and from what a result was made.
Json provenance();

}  // namespace ws::harness
