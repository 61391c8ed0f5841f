// What the build puts inside the library: the kernels' sources, the list of seeds, the revision.
#pragma once

#include <span>
#include <string_view>

namespace ws {

struct EmbeddedFile {
  std::string_view path;  // from the repository's root: "kernels/softmax/01_naive.cuh"
  std::string_view text;
};

// Made by cmake/embed.cmake.
std::span<const EmbeddedFile> embedded_files();
extern const char* const kRevision;  // `git describe` of the sources; "unknown" without git

}  // namespace ws
