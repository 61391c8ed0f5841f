#include "cli/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include "cli/line_text.hpp"
#include "cuda_file/child.hpp"
#include "cuda_file/cuda_file.hpp"

namespace ws::cli {
namespace {

namespace fs = std::filesystem;

// A check is done in a moment; what is not hangs.
constexpr double kSeconds = 20;
constexpr std::array kOrders = {"forward", "reverse", "random"};

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path);
  file << text;
  file.close();
  require(!file.fail(), path.string(), " cannot be written");
}

// ---- Counts ------------------------------------------------------------------------------------

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

struct Measured {
  double value = 0;
  const ProfileLine* worst = nullptr;  // the line to look at, where there is one
};

// The line with the largest value.
template <class Value>
Measured worst_of(const Profile& profile, Value value) {
  Measured worst;
  for (const ProfileLine& line : profile.lines) {
    if (worst.worst == nullptr || value(line) > worst.value) worst = {value(line), &line};
  }
  return worst;
}

// The sum over the lines whose operation begins so.
template <class Value>
double sum_of(const Profile& profile, std::string_view operation, Value value) {
  double sum = 0;
  for (const ProfileLine& line : profile.lines) {
    if (line.place.operation.starts_with(operation)) sum += static_cast<double>(value(line));
  }
  return sum;
}

// What an exercise can bound: its name in exercise.json, what a reader is told that it is, and how
// it is taken from a run.
struct Count {
  const char* name;
  const char* meaning;
  Measured (*measure)(const cuda_file::Outcome&);
};

constexpr auto kCounts = std::to_array<Count>({
    {"sectors", "times the sectors that these bytes need side by side",
     [](const cuda_file::Outcome& run) {
       return worst_of(*run.profile,
                       [](const ProfileLine& l) { return ratio(l.sectors, l.ideal_sectors); });
     }},
    {"sectors_a_request", "sectors a request of a warp, over all loads and stores",
     [](const cuda_file::Outcome& run) {
       return Measured{run.profile->sectors_a_request(), nullptr};
     }},
    {"loads", "loads of each sector of global memory, in the mean",
     [](const cuda_file::Outcome& run) {
       const double sectors =
           sum_of(*run.profile, "ld.global", [](const ProfileLine& l) { return l.sectors; });
       return Measured{sectors / static_cast<double>(run.profile->unique_read_sectors), nullptr};
     }},
    {"ways", "passes over the banks for each that is needed",
     [](const cuda_file::Outcome& run) {
       return worst_of(*run.profile, [](const ProfileLine& l) {
         return ratio(l.wavefronts, l.ideal_wavefronts);
       });
     }},
    {"shared_loads", "loads of shared memory by warps",
     [](const cuda_file::Outcome& run) {
       return Measured{sum_of(*run.profile, "ld.shared",
                              [](const ProfileLine& l) { return l.shared_requests; }),
                       nullptr};
     }},
    {"shared_bytes", "bytes of shared memory a block",
     [](const cuda_file::Outcome& run) {
       int64_t most = 0;
       for (const cuda_file::LaunchReport& launch : run.launches) {
         most = std::max(most, launch.static_shared + launch.dynamic_shared);
       }
       return Measured{static_cast<double>(most), nullptr};
     }},
    {"barriers_a_block", "barriers a block, in the mean",
     [](const cuda_file::Outcome& run) {
       const auto count = [&](const char* name) {
         const auto at = run.counts.find(name);
         return at != run.counts.end() ? at->second : 0;
       };
       return Measured{ratio(count("barriers"), count("blocks")), nullptr};
     }},
    {"on_one_address", "atomics on one address",
     [](const cuda_file::Outcome& run) {
       return worst_of(*run.profile, [](const ProfileLine& l) {
         return static_cast<double>(l.most_on_one_address);
       });
     }},
    {"global_atomics", "atomics on global memory, counted by lanes",
     [](const cuda_file::Outcome& run) {
       uint64_t lanes = 0;
       for (const ProfileLine& line : run.profile->lines) {
         // Those on shared memory have no requests to global memory.
         if (line.place.operation.starts_with("atomic") && line.requests > 0) {
           lanes += line.active_lanes;
         }
       }
       return Measured{static_cast<double>(lanes), nullptr};
     }},
});

const Count& count_named(const std::string& name) {
  const auto* const at =
      std::ranges::find_if(kCounts, [&](const Count& count) { return name == count.name; });
  require(at != kCounts.end(), "no exercise can be held to '", name, "'");
  return *at;
}

