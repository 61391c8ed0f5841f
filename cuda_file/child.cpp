#include "cuda_file/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction, kill
#include <sys/prctl.h>
#include <sys/stat.h>
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

// A process and all that it has started, as g++ starts cc1plus.
std::vector<pid_t> family_of(pid_t child) {
  std::vector<pid_t> all{child};
  for (size_t i = 0; i < all.size(); ++i) {
    std::error_code error;
    for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", all[i]), error)) {
      std::ifstream children(task.path() / "children");
      for (pid_t started = 0; children >> started;) all.push_back(started);
    }
  }
  return all;
}

uint64_t resident_bytes(pid_t child) {
  std::ifstream statm(fmt::format("/proc/{}/statm", child));
  uint64_t all = 0;
  uint64_t resident = 0;
  statm >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t resident_bytes(const std::vector<pid_t>& family) {
  uint64_t sum = 0;
  for (const pid_t one : family) sum += resident_bytes(one);
  return sum;
}

// What the child has written into files that are its stdout and stderr.
class Written {
 public:
  explicit Written(const fs::path& output) : output_(output) {
    for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
      before_.push_back(output.empty() ? bytes_of(file) : 0);
    }
  }
  uint64_t bytes() const {
    if (!output_.empty()) {
      struct stat about{};
      return stat(output_.c_str(), &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
    }
    uint64_t most = 0;
    for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
      const uint64_t now = bytes_of(file);
      const uint64_t before = before_[static_cast<size_t>(file - STDOUT_FILENO)];
      most = std::max(most, now > before ? now - before : 0);
    }
    return most;
  }

 private:
  static uint64_t bytes_of(int file) {
    struct stat about{};
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return 0;
    return static_cast<uint64_t>(about.st_size);
  }

  const fs::path& output_;
  std::vector<uint64_t> before_;
};

// Whoever does not handle it ends at once.
int signal_of(Limit limit) {
  switch (limit) {
    case Limit::kTime: return SIGALRM;
    case Limit::kMemory: return SIGXCPU;
    case Limit::kOutput: return SIGXFSZ;
    case Limit::kNone: break;
  }
  return 0;
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
  const Written written(options.output);
  const pid_t child = start(command, options);
  ChildEnd end;
  auto nap = std::chrono::milliseconds(1);
  std::optional<Clock::time_point> told;
  std::vector<pid_t> family;  // when it was told
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
      if (options.memory_bytes > 0 && resident_bytes(family_of(child)) > options.memory_bytes) {
        end.limit = Limit::kMemory;
      }
      if (options.output_bytes > 0 && written.bytes() > options.output_bytes) {
        end.limit = Limit::kOutput;
      }
      if (end.limit != Limit::kNone) {
        told = Clock::now();
        family = family_of(child);
        kill(child, signal_of(end.limit));
      }
    } else if (!killed && seconds_since(*told) > kGrace) {
      killed = true;
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, kLongestNap);
  }
  // What it had started goes on without it.
  for (size_t i = 1; i < family.size(); ++i) kill(family[i], SIGKILL);
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
