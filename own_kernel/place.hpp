// Where a kernel stands in the ladder, by what it costs, and which rung comes next.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace ws::own_kernel {

// What a kernel, of which the ladder names the rung, costs on the problem.
struct Costs {
  const Rung* rung = nullptr;
  double cost = 0;     // clocks, or a time
  double traffic = 1;  // of what must move; 1 where it was not counted
};

struct Place {
  std::optional<size_t> like;  // the rung whose cost and traffic are nearest
  // The first one above it that is better by a tenth, in cost times traffic, else the best if that
  // is; none: at the top.
  std::optional<size_t> next;
};

// `ladder` in teaching order.
Place place_of(const Costs& own, std::span<const Costs> ladder);

}  // namespace ws::own_kernel
