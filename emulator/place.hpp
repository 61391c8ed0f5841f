// Places in the source, small enough to be kept for every word of memory.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>

namespace ws::emulator {

using Place = std::source_location;

// A Place points to what the compiler has put into the program: its distance from a thing of the
// same program says as much. 0: none, or in a library further than 2 GB away.
class PackedPlace {
 public:
  PackedPlace() = default;
  PackedPlace(const Place& place) {  // NOLINT(google-explicit-constructor): another form of it
    const int64_t distance = std::bit_cast<int64_t>(place) - anchor();
    distance_ = distance == static_cast<int32_t>(distance) ? static_cast<int32_t>(distance) : 0;
  }
  Place unpacked() const {
    return distance_ != 0 ? std::bit_cast<Place>(anchor() + distance_) : Place();
  }

 private:
  static_assert(sizeof(Place) == sizeof(int64_t));
  static constexpr char kAnchor = 0;
  static int64_t anchor() { return std::bit_cast<int64_t>(&kAnchor); }

  int32_t distance_ = 0;
};

}  // namespace ws::emulator
