// What verify looks at after a run: outputs against the reference, and everything that a kernel
// must leave alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/verify.hpp"

namespace ws::harness {

// A tensor's bytes on the host. Pages that nobody touches are never there.
struct HostBytes {
  HostBytes() = default;
  explicit HostBytes(size_t bytes)
      : memory(std::make_unique_for_overwrite<std::byte[]>(bytes)), size(bytes) {}
  std::span<std::byte> bytes() const { return {memory.get(), size}; }

  std::unique_ptr<std::byte[]> memory;
  size_t size = 0;
};
// By parameter; empty where a tensor is not written.
using Written = std::vector<HostBytes>;

Written download_written(DeviceInstance& device);
// Of large outputs only what will be compared: a gigabyte takes long to come over.
Written download_sample(DeviceInstance& device, Instance& instance);

// Guards around every buffer, gaps between the rows of what is written, inputs, the workspace's
// zeroes.
void check_surroundings(DeviceInstance& device, const Instance& instance, const Written& written,
                        std::byte poison, Verification& result);

// With the reference, as far as `rung` (null: a peer) may be from it. `again` is a second run's
// outputs, from the other poison, or null: with it an element counts as unwritten where each run
// left its poison, whatever the values mean; without it where it is wrong and holds the first.
void compare_with_reference(const Rung* rung, const Problem& problem, Instance& instance,
                            const Written& written, const Written* again, Verification& result);

// Element by element, bit by bit; `what` says of which runs.
void compare_bits(const Problem& problem, const Written& one, const Written& two, Defect defect,
                  std::string_view what, Verification& result);

}  // namespace ws::harness
