// A program as a child process, with limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ws::cuda_file {

struct ChildOptions {
  std::map<std::string, std::string> environment{};  // beside this process's own
  std::filesystem::path working_folder{};            // empty: this process's
  std::filesystem::path output{};  // a file for stdout and stderr; empty: this process's
  double seconds = 0;              // 0: no limit
  uint64_t memory_bytes = 0;       // resident, its own children's too; 0: no limit
  uint64_t output_bytes = 0;       // of stdout and of stderr, where they are files; 0: no limit
};

enum class Limit { kNone, kTime, kMemory, kOutput };

struct ChildEnd {
  int exit_code = 0;  // if it ended by itself
  int signal = 0;     // else
  Limit limit = Limit::kNone;
  double seconds = 0;
};

// Waits until it has ended. At a limit it is told (SIGALRM: time, SIGXCPU: memory, SIGXFSZ:
// output), so that it can say where it is, and soon after it is killed with all that it has
// started.
ChildEnd run_child(const std::vector<std::string>& command, const ChildOptions& options);

// A folder that is removed with its last owner.
std::shared_ptr<std::filesystem::path> temporary_folder();

std::string text_of(const std::filesystem::path& file);

}  // namespace ws::cuda_file
