// What the verbs say of a profile's lines.
#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "harness/profile.hpp"

namespace ws::cli {

using harness::remarks_on;
using harness::short_place;
using harness::source_of;

// What a profile adds up to; empty where it saw no memory.
std::string totals_text(const Profile& profile);
// A row of numbers for each of the dearest lines, and below it the source and what there is to say.
std::string lines_text(const Profile& profile, std::string_view family, size_t most);

// A rung on a small problem: its three dearest lines; none where it takes no small problem.
struct Worst {
  std::string problem;
  double cost = 0;  // of all lines
  std::vector<ProfileLine> lines;
};
Worst worst_lines(const harness::Target& target, DType dtype);
Json to_json(const Worst& worst);
std::string text_of(const Worst& worst);
// What a warp asks for at these lines, drawn; each picture once.
std::string pictures_of(const Worst& worst, size_t most);
// A text of the file, or differences to it, with a mark below each of its worst lines.
std::string marked(const std::string& text, std::string_view file, const Worst& worst);

}  // namespace ws::cli
