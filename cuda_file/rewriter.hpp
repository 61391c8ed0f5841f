// From a CUDA file to one that the host compiler takes: launches, __shared__ and device variables
// are said in C++; all else, and every line's number, stays.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ws::cuda_file {

// One of the file's own sources, rewritten.
struct RewrittenFile {
  std::filesystem::path source;
  std::string name;  // in the folder that they are written to
  std::string text;
};

// A word that says that something is not supported, if the compiler stumbles on its line.
struct Suspect {
  std::string file;
  int line;
  std::string why;
};

struct Rewritten {
  std::vector<RewrittenFile> files;  // the first one is compiled and includes the others
  std::vector<Suspect> suspects;
};

// With the files that it includes by their names in quotes, from its own folder and `folders`.
// Throws InvalidArgument where one cannot be read.
Rewritten rewrite(const std::filesystem::path& source, const std::vector<std::string>& folders);

}  // namespace ws::cuda_file
