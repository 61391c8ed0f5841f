#include "cuda_file/nvcc.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "cuda_file/child.hpp"

namespace ws::cuda_file {

namespace fs = std::filesystem;

std::string find_program(const std::string& name, std::vector<std::string> folders) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    folders.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  for (const std::string& folder : folders) {
    const std::string program = folder + "/" + name;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

std::string find_nvcc() {
  std::vector<std::string> folders;
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/bin");
  std::string found = find_program("nvcc", std::move(folders));
  constexpr const char* kUsual = "/usr/local/cuda/bin/nvcc";
  if (found.empty() && access(kUsual, X_OK) == 0) found = kUsual;
  return found;
}

std::string target_option(const std::string& capability) {
  static const std::regex kCapability(R"(^(\d+)\.(\d)\s*$)");
  std::smatch match;
  if (!std::regex_match(capability, match, kCapability)) return "-arch=native";
  std::string number = match[1].str() + match[2].str();
  // wgmma and the copy engine's multicast need the `a` target, which `native` does not name.
  if (std::stoi(number) >= 90) number += "a";
  return "-gencode=arch=compute_" + number + ",code=sm_" + number;
}

std::string capability_here() {
  const std::string program = find_program("nvidia-smi");
  if (program.empty()) return {};
  const std::shared_ptr<fs::path> folder = temporary_folder();
  const fs::path output = *folder / "capability";
  const ChildEnd end = run_child({program, "--query-gpu=compute_cap", "--format=csv,noheader"},
                                 {.output = output, .seconds = 20});
  if (end.exit_code != 0 || end.signal != 0) return {};
  const std::string text = text_of(output);
  return text.substr(0, text.find('\n'));
}

std::vector<std::string> nvcc_command(const std::string& nvcc, const std::string& target,
                                      const fs::path& source, const fs::path& program,
                                      const std::vector<fs::path>& headers,
                                      const BuildOptions& options) {
  std::vector<std::string> command = {nvcc,
                                      "-std=c++20",
                                      "-O3",
                                      "-lineinfo",
                                      "--extended-lambda",
                                      "--expt-relaxed-constexpr",
                                      target,
                                      source.string(),
                                      "-o",
                                      program.string()};
  // The user's own come first: theirs may be the real ones of what ours stand for.
  for (const std::string& in : options.include_folders) command.push_back("-I" + in);
  for (const fs::path& in : headers) command.push_back("-I" + in.string());
  for (const std::string& definition : options.definitions) command.push_back("-D" + definition);
  for (const std::string& library : options.libraries) command.push_back("-l" + library);
  return command;
}

std::vector<Diagnostic> nvcc_diagnostics(const std::string& output) {
  // nvcc:         my.cu(12): error: identifier "x" is undefined
  // g++:          my.cu:12:5: error: ...
  // ptxas, nvcc:  ptxas error   : Entry function 'k' uses too much shared data ...
  // ld:           undefined reference to `f()'
  static const std::regex kOfNvcc(
      R"(^(.+?)\((\d+)\): (?:catastrophic )?(error|warning)(?: #\d+-D)?: (.*)$)");
  static const std::regex kOfHost(R"(^(.+?):(\d+)(?::(\d+))?: (?:fatal )?(error|warning): (.*)$)");
  static const std::regex kOfTool(R"(^(ptxas|nvcc|nvlink|cicc)\s+(?:error|fatal)\s*: (.*)$)");
  static const std::regex kOfLinker(R"(^.*((?:undefined reference to|cannot find) .*)$)");
  std::vector<Diagnostic> all;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    Diagnostic d;
    if (std::regex_match(line, m, kOfNvcc)) {
      d = {m[1], std::stoi(m[2]), 0, m[3], m[4]};
    } else if (std::regex_match(line, m, kOfHost)) {
      d = {m[1], std::stoi(m[2]), m[3].matched ? std::stoi(m[3]) : 0, m[4], m[5]};
    } else if (std::regex_match(line, m, kOfTool)) {
      d = {m[1], 0, 0, "error", m[2]};
    } else if (std::regex_match(line, m, kOfLinker)) {
      d = {"ld", 0, 0, "error", m[1]};
    } else {
      continue;
    }
    const bool again = std::ranges::any_of(all, [&](const Diagnostic& other) {
      return other.file == d.file && other.line == d.line && other.message == d.message;
    });
    if (!again) all.push_back(std::move(d));
  }
  return all;
}

}  // namespace ws::cuda_file
