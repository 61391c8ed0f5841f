#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>

#include "cuda_file/child.hpp"
#include "cuda_file/cuda_file.hpp"
#include "cuda_file/nvcc.hpp"
#include "cuda_file/rewriter.hpp"
#include "warpsmith/error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cuda_file {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) throw Error(concatenate(path.string(), " cannot be written"));
}

// ---- What the compiler is called with ----------------------------------------------------------

struct Toolchain {
  std::string compiler;
  std::vector<fs::path> headers;  // in the first cuda_runtime.h; then warpsmith/ and what it needs
  std::vector<std::string> libraries;
};

// A warpsmith that was installed has headers and libraries beside it, in run/, and takes this
// machine's g++; one in a build folder has what that build was made with.
const Toolchain& toolchain() {
  static const Toolchain kFound = [] {
    const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "run";
    if (!fs::is_directory(beside)) {
      const fs::path root = WS_SOURCE_FOLDER;
      return Toolchain{WS_COMPILER,
                       {root / "cuda_file" / "include", root / "include", root},
                       {WS_PROGRAM_LIBRARIES}};
    }
    return Toolchain{"g++",
                     {beside / "include"},
                     {beside / "libwarpsmith_cuda_file.a", beside / "libboost_context.a"}};
  }();
  return kFound;
}

std::vector<std::string> compile_command() {
  std::vector<std::string> command = {
      toolchain().compiler,
      "-std=gnu++20",
      "-g",
      "-pthread",
      // Enough that temporaries are in registers; structs stay in one piece, so that a float4 is
      // one access.
      "-O1",
      "-fno-tree-sra",
      // What a function returns or takes is a variable before it goes to memory or after it has
      // come from there: of calls themselves the accesses are not told.
      "-fno-elide-constructors",
      // Files keep the names that they were given.
      "-fdebug-prefix-map=" + fs::current_path().string() + "=.",
      // Calls at each access to memory, which our own functions take.
      "-fsanitize=thread",
      "--param=tsan-instrument-func-entry-exit=0",
      "--param=tsan-distinguish-volatile=1",
      // Device and host code are compiled at once, for what a Hopper can do.
      "-DWS_EMULATED=1",
      "-D__CUDACC__=1",
      "-D__NVCC__=1",
      "-D__CUDACC_VER_MAJOR__=12",
      "-D__CUDACC_VER_MINOR__=8",
      "-D__CUDA_ARCH__=900",
      // What nvcc does not mind either.
      "-fpermissive",
      "-w",
      "-fdiagnostics-color=never",
      "-fmax-errors=20",
  };
  for (const fs::path& folder : toolchain().headers) command.push_back("-I" + folder.string());
  return command;
}

// By nvcc, for the GPU here. The samples' headers are put where none of the emulator's own is
// beside it, which would stand for CUDA's.
std::vector<std::string> cuda_command(const fs::path& source, const fs::path& program,
                                      const fs::path& folder, const BuildOptions& options) {
  const std::string nvcc = find_nvcc();
  require(!nvcc.empty(),
          "there is no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda; without --cuda the "
          "emulated build runs the file");
  const fs::path samples = folder / "samples";
  std::vector<fs::path> headers{samples};
  fs::create_directories(samples);
  for (const fs::path& in : toolchain().headers) {
    if (!fs::exists(in / "helper_cuda.h")) {
      headers.push_back(in);
      continue;
    }
    for (const char* name : {"helper_cuda.h", "helper_functions.h"}) {
      fs::copy_file(in / name, samples / name, fs::copy_options::overwrite_existing);
    }
  }
  return nvcc_command(nvcc, target_option(capability_here()), source, program, headers, options);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + "\n";
  return text;
}

fs::path cache_folder() {
  if (const char* named = std::getenv("XDG_CACHE_HOME"); named != nullptr && *named != '\0') {
    return fs::path(named) / "warpsmith";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return fs::path(home) / ".cache" / "warpsmith";
  }
  return fs::temp_directory_path() / fmt::format("warpsmith-{}", getuid());
}

// The folder with warpsmith_cuda/first.hpp precompiled for this command; made when it is missing or
// older than what it consists of. Empty where that does not work: all compiles without, slower.
fs::path precompiled(const std::vector<std::string>& command, double seconds) {
  const fs::path& headers = toolchain().headers.front();
  // Of the folder that it is called in the command names the path, and nothing else.
  std::string known = joined(command);
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(headers, error)) {
    if (!entry.is_regular_file()) continue;
    known += fmt::format("{} {}\n", entry.path().string(),
                         entry.last_write_time().time_since_epoch().count());
  }
  const auto stamp = fs::last_write_time(toolchain().compiler, error);
  if (!error) known += std::to_string(stamp.time_since_epoch().count());
  fs::path folder = cache_folder() / fmt::format("cuda-{:016x}", std::hash<std::string>()(known));
  const fs::path header = folder / "warpsmith_cuda" / "first.hpp";
  const fs::path result = header.string() + ".gch";
  if (fs::exists(result) && fs::exists(header)) return folder;
  fs::create_directories(header.parent_path(), error);
  if (error) return {};
  // For the files that another one includes: only what comes first can be taken precompiled.
  write_file(header, "#include <cuda_runtime.h>\n");
  // Another process may do the same at the same time.
  const fs::path made = folder / fmt::format("making-{}", getpid());
  std::vector<std::string> making = command;
  making.insert(making.end(),
                {"-x", "c++-header", (headers / "cuda_runtime.h").string(), "-o", made.string()});
  const ChildEnd end =
      run_child(making, {.output = folder / fmt::format("log-{}", getpid()), .seconds = seconds});
  fs::remove(folder / fmt::format("log-{}", getpid()), error);
  if (end.exit_code != 0 || end.signal != 0) return {};
  fs::rename(made, result, error);
  return error ? fs::path() : folder;
}

