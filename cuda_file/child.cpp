#include "cuda_file/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction, kill
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "warpsmith/error.hpp"

extern char** environ;

namespace ws::cuda_file {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

uint64_t resident_bytes(pid_t child) {
  std::ifstream statm(fmt::format("/proc/{}/statm", child));
  uint64_t all = 0;
  uint64_t resident = 0;
  statm >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!more.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

constexpr int kCannotStart = 127;

pid_t start(std::vector<std::string> command, const ChildOptions& options) {
  std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0)
    throw Error(concatenate("no process for ", command[0], ": ", std::strerror(errno)));
  if (child > 0) return child;
  // From here on nothing that another thread's lock could hold up.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStart);
  if (!options.output.empty()) {
    const int file = open(options.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) _exit(kCannotStart);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
  }
  if (!options.working_folder.empty() && chdir(options.working_folder.c_str()) != 0) {
    _exit(kCannotStart);
  }
  execvpe(arguments[0], arguments.data(), variables.data());
  _exit(kCannotStart);
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command, const ChildOptions& options) {
  constexpr auto kLongestNap = std::chrono::milliseconds(20);
  constexpr double kGrace = 3;  // seconds, to say where it is
  const auto begin = Clock::now();
  const pid_t child = start(command, options);
  ChildEnd end;
  auto nap = std::chrono::milliseconds(1);
  std::optional<Clock::time_point> told;
  bool killed = false;
  int status = 0;
  for (;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child) break;
    if (done < 0 && errno != EINTR) {
      throw Error(concatenate("waiting for ", command[0], ": ", std::strerror(errno)));
    }
    if (!told) {
      if (options.seconds > 0 && seconds_since(begin) > options.seconds) end.limit = Limit::kTime;
      if (options.memory_bytes > 0 && resident_bytes(child) > options.memory_bytes) {
        end.limit = Limit::kMemory;
      }
      if (end.limit != Limit::kNone) {
        told = Clock::now();
        kill(child, end.limit == Limit::kTime ? SIGALRM : SIGXCPU);
      }
    } else if (!killed && seconds_since(*told) > kGrace) {
      killed = true;
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, kLongestNap);
  }
  end.seconds = seconds_since(begin);
  if (WIFEXITED(status)) {
    end.exit_code = WEXITSTATUS(status);
  } else if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
  }
  return end;
}

std::shared_ptr<fs::path> temporary_folder() {
  std::string name = (fs::temp_directory_path() / "warpsmith-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(concatenate("no temporary folder ", name, ": ", std::strerror(errno)));
  }
  return {new fs::path(name), [](const fs::path* path) {
            std::error_code ignored;
            fs::remove_all(*path, ignored);
            delete path;
          }};
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace ws::cuda_file
