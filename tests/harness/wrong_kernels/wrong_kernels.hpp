// A family for tests alone: one operation, a right rung, and rungs that are each wrong in one way.
//
//   center   y[r, c] = x[r, c] - mean(x[r, :])
#pragma once

#include <string_view>

#include "catalogue/catalogue.hpp"

namespace ws::wrong {

extern const Family kFamily;

const Operation& center();
const Rung& rung(std::string_view name);

}  // namespace ws::wrong