// ---- What the compiler says --------------------------------------------------------------------

// An error at a name that looks like CUDA's and that nobody here has declared.
std::string unknown_in(const std::string& message) {
  static const std::regex kName(
      R"('((?:cuda[A-Z]|__)\w*)' (?:was not declared|does not name a type|has not been declared))");
  static const std::regex kMember(
      R"('(?:const |struct |class )*((?:cuda[A-Z]|cooperative_groups::|nvcuda::)[^']*)' has no member )"
      R"(named '(\w+)')");
  static const std::regex kOfNamespace(
      R"('(\w+)' is not a member of '((?:cooperative_groups|nvcuda)[\w:]*)')");
  static const std::regex kMeant(R"(; did you mean '.*'\?$)");
  std::smatch match;
  std::string name;
  if (std::regex_search(message, match, kName)) {
    name = match[1];
  } else if (std::regex_search(message, match, kMember)) {
    name = match[1].str() + "::" + match[2].str();
  } else if (std::regex_search(message, match, kOfNamespace)) {
    name = match[2].str() + "::" + match[1].str();
  } else {
    return {};
  }
  std::string why = name + ", unless it is misspelled";
  if (std::regex_search(message, match, kMeant)) why += match[0];
  return why;
}

// Where in the user's files a template of ours was asked for.
class AskedFor {
 public:
  void take(const std::string& line) {
    static const std::regex kNew(R"(^.+?: In .*:$|^.+?: At global scope:$)");
    static const std::regex kFrom(R"(^(.+?):(\d+):(\d+):\s+(?:recursively )?required from .*$)");
    std::smatch match;
    if (std::regex_match(line, kNew)) at_.reset();
    if (!at_ && std::regex_match(line, match, kFrom) && !is_ours(match[1])) {
      at_ = {match[1], std::stoi(match[2]), std::stoi(match[3]), {}, {}};
    }
  }
  void put_in(Diagnostic& d) const {
    if (!at_ || !is_ours(d.file)) return;
    d.file = at_->file;
    d.line = at_->line;
    d.column = at_->column;
  }

 private:
  static bool is_ours(const std::string& file) {
    return file.starts_with(toolchain().headers.front().string());
  }

  std::optional<Diagnostic> at_;
};

void take_beginning(Diagnostic& d, std::string_view beginning) {
  if (d.message.starts_with(beginning)) d.message.erase(0, beginning.size());
}

std::vector<Diagnostic> diagnostics_of(const std::string& output,
                                       const std::vector<Suspect>& suspects) {
  static const std::regex kLine(R"(^(.+?):(\d+)(?::(\d+))?: (fatal error|error|warning): (.*)$)");
  std::vector<Diagnostic> all;
  AskedFor asked_for;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    asked_for.take(line);
    if (!std::regex_match(line, match, kLine)) continue;
    Diagnostic d{match[1], std::stoi(match[2]), match[3].matched ? std::stoi(match[3]) : 0,
                 match[4] == "warning" ? "warning" : "error", match[5]};
    asked_for.put_in(d);
    take_beginning(d, "static assertion failed: ");
    take_beginning(d, "#error ");
    constexpr std::string_view kNot = "not supported: ";
    if (d.message.starts_with(kNot)) {
      d.kind = "not supported";
      d.message.erase(0, kNot.size());
    } else if (d.kind == "error") {
      std::string why = unknown_in(d.message);
      for (const Suspect& suspect : suspects) {
        if (suspect.file == d.file && suspect.line == d.line) why = suspect.why;
      }
      if (!why.empty()) {
        d.kind = "not supported";
        d.message = std::move(why);
      }
    }
    if (d.kind == "error" && !all.empty() && all.back().kind == "not supported") continue;
    const bool again = std::ranges::any_of(all, [&](const Diagnostic& other) {
      return other.file == d.file && other.line == d.line && other.kind == d.kind &&
             other.message == d.message;
    });
    if (!again) all.push_back(std::move(d));
  }
  return all;
}

