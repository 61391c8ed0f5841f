// Runs the program that lies beside the test, and keeps what it prints and returns.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ws::tests {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The program lies beside this test.
inline std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "warpsmith").string();
}

// Calls a program, the first word by its path, with both outputs in files.
inline Outcome outcome_of(std::vector<std::string> words) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("warpsmith_cli_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string out = folder / "out";
  const std::string err = folder / "err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  Outcome outcome;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0) {
    int status = 0;
    waitpid(pid, &status, 0);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  posix_spawn_file_actions_destroy(&actions);
  outcome.out = read_file(out);
  outcome.err = read_file(err);
  std::filesystem::remove_all(folder);
  return outcome;
}

inline Outcome warpsmith(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program());
  return outcome_of(std::move(arguments));
}

// In characters: the first byte of each is no 10xxxxxx.
inline size_t longest_line(const std::string& text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto characters =
        std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; });
    longest = std::max(longest, static_cast<size_t>(characters));
  }
  return longest;
}

}  // namespace ws::tests
