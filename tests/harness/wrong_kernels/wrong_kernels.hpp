// A family for tests alone: right rungs, and rungs that are each wrong in one way.
//
//   center       y[r, c] = x[r, c] - mean(x[r, :])
//   summary      of a matrix x: y as of center; lse[r] = log(sum(exp(x[r, :]))), f32; largest[r],
//                the column of the row's maximum, i64; sums[c] of the columns, f32
//   accumulate   sum[r, c] += x[r, c], in the caller's own memory
#pragma once

#include <string_view>

#include "catalogue/catalogue.hpp"

namespace ws::wrong {

extern const Family kFamily;

const Operation& center();
const Operation& summary();
const Operation& accumulate();
const Rung& rung(std::string_view name);

}  // namespace ws::wrong
