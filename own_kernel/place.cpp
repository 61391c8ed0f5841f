#include "own_kernel/place.hpp"

#include <algorithm>
#include <cmath>

namespace ws::own_kernel {
namespace {

double log_ratio(double a, double b) { return std::abs(std::log(a / std::max(b, 1e-9))); }

// The less the better.
double burden(const Costs& costs) { return costs.cost * costs.traffic; }

}  // namespace

Place place_of(const Costs& own, std::span<const Costs> ladder) {
  constexpr double kBetter = 0.9;
  Place place;
  double nearest = INFINITY;
  for (size_t i = 0; i < ladder.size(); ++i) {
    const double away =
        log_ratio(ladder[i].cost, own.cost) + log_ratio(ladder[i].traffic, own.traffic);
    // Of several as near the last: their ideas are all in it.
    if (away > nearest + 1e-9) continue;
    nearest = away;
    place.like = i;
  }
  if (!place.like) return place;
  for (size_t i = *place.like + 1; i < ladder.size(); ++i) {
    if (burden(ladder[i]) > kBetter * burden(own)) continue;
    place.next = i;
    return place;
  }
  // Where the ladder's upper rungs are about other problems, the best of the lower ones.
  const auto best = std::ranges::min_element(ladder, {}, burden);
  if (burden(*best) <= kBetter * burden(own)) {
    place.next = static_cast<size_t>(best - ladder.begin());
  }
  return place;
}

}  // namespace ws::own_kernel
