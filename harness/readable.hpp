// Messages that hold what somebody gave: fit for a terminal and a log, whatever it was.
#pragma once

#include <string>
#include <string_view>

namespace ws::harness {

// The text on one line, apart from lines that begin with two spaces, as those of ws::Error do.
// Control characters and bytes that are no UTF-8 are written as \x1b, a long word is cut.
std::string readable(std::string_view text);

}  // namespace ws::harness
