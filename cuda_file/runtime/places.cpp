#include "cuda_file/runtime/places.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

// Of libbacktrace, which comes with GCC; its header lies where no other compiler looks.
extern "C" {
struct backtrace_state;
using BacktraceFailed = void (*)(void* data, const char* message, int error);
using BacktraceFound = int (*)(void* data, uintptr_t address, const char* file, int line,
                               const char* function);
backtrace_state* backtrace_create_state(const char* program, int threaded, BacktraceFailed fail,
                                        void* data);
using BacktraceFrame = int (*)(void* data, uintptr_t address);
int backtrace_simple(backtrace_state* state, int skip, BacktraceFrame frame, BacktraceFailed fail,
                     void* data);
int backtrace_pcinfo(backtrace_state* state, uintptr_t address, BacktraceFound found,
                     BacktraceFailed fail, void* data);
// Of the linker: where the program's own code is.
extern const char __executable_start;  // NOLINT
extern const char etext;
}

namespace ws::cuda_file {
namespace {

// What a std::source_location points to.
struct Line {
  const char* file = "";
  const char* function = "";
  uint32_t line = 0;
  uint32_t column = 0;
};

emulator::Place as_place(const Line& line) { return std::bit_cast<emulator::Place>(&line); }

void ignore(void*, const char*, int) {}

backtrace_state* debug_information() {
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignore, nullptr);
  return state;
}

bool is_in_program(uintptr_t address) {
  return address >= reinterpret_cast<uintptr_t>(&__executable_start) &&
         address < reinterpret_cast<uintptr_t>(&etext);
}

bool is_the_users(const char* file) {
  const std::string_view path = file != nullptr ? file : "";
  // Where the headers of CUDA stand, and the system's.
  return !path.empty() && path.find("/warpsmith_cuda/") == std::string_view::npos &&
         path.find("cuda_file/runtime/") == std::string_view::npos &&
         path.find("cuda_file/include/") == std::string_view::npos &&
         path.find("emulator/") == std::string_view::npos && !path.starts_with("/usr/") &&
         path.find("/include/c++/") == std::string_view::npos;
}

// The emulator's part of instructions, which stands in headers that a file may include. What it
// touches it looks at by itself.
bool is_the_emulators(std::string_view file) {
  return file.find("include/warpsmith/ptx/") != std::string_view::npos ||
         (file.find("emulator/") != std::string_view::npos && file.ends_with(".hpp"));
}

struct Found {
  bool in_emulator = false;
  const char* file = nullptr;
  const char* function = "";
  int line = 0;
};

// Inlined functions come before those that they are inlined into.
int take_first(void* data, uintptr_t, const char* file, int line, const char* function) {
  auto& found = *static_cast<Found*>(data);
  if (!is_the_users(file)) return 0;
  // Folders come as the compiler was told to name them (cuda_file/build.cpp).
  while (std::string_view(file).starts_with("./")) file += 2;
  found = {false, file, function != nullptr ? function : "", line};
  return 1;
}

// ... of an access, which may be the emulator's.
int take_access(void* data, uintptr_t address, const char* file, int line, const char* function) {
  auto& found = *static_cast<Found*>(data);
  found.in_emulator = is_the_emulators(file != nullptr ? file : "");
  return found.in_emulator ? 1 : take_first(data, address, file, line, function);
}

// In the program's own data, as a packed place asks for (emulator/place.hpp).
constexpr size_t kMostPlaces = size_t{1} << 16;
std::array<Line, kMostPlaces> lines;
std::atomic<size_t> lines_used = 0;
constinit Line in_emulator{};
std::mutex mutex;

}  // namespace

emulator::Place place_of_access(const void* address) {
  struct Known {
    const void* address = nullptr;
    const Line* line = nullptr;
  };
  constexpr size_t kKnown = 1024;
  thread_local std::array<Known, kKnown> cache;
  const auto number = reinterpret_cast<uintptr_t>(address);
  Known& known = cache[(number ^ number >> 10) % kKnown];
  if (known.address == address) return as_place(*known.line);

  static auto& by_address = *new std::map<const void*, const Line*>;
  static auto& on_line = *new std::map<std::pair<std::string_view, int>, uint32_t>;
  const std::lock_guard lock(mutex);
  const Line*& line = by_address[address];
  if (line == nullptr) {
    Found found;
    backtrace_pcinfo(debug_information(), number - 1, take_access, ignore, &found);
    const size_t slot = std::min(lines_used++, kMostPlaces - 1);
    if (found.file != nullptr) {
      const uint32_t column = ++on_line[{found.file, found.line}];
      lines[slot] = {found.file, found.function, static_cast<uint32_t>(found.line), column};
    }
    line = found.in_emulator ? &in_emulator : &lines[slot];
  }
  known = {address, line};
  return as_place(*line);
}

bool is_in_emulator(emulator::Place place) {
  return std::bit_cast<const Line*>(place) == &in_emulator;
}

CallStack call_stack_at(uintptr_t address) {
  CallStack stack;
  stack.addresses[stack.count++] = address;
  const auto add = [](void* data, uintptr_t caller) {
    auto& to = *static_cast<CallStack*>(data);
    to.addresses[to.count++] = caller;
    return to.count == to.addresses.size() ? 1 : 0;
  };
  backtrace_simple(debug_information(), 0, add, ignore, &stack);
  return stack;
}

emulator::Place place_of(const CallStack& stack) {
  Found found;
  for (size_t i = 0; i < stack.count && found.file == nullptr; ++i) {
    if (!is_in_program(stack.addresses[i])) continue;  // libraries may have lines of their own
    backtrace_pcinfo(debug_information(), stack.addresses[i], take_first, ignore, &found);
  }
  const std::lock_guard lock(mutex);
  Line& line = lines[std::min(lines_used++, kMostPlaces - 1)];
  if (found.file != nullptr) {
    line = {found.file, found.function, static_cast<uint32_t>(found.line), 0};
  }
  return as_place(line);
}

}  // namespace ws::cuda_file
