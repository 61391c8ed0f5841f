// What the program draws in text: bars, and what a warp's lanes reach in memory.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warpsmith/profile.hpp"

namespace ws::cli {

// A row of a chart.
struct Bar {
  std::string name;
  double value = 0;
  double full = 0;   // of the value, drawn solid; the rest is light
  std::string text;  // behind the bar
  bool stands_out = false;
};

// A line down through all rows.
struct Mark {
  double at = 0;
  std::string name;
};

// As wide as the terminal, or 100 columns where there is none; empty where no bar would fit.
std::string chart(std::span<const Bar> bars, std::span<const Mark> marks = {});

// What the lanes of a warp reach: of global memory the sectors that come along, of shared memory
// the passes over its banks. Empty where nothing was seen.
std::string picture(const WarpAccess& access);
// How it comes out in a word: "32 sectors for 128 bytes".
std::string in_words(const WarpAccess& access);

}  // namespace ws::cli