std::string limit_text(Limit limit, const BuildOptions& options) {
  constexpr const char* kLikely = ": templates, macros or includes without an end?";
  if (limit == Limit::kTime) {
    return fmt::format("the compiler is not at its end after {:.4g} s{}", options.seconds, kLikely);
  }
  if (limit == Limit::kMemory) {
    return fmt::format("the compiler takes more than {:.4g} GB of memory{}",
                       static_cast<double>(options.memory_bytes) / 1e9, kLikely);
  }
  return fmt::format("the compiler prints more than {:.4g} MB{}",
                     static_cast<double>(kOutputBytes) / 1e6, kLikely);
}

}  // namespace

std::string to_string(const Diagnostic& d) {
  std::string text = d.file;
  if (d.line > 0) text += fmt::format(":{}", d.line);
  if (d.column > 0) text += fmt::format(":{}", d.column);
  return fmt::format("{}: {}: {}", text, d.kind, d.message);
}

std::string rewritten(const fs::path& source) { return rewrite(source, {}).files.front().text; }

Built build(const fs::path& source, const BuildOptions& options) {
  const auto begin = Clock::now();
  Built built;
  built.source = source;
  built.with_nvcc = options.with_nvcc;
  require(fs::is_regular_file(source), "there is no file ", source.string());
  require(options.with_nvcc || runtime::kEmulated,
          "this warpsmith is the CUDA build: its programs are nvcc's");
  fs::path folder = options.folder;
  if (folder.empty()) {
    const std::shared_ptr<fs::path> made = temporary_folder();
    folder = *made;
    built.temporary = made;
  } else {
    fs::create_directories(folder);
  }
  const fs::path program = folder / "program";
  const fs::path log = folder / "compiler.txt";
  std::error_code ignored;
  fs::remove(program, ignored);
  std::vector<Suspect> suspects;
  std::vector<std::vector<std::string>> commands;
  if (options.with_nvcc) {
    commands = {cuda_command(source, program, folder, options)};
  } else {
    const Rewritten rewritten = rewrite(source, options.include_folders);
    suspects = rewritten.suspects;
    for (const RewrittenFile& file : rewritten.files) write_file(folder / file.name, file.text);
    const fs::path object = folder / "program.o";
    std::vector<std::string> compile = compile_command();
    const fs::path headers = precompiled(compile, options.seconds);
    if (!headers.empty()) compile.insert(compile.begin() + 1, "-I" + headers.string());
    compile.insert(compile.end(),
                   {"-I" + fs::absolute(source).parent_path().string(), "-c",
                    (folder / rewritten.files.front().name).string(), "-o", object.string()});
    // Linked without -fsanitize=thread: who takes the calls is ours.
    std::vector<std::string> link = {toolchain().compiler, "-pthread", "-o", program.string(),
                                     object.string()};
    std::ranges::copy(toolchain().libraries, std::back_inserter(link));
    link.emplace_back("-lbacktrace");
    for (const std::string& in : options.include_folders) compile.push_back("-I" + in);
    for (const std::string& definition : options.definitions) compile.push_back("-D" + definition);
    commands = {std::move(compile), std::move(link)};
  }
  ChildEnd end;
  for (const std::vector<std::string>& command : commands) {
    // What it leaves behind when it is stopped goes with the folder.
    const std::map<std::string, std::string> environment = {
        {"LC_ALL", "C"}, {"TMPDIR", fs::absolute(folder).string()}};
    end = run_child(command, {.environment = environment,
                              .output = log,
                              .seconds = options.seconds,
                              .memory_bytes = options.memory_bytes,
                              .output_bytes = kOutputBytes});
    if (end.exit_code != 0 || end.signal != 0) break;
  }
  if (end.limit != Limit::kNone) {
    built.diagnostics.push_back({source.string(), 0, 0, "error", limit_text(end.limit, options)});
    built.seconds = seconds_since(begin);
    return built;
  }
  built.compiler_output = text_of(log);
  built.diagnostics = options.with_nvcc ? nvcc_diagnostics(built.compiler_output)
                                        : diagnostics_of(built.compiler_output, suspects);
  const auto is_warning = [](const Diagnostic& d) { return d.kind == "warning"; };
  if (end.exit_code == 0 && end.signal == 0 && fs::exists(program)) {
    built.program = fs::absolute(program);
  } else if (std::ranges::all_of(built.diagnostics, is_warning)) {
    built.diagnostics.push_back(
        {source.string(), 0, 0, "error",
         built.compiler_output.empty()
             ? concatenate("there is no compiler ", commands.front().front())
             : built.compiler_output});
  }
  built.seconds = seconds_since(begin);
  return built;
}

Json to_json(const Built& built) {
  Json json = {{"source", built.source.string()},
               {"built", built.ok()},
               {"seconds", built.seconds},
               {"diagnostics", Json::array()}};
  for (const Diagnostic& d : built.diagnostics) {
    json["diagnostics"].push_back({{"file", d.file},
                                   {"line", d.line},
                                   {"column", d.column},
                                   {"kind", d.kind},
                                   {"message", d.message}});
  }
  return json;
}

}  // namespace ws::cuda_file
