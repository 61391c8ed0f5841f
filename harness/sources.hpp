// The kernels' sources inside the program.
#pragma once

#include <string>
#include <string_view>

#include "catalogue/catalogue.hpp"

namespace ws::harness {

// A rung's file: "kernels/softmax/04_warp_per_row.cuh". Throws where the build has none.
std::string_view path_of(const Family& family, const Rung& rung);
std::string_view text_of(std::string_view path);

// The comment at the top of a file, without its slashes.
std::string header_comment(std::string_view text);

// Unified differences between two texts, line by line; empty where they are equal.
std::string differences(std::string_view before, std::string_view after);

}  // namespace ws::harness
