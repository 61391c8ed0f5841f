// Cases that no list has: what stands in a list, mixed and moved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace ws::harness {

// `count` cases, or fewer where the operation takes too few such: each a case of the list, of whose
// extents and attributes some are those of another, some moved by one or by a factor, or anything
// between the least and the largest in their place. None costs more than the list's dearest.
// The same for the same arguments.
std::vector<Case> random_cases(const Operation& operation, DType dtype, std::span<const Case> list,
                               size_t count, uint64_t seed);

}  // namespace ws::harness