// "exercise.cu:8: y[i] = a * x[i];" and what a profile says of it.
std::string text_of_line(const ProfileLine& line, const fs::path& folder) {
  const std::string name = fs::path(line.place.file).filename();
  std::string text = fmt::format("  {}:{}: ", name, line.place.line);
  std::ifstream file(folder / name);
  std::string code;
  for (int i = 0; i < line.place.line; ++i) std::getline(file, code);
  text += code.substr(std::min(code.find_first_not_of(' '), code.size())) + "\n";
  for (const std::string& remark : remarks_on(line)) {
    text += fmt::format("    {}: {}\n", line.place.operation, remark);
  }
  return text;
}

std::optional<Verdict> beyond_limit(const Limit& limit, const cuda_file::Outcome& run,
                                    const fs::path& folder) {
  const Count& count = count_named(limit.count);
  const Measured measured = count.measure(run);
  const bool too_many = limit.at_most && measured.value > *limit.at_most;
  const bool too_few = limit.at_least && measured.value < *limit.at_least;
  if (!too_many && !too_few) return {};
  Verdict verdict{.kind = "limit", .what = limit.count, .text = {}};
  verdict.text =
      fmt::format("right, but {:.4g} {}, where at {} {:g} will do\n", measured.value, count.meaning,
                  too_many ? "most" : "least", too_many ? *limit.at_most : *limit.at_least);
  if (measured.worst != nullptr) {
    verdict.line = measured.worst->place.line;
    verdict.text += text_of_line(*measured.worst, folder);
  }
  return verdict;
}

// Without the folders, which are the user's and a temporary one: "exercise.cu:8", "check.cu:12".
std::string without_folders(std::string text, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    const std::string prefix = folder.string() + "/";
    for (size_t at = text.find(prefix); at != text.npos; at = text.find(prefix, at)) {
      text.erase(at, prefix.size());
    }
  }
  return text;
}

// ---- One run -----------------------------------------------------------------------------------

Verdict fault_of(const cuda_file::Outcome& run) {
  const cuda_file::FaultReport& fault = run.faults.front();
  const bool theirs = fs::path(fault.file).filename() == "exercise.cu";
  return {
      .kind = "fault", .what = fault.kind, .text = fault.text(), .line = theirs ? fault.line : 0};
}

Verdict judge_check(const Exercise& exercise, const fs::path& check, const fs::path& theirs) {
  cuda_file::BuildOptions options;
  options.include_folders = {theirs.string()};
  const cuda_file::Built built = cuda_file::build(check, options);
  if (!built.ok()) {
    Verdict verdict{.kind = "compile", .what = {}, .text = "it does not compile:\n"};
    for (const cuda_file::Diagnostic& diagnostic : built.diagnostics) {
      verdict.text += cuda_file::to_string(diagnostic) + "\n";
      if (verdict.line == 0) verdict.line = diagnostic.line;
    }
    if (built.diagnostics.empty()) verdict.text += built.compiler_output;
    return verdict;
  }
  cuda_file::Outcome profiled;
  for (const char* order : kOrders) {
    cuda_file::RunOptions how;
    how.order = order;
    how.profile = !profiled.profile;
    how.capture = true;
    how.seconds = kSeconds;
    cuda_file::Outcome run = cuda_file::run(built, how);
    if (!run.faults.empty()) return fault_of(run);
    if (!run.ok()) {
      return {.kind = "wrong",
              .what = {},
              .text = fmt::format("threads in {} order: {}", order, run.output)};
    }
    if (how.profile) profiled = std::move(run);
  }
  for (const Limit& limit : exercise.limits) {
    if (std::optional<Verdict> verdict = beyond_limit(limit, profiled, theirs)) return *verdict;
  }
  return {.kind = "solved", .what = {}, .text = "right, in every order of threads\n"};
}

}  // namespace

Verdict judge(const Exercise& exercise, const fs::path& source) {
  const std::shared_ptr<fs::path> folder = cuda_file::temporary_folder();
  const fs::path theirs = fs::absolute(source).lexically_normal().parent_path();
  const fs::path check = *folder / "check.cu";
  write_file(*folder / "check.hpp", check_header());
  write_file(check, exercise.check);
  Verdict verdict = judge_check(exercise, check, theirs);
  verdict.text = without_folders(std::move(verdict.text),
                                 {theirs, *folder, fs::relative(theirs), fs::relative(*folder)});
  return verdict;
}

Json to_json(const Verdict& verdict) {
  return {{"solved", verdict.solved()},
          {"kind", verdict.kind},
          {"what", verdict.what},
          {"text", verdict.text},
          {"line", verdict.line}};
}

}  // namespace ws::cli
