// An ordinary CUDA file, unchanged: built with the host compiler, run in the emulator as a process
// of its own, and told about as data. What `warpsmith run` is made of; docs/run.md tells how.
//
//   const Built built = build("my.cu");
//   if (!built.ok()) ...  // built.diagnostics: what does not compile, or is not supported
//   const Outcome outcome = run(built, {.profile = true});
//   outcome.faults, .launches, .counts, .profile, .exit_code
//
// A program around somebody's kernel is a file that includes theirs: `#include "/path/my.cu"`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "warpsmith/profile.hpp"

namespace ws::cuda_file {

using Json = nlohmann::ordered_json;

// ---- Build -------------------------------------------------------------------------------------

struct BuildOptions {
  std::vector<std::string> include_folders{};  // beside the file's own, as -I
  std::vector<std::string> definitions{};      // as -D: "N=1024"
  std::filesystem::path folder{};  // keeps the rewritten sources and the program; empty: temporary
  bool with_nvcc = false;          // for a GPU; then there are no faults, counts and profile
  std::vector<std::string> libraries{};  // of CUDA's, as -l: "cublas"; with nvcc only
  double seconds = 60;                   // of the compiler: then it is stopped
  uint64_t memory_bytes = uint64_t{4} << 30;
};

// One message on the file, at its own line.
struct Diagnostic {
  std::string file;  // as it was named
  int line = 0;
  int column = 0;
  std::string kind;  // "error", "warning", "not supported"
  std::string message;
};

// A program, or why there is none. What it keeps on disk lives as long as it, unless the options
// named a folder.
struct Built {
  std::filesystem::path source;
  std::filesystem::path program;
  std::vector<Diagnostic> diagnostics;  // in the order of the file
  std::string compiler_output;          // all that the compiler said
  double seconds = 0;
  bool with_nvcc = false;
  std::shared_ptr<void> temporary;  // removes the folder, if it is a temporary one

  bool ok() const { return !program.empty(); }
};

// Throws InvalidArgument where the file cannot be read or there is no nvcc.
Built build(const std::filesystem::path& source, const BuildOptions& options = {});

// The file as the host compiler gets it.
std::string rewritten(const std::filesystem::path& source);

std::string to_string(const Diagnostic& diagnostic);  // "my.cu:12:5: error: ..."

// ---- Run ---------------------------------------------------------------------------------------

inline constexpr uint64_t kOutputBytes = 64'000'000;

struct RunOptions {
  std::vector<std::string> arguments{};  // the program's
  std::string order = "forward";         // of threads: forward, reverse, random
  uint64_t seed = 0;                     // of random
  bool profile = false;
  bool capture = false;                       // keep what it prints in Outcome::output
  std::filesystem::path working_folder{};     // empty: the caller's
  double seconds = 60;                        // then it is stopped
  uint64_t memory_bytes = uint64_t{4} << 30;  // the same; device memory counts
  uint64_t output_bytes = kOutputBytes;       // the same; captured, or into a file
};

// Three numbers as CUDA has them: x, y, z.
using Extent3 = std::array<int64_t, 3>;

struct FaultReport {
  // As the emulator names them (docs/emulator.md): "race", "divergence", "out of range" ...; beside
  // these "illegal address" (a kernel reaches host memory), "host access" (the host reaches device
  // memory), "launch" (CUDA refused one and nobody asked), "assertion", "time", "memory", "output",
  // "crash".
  std::string kind;
  std::string message;  // without the kind
  std::string file;     // empty: not known
  int line = 0;
  std::string kernel;  // empty: in the host's code
  std::optional<Extent3> block;
  std::optional<Extent3> thread;
  std::string launch;  // "my.cu:31: blocks=4 threads=256 shared=1024"
  std::string order;   // of threads, in which it shows

  std::string text() const;  // all of it, as `warpsmith run` prints it
};

// All launches of one kernel at one line.
struct LaunchReport {
  std::string kernel;  // as the file calls it: "reduce<256>"
  std::string file;
  int line = 0;
  uint64_t launches = 0;
  Extent3 grid{};  // of the last of them
  Extent3 block{};
  int64_t static_shared = 0;  // bytes
  int64_t dynamic_shared = 0;
  std::map<std::string, uint64_t> counts;  // by the names of emulator::to_string(Count), summed
};

enum class End { kExited, kFault, kTime, kMemory, kOutput, kSignal };

struct Outcome {
  End end = End::kExited;
  int exit_code = 0;  // the program's own, or its signal's number
  std::vector<FaultReport> faults;
  std::vector<LaunchReport> launches;
  std::map<std::string, uint64_t> counts;  // of all launches
  std::optional<Profile> profile;
  std::string output;        // stdout and stderr, if captured
  bool times_asked = false;  // it measured with events: what it found means nothing
  double seconds = 0;

  bool ok() const { return end == End::kExited && exit_code == 0 && faults.empty(); }
};

// Runs the program to its end or a limit; never throws for what the program does.
Outcome run(const Built& built, const RunOptions& options = {});

Json to_json(const Built& built);
Json to_json(const Outcome& outcome);

}  // namespace ws::cuda_file
