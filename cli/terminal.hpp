// The terminal that the program prints to, if there is one.
#pragma once

#include <cstddef>

namespace ws::cli {

// Columns of the terminal behind a file descriptor; 100 where there is none.
size_t width_of(int descriptor);
// Whether stdout is a terminal that its user wants colours on.
bool has_colors();

}  // namespace ws::cli
