#include "catalogue/peers/library.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>

#include "warpsmith/error.hpp"

namespace ws::peers {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

void add_matches(const std::string& pattern, std::vector<std::string>& paths) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
}

std::vector<std::string> candidates(std::string_view name) {
  std::vector<std::string> paths;
  const std::string file(name);
  for (const std::string& folder : split(environment("WARPSMITH_LIBRARY_PATH"))) {
    paths.push_back(folder + "/" + file);
  }
  paths.push_back(file);
  if (const std::string home = environment("CUDA_HOME"); !home.empty()) {
    paths.push_back(home + "/lib64/" + file);
  }
  add_matches("/usr/local/cuda*/lib64/" + file, paths);
  std::vector<std::string> prefixes;
  if (const std::string venv = environment("VIRTUAL_ENV"); !venv.empty()) prefixes.push_back(venv);
  for (const std::string& folder : split(environment("PATH"))) {
    const std::string above = folder.substr(0, folder.find_last_of('/'));
    if (folder.ends_with("/bin") && !above.empty()) prefixes.push_back(above);
  }
  for (const std::string& prefix : prefixes) {
    add_matches(prefix + "/lib/python3*/site-packages/nvidia/*/lib/" + file, paths);
  }
  return paths;
}

}  // namespace

Library::Library(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const std::string& path : candidates(name)) {
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ == nullptr) continue;
      path_ = path;
      return;
    }
  }
  missing_ =
      concatenate(*names.begin(),
                  " is in none of the places searched: install the CUDA toolkit's or torch's "
                  "CUDA packages, or name its folder in WARPSMITH_LIBRARY_PATH");
}

void* Library::address(const char* name) const {
  void* found = handle_ == nullptr ? nullptr : dlsym(handle_, name);
  if (found == nullptr) throw Error(concatenate(path_, " has no function ", name));
  return found;
}

namespace {
std::vector<LibraryStatus (*)()>& reports() {
  static std::vector<LibraryStatus (*)()> all;
  return all;
}
}  // namespace

LibraryReport::LibraryReport(LibraryStatus (*status)()) { reports().push_back(status); }

std::vector<LibraryStatus> library_status() {
  std::vector<LibraryStatus> statuses;
  for (LibraryStatus (*const status)() : reports()) statuses.push_back(status());
  std::ranges::sort(statuses, {}, &LibraryStatus::name);
  return statuses;
}

}  // namespace ws::peers
