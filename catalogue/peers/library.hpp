// Vendor libraries, found when a peer is first asked for: nothing links them.
//
// Places, in order: the folders of WARPSMITH_LIBRARY_PATH (separated by colons); what the loader
// finds by name (LD_LIBRARY_PATH, its cache, libraries that torch has loaded already); CUDA_HOME
// and /usr/local/cuda*; the nvidia/*/lib folders of the Python on PATH and of VIRTUAL_ENV.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace ws::peers {

class Library {
 public:
  // The first that opens of `names` (file names, newest version first); loaded for good.
  explicit Library(std::initializer_list<std::string_view> names);

  bool found() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }        // where it was found
  const std::string& missing() const { return missing_; }  // why not, and what to do

  // A function by name; throws ws::Error where the library lacks it.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
  std::string missing_;
};

// What `doctor` says about the vendor libraries of this build.
struct LibraryStatus {
  std::string name;
  bool found = false;
  std::string text;  // path and version, or what is missing and how to get it
};
std::vector<LibraryStatus> library_status();  // of all, by name

// Makes a library known to library_status(): who loads one has an object of this at namespace
// scope.
class LibraryReport {
 public:
  explicit LibraryReport(LibraryStatus (*status)());
};

}  // namespace ws::peers
