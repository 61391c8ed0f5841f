// warpsmith try: a kernel of the user's own, verified as ours are and placed in the ladder.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include "cli/command.hpp"
#include "cli/figures.hpp"
#include "cli/ladder_table.hpp"
#include "cli/line_text.hpp"
#include "harness/emulated_case.hpp"
#include "harness/profile.hpp"
#include "harness/sources.hpp"
#include "own_kernel/own_rung.hpp"
#include "own_kernel/place.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

using harness::Target;
using harness::Verdict;
using harness::Verification;
using own_kernel::Form;
using own_kernel::OwnRung;
using own_kernel::Program;
using own_kernel::Signature;

struct TryArguments {
  std::vector<std::string> words;  // FILE OPERATION, or OPERATION for the template
  ProblemOptions problems;
  own_kernel::Limits limits;
  bool print_template = false;
  bool watch = false;
  bool may_differ = false;
  bool as_json = false;

  std::string file;
  const Operation* operation = nullptr;
};

const Operation& operation_of(const std::string& name) {
  const Address address = harness::address_of(name);
  require(address.rung == nullptr, "try wants an operation such as softmax, not the rung ", name);
  return address.operation != nullptr ? *address.operation : address.family->operations.front();
}

// ---- The template -------------------------------------------------------------------------------

DType first_dtype(const Operation& operation) {
  const DTypes dtypes = own_kernel::dtypes_of(operation);
  if (dtypes.has(DType::kF32)) return DType::kF32;
  return *std::ranges::find_if(kAllDTypes, [&](DType dtype) { return dtypes.has(dtype); });
}

// A comment in lines of at most 100 columns, those after the first indented further.
std::string as_comment(const std::string& text, const std::string& indent = {}) {
  constexpr size_t kWidth = 100;
  std::string comment;
  std::string line = "// " + indent;
  size_t words = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (words > 0 && line.size() + 1 + word.size() > kWidth) {
      comment += line + "\n";
      line = "//   " + indent;
      words = 0;
    }
    line += (words++ > 0 ? " " : "") + word;
    at = end + 1;
  }
  return comment + line + "\n";
}

// A declaration in lines of at most 98 columns, broken behind commas.
std::string wrapped(const std::string& declaration, const std::string& before = {}) {
  constexpr size_t kWidth = 98;  // and room for " {"
  const std::string indent(declaration.find('(') + 1, ' ');
  std::string text;
  std::string line = before;
  bool is_empty = true;
  for (size_t at = 0; at < declaration.size();) {
    const size_t end = std::min(declaration.find(", ", at), declaration.size());
    const std::string piece = declaration.substr(at, end + 1 - at);
    if (!is_empty && line.size() + 1 + piece.size() > kWidth) {
      text += line + "\n";
      line = before + indent;
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + piece;
    is_empty = false;
    at = end + 2;
  }
  return text + line;
}

// What is to say of its arguments, but for those that `known` has too.
std::string arguments_text(const Signature& signature, const Signature* known = nullptr) {
  std::string text;
  for (const own_kernel::Argument& argument : signature.arguments()) {
    const bool is_known =
        known != nullptr && std::ranges::any_of(known->arguments(), [&](const auto& other) {
          return other.name == argument.name;
        });
    if (argument.doc.empty() || is_known) continue;
    text += as_comment(fmt::format("{}: {}", argument.name, argument.doc), "  ");
  }
  return text;
}

std::string template_of(const Operation& operation) {
  const DType dtype = first_dtype(operation);
  const Signature signature(operation, dtype, Form::kShort);
  const std::string path =
      fmt::format("kernels/{}/start/{}.cu.in", family_of(operation).name, operation.name);
  std::string body(harness::text_of(path));
  constexpr std::string_view kPlace = "@SIGNATURE@";
  const size_t at = body.find(kPlace);
  require(at != std::string::npos, path, " has no ", kPlace);
  body.replace(at, kPlace.size(), wrapped(signature.text()));
  std::string head =
      as_comment(fmt::format("{}: {}", operation.name, operation.summary)) +
      as_comment(std::string(operation.formula), "  ") + "//\n" +
      fmt::format("// `warpsmith try FILE {}` calls the function at the end, on dense tensors:\n",
                  operation.name) +
      arguments_text(signature);
  std::vector<std::string_view> others;
  for (const std::string_view name : dtype_names(own_kernel::dtypes_of(operation))) {
    if (name != to_string(dtype)) others.push_back(name);
  }
  if (!others.empty()) {
    head += as_comment(fmt::format("Functions for {} may stand beside it, or a template for all.",
                                   fmt::join(others, ", ")));
  }
  if (own_kernel::has_full_form(operation)) {
    const Signature full(operation, dtype, Form::kFull);
    head += "//\n// Or, with every attribute, and null for a tensor that a call does not have:\n" +
            wrapped(full.text(), "//   ") + "\n" + arguments_text(full, &signature);
  }
  std::string includes;
  if (body.find("__nv_bfloat16") != std::string::npos) includes += "#include <cuda_bf16.h>\n";
  if (body.find("__nv_fp8") != std::string::npos) includes += "#include <cuda_fp8.h>\n";
  includes += "#include <cuda_runtime.h>\n";
  return head + includes + "\n#include <cmath>\n#include <cstdint>\n\n" + body;
}

// ---- One try ------------------------------------------------------------------------------------

// What is known of the kernel when all is done.
struct Tried {
  std::vector<std::string> messages;  // it does not compile, or has no such function
  std::vector<Verification> results;
  size_t problems = 0;  // asked for; more than results where a fault ended it
  DType dtype = DType::kF32;
  std::string problem;            // of the ladder
  std::vector<LadderRow> ladder;  // in the emulator
  std::optional<harness::BenchGroup> timed;
  Cost cost;
  std::vector<own_kernel::Costs> costs;
  own_kernel::Costs own_costs;
  own_kernel::Place place;
  Profile profile;  // its own, where there is a ladder

  bool compiled() const { return messages.empty(); }
  const Verification* first_failure() const {
    const auto at = std::ranges::find(results, Verdict::kFailed, &Verification::verdict);
    return at == results.end() ? nullptr : &*at;
  }
  int exit_code() const {
    if (!compiled()) return kUsage;
    return first_failure() == nullptr ? kOk : kFailed;
  }
};

std::string no_function(const TryArguments& arguments) {
  const Operation& operation = *arguments.operation;
  return fmt::format(
      "{} has no function that could be called as\n  {}\nin one of {}; `warpsmith try --template "
      "{}` prints one",
      arguments.file, wrapped(Signature(operation, first_dtype(operation), Form::kShort).text()),
      fmt::join(dtype_names(own_kernel::dtypes_of(operation)), ", "), operation.name);
}

std::vector<Target> rungs_of(const Operation& operation) {
  std::vector<std::string> names;
  for (const Rung* rung : family_of(operation).rungs) {
    if (!dtypes_of(*rung, operation).empty()) {
      names.push_back(fmt::format("{}/{}", operation.name, rung->name));
    }
  }
  return harness::targets_of(names);
}

// The rungs' costs beside its own, on a problem that most of them take.
void place_by_counts(const TryArguments& arguments, OwnRung& own, std::span<const Case> cases,
                     Tried& tried, Progress& progress) {
  const Operation& operation = *arguments.operation;
  const harness::Selection& selection = arguments.problems.selection;
  const std::vector<Target> rungs = rungs_of(operation);
  // Smaller than the ladder's own: somebody waits.
  constexpr harness::CaseLimits kSmall{.flops = 1e7};
  const Case chosen =
      harness::emulated_case(operation, cases, cases.front(), rungs, tried.dtype, kSmall);
  harness::Instance instance(operation, chosen, tried.dtype, selection.seed);
  tried.problem = instance.problem().describe();
  tried.cost = operation.cost(instance.problem());
  progress.show(fmt::format("{} {}", arguments.file, tried.problem));
  const OwnRung::Seen seen = own.profile(tried.dtype, chosen, selection.seed);
  tried.profile = seen.profile;
  for (const Target& target : rungs) {
    const AnyCall call(make_problem(operation, chosen, tried.dtype));
    if (!takes(*target.rung, call, runtime::capability())) continue;
    progress.show(fmt::format("{} {}", target.name(), tried.problem));
    runtime::reset_counts();
    LadderRow row{.name = std::string(target.rung->name),
                  .profile = harness::profile(*target.rung, instance),
                  .idea = std::string(target.rung->idea)};
    for (const auto& [name, count] : runtime::counts()) row.counts[std::string(name)] = count;
    tried.costs.push_back({target.rung, row.profile->cost(), traffic_of(row, tried.cost)});
    tried.ladder.push_back(std::move(row));
  }
  LadderRow mine{.name = "yours",
                 .counts = seen.counts,
                 .profile = seen.profile,
                 .idea = arguments.file,
                 .stands_out = true};
  tried.own_costs = {nullptr, seen.profile.cost(), traffic_of(mine, tried.cost)};
  tried.place = own_kernel::place_of(tried.own_costs, tried.costs);
  const size_t at = tried.place.like ? *tried.place.like + 1 : 0;
  tried.ladder.insert(tried.ladder.begin() + static_cast<std::ptrdiff_t>(at), std::move(mine));
}

// On a GPU: rungs, peers and copies in turns, and its own runs after them.
void place_by_time(const TryArguments& arguments, OwnRung& own, const Signature& signature,
                   Tried& tried) {
  constexpr int kRuns = 50;
  const Operation& operation = *arguments.operation;
  const harness::Selection& selection = arguments.problems.selection;
  std::vector<Case> cases;
  for (Case chosen : selection.of(operation, operation.cases().bench)) {
    if (!signature.why_not(chosen).empty()) chosen.attributes = {};  // which it may not be told
    if (signature.why_not(chosen).empty()) cases.push_back(chosen);
  }
  if (cases.empty()) return;
  // What is timed has to be right there too; of so large an output a sample is compared.
  const std::array problem{std::pair(tried.dtype, cases.front())};
  ++tried.problems;
  std::ranges::move(own.verify(problem, selection.seed, {.flops = 1e9, .elements = 1 << 22}),
                    std::back_inserter(tried.results));
  if (tried.first_failure() != nullptr) return;
  std::vector<const Rung*> rungs;
  for (const Target& target : rungs_of(operation)) {
    if (target.dtypes.has(tried.dtype)) rungs.push_back(target.rung);
  }
  harness::BenchOptions options;
  options.seed = selection.seed;
  harness::BenchGroup group = harness::bench(operation, rungs, cases.front(), tried.dtype, options);
  const std::vector<float> times = own.time(tried.dtype, cases.front(), selection.seed, kRuns);
  group.family = family_of(operation).name;
  harness::Measurement mine{.name = "yours", .runs = static_cast<int>(times.size())};
  mine.median = times[times.size() / 2];
  mine.min = times.front();
  mine.max = times.back();
  mine.rate = (group.memory_bound ? group.cost.bytes : group.cost.flops) / (mine.median * 1e-6);
  mine.of_ceiling = mine.rate / group.ceiling;
  for (const harness::Measurement& m : group.measurements) {
    const auto rung = std::ranges::find_if(rungs, [&](const Rung* one) {
      return m.name == fmt::format("{}/{}", operation.name, one->name);
    });
    if (rung != rungs.end() && m.runs > 0) tried.costs.push_back({*rung, m.median});
  }
  tried.own_costs = {nullptr, mine.median};
  tried.place = own_kernel::place_of(tried.own_costs, tried.costs);
  group.measurements.push_back(std::move(mine));
  tried.problem = group.problem;
  tried.timed = std::move(group);
}

Tried try_once(const TryArguments& arguments) {
  const Operation& operation = *arguments.operation;
  const harness::Selection& selection = arguments.problems.selection;
  Tried tried;
  Progress progress;
  progress.show(fmt::format("compiling {}", arguments.file));
  Program program(arguments.file, operation, arguments.limits);
  for (const cuda_file::Diagnostic& diagnostic : program.built().diagnostics) {
    if (diagnostic.kind != "warning") tried.messages.push_back(to_string(diagnostic));
  }
  if (program.built().ok()) {
    tried.messages.clear();
    if (program.dtypes().empty()) tried.messages.push_back(no_function(arguments));
  } else if (tried.messages.empty()) {
    tried.messages.push_back(program.built().compiler_output);
  }
  if (!tried.compiled()) return tried;

  OwnRung own(program, operation, !arguments.may_differ);
  const auto problems = own.problems(selection);
  tried.problems = problems.size();
  progress.show(fmt::format("{} on {} problems", arguments.file, problems.size()));
  tried.results = own.verify(problems, selection.seed);
  if (tried.first_failure() != nullptr) return tried;

  tried.dtype = problems.front().first;
  const Signature signature = program.signature(tried.dtype);
  if (!runtime::kEmulated) {
    place_by_time(arguments, own, signature, tried);
    return tried;
  }
  std::vector<Case> cases;
  for (const auto& [dtype, chosen] : problems) {
    if (dtype == tried.dtype) cases.push_back(chosen);
  }
  place_by_counts(arguments, own, cases, tried, progress);
  return tried;
}

// ---- What it comes to ---------------------------------------------------------------------------

std::string verdict_text(const Tried& tried) {
  const Verification* failure = tried.first_failure();
  if (failure == nullptr) {
    std::string text;
    for (const DType dtype : kAllDTypes) {
      const Verification* worst = nullptr;
      int count = 0;
      for (const Verification& r : tried.results) {
        if (r.dtype != dtype) continue;
        ++count;
        if (worst == nullptr || r.error > worst->error) worst = &r;
      }
      if (worst == nullptr) continue;
      text += fmt::format("right: {}, {} problem{}; error at most {:.1e}\n", to_string(dtype),
                          count, count == 1 ? "" : "s", worst->error);
    }
    return text;
  }
  const auto failed = std::ranges::count(tried.results, Verdict::kFailed, &Verification::verdict);
  std::string text = fmt::format("wrong ({}): {}\n  {}\n", to_string(failure->defect),
                                 failure->problem, failure->reason);
  text += fmt::format("{} of {} problems failed", failed, tried.results.size());
  const size_t not_run = tried.problems - tried.results.size();
  return text + (not_run > 0 ? fmt::format(", {} not run after it\n", not_run) : "\n");
}

// In lines of at most 100 columns.
std::string as_lines(const std::string& text) {
  constexpr size_t kWidth = 100;
  std::string lines;
  std::string rest = text;
  while (rest.size() > kWidth) {
    const size_t at = rest.rfind(' ', kWidth);
    if (at == std::string::npos || at < 8) break;
    lines += rest.substr(0, at) + "\n";
    rest = "      " + rest.substr(at + 1);
  }
  return lines + rest + "\n";
}

std::string hint_text(const Tried& tried, const Operation& operation) {
  if (!tried.place.like) return {};
  const Rung& like = *tried.costs[*tried.place.like].rung;
  std::string text;
  if (!tried.place.next) {
    return fmt::format("nearest rung: {}; no rung {} here\n", like.name,
                       tried.timed ? "is faster" : "costs less");
  }
  const own_kernel::Costs& next = tried.costs[*tried.place.next];
  std::vector<std::string> better;
  const auto compare = [&](const char* verb, double own, double other) {
    if (own > 1.1 * other) better.push_back(fmt::format("{} {:.1f} times less", verb, own / other));
  };
  compare("moves", tried.own_costs.traffic, next.traffic);
  compare(tried.timed ? "takes" : "costs", tried.own_costs.cost, next.cost);
  text = as_lines(fmt::format("nearest rung: {}: {}", like.name, like.idea));
  text += as_lines(
      fmt::format("hint: {} {}: {}", next.rung->name, fmt::join(better, " and "), next.rung->idea));
  return text +
         fmt::format("      `warpsmith show {}/{}` has it all\n", operation.name, next.rung->name);
}

Json to_json(const TryArguments& arguments, const Tried& tried) {
  Json json = {{"file", arguments.file},
               {"operation", arguments.operation->name},
               {"verdict", !tried.compiled()                  ? "does not compile"
                           : tried.first_failure() == nullptr ? "right"
                                                              : "wrong"},
               {"messages", tried.messages},
               {"problems", tried.problems},
               {"results", Json::array()}};
  for (const Verification& r : tried.results) json["results"].push_back(harness::to_json(r));
  json["problem"] = tried.problem;
  if (!tried.ladder.empty()) json["profile"] = harness::to_json(tried.profile);
  json["ladder"] = Json::array();
  for (const LadderRow& row : tried.ladder) {
    Json profile = row.profile ? harness::to_json(*row.profile) : Json::object();
    profile.erase("lines");
    json["ladder"].push_back({{"rung", row.name}, {"counts", row.counts}, {"profile", profile}});
  }
  if (tried.timed) json["timed"] = harness::to_json(*tried.timed);
  const auto name_of = [&](std::optional<size_t> rung) {
    return rung ? Json(tried.costs[*rung].rung->name) : Json(nullptr);
  };
  json["nearest"] = name_of(tried.place.like);
  json["next"] = name_of(tried.place.next);
  json["hint"] = tried.place.next ? Json(tried.costs[*tried.place.next].rung->idea) : Json(nullptr);
  return json;
}

int tell(const TryArguments& arguments, const Tried& tried) {
  if (arguments.as_json) {
    print_json(to_json(arguments, tried));
    return tried.exit_code();
  }
  for (const std::string& message : tried.messages) fmt::print(stderr, "{}\n", message);
  if (!tried.compiled()) return tried.exit_code();
  print(verdict_text(tried));
  if (!tried.ladder.empty()) {
    print(fmt::format(
        "\n{} in the emulator\ntraffic 1: the {}{:.4g} KB that must move; sectors a request "
        "(ideal); ways of bank conflicts\n{}",
        tried.problem, tried.cost.at_most ? "at most " : "", tried.cost.bytes * 1e-3,
        ladder_text(tried.cost, tried.ladder)));
    Worst worst{tried.problem, tried.profile.cost(), tried.profile.lines};
    worst.lines.resize(std::min<size_t>(worst.lines.size(), 3));
    print("\n" + text_of(worst) + pictures_of(worst, 3));
  }
  if (tried.timed) print("\n" + figures(*tried.timed) + bars(*tried.timed));
  const std::string hint = hint_text(tried, *arguments.operation);
  if (!hint.empty()) print("\n" + hint);
  return tried.exit_code();
}

// ---- Again and again ----------------------------------------------------------------------------

// Tries again whenever the file is written, until somebody stops it.
[[noreturn]] void watch(const TryArguments& arguments) {
  using namespace std::chrono_literals;
  // Editors replace a file: for a moment there is none.
  const auto written = [&] {
    std::error_code is_gone;
    const auto time = std::filesystem::last_write_time(arguments.file, is_gone);
    return is_gone ? std::filesystem::file_time_type::min() : time;
  };
  while (true) {
    const auto before = written();
    if (isatty(STDOUT_FILENO) != 0) print("\033[H\033[2J");
    print(fmt::format("{:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), arguments.file));
    try {
      tell(arguments, try_once(arguments));
    } catch (const Error& error) {
      fmt::print(stderr, "warpsmith: {}\n", error.what());
    }
    print("\nwaiting for the file to change; Ctrl-C ends\n");
    std::fflush(stdout);
    while (written() == before || written() == std::filesystem::file_time_type::min()) {
      std::this_thread::sleep_for(100ms);
    }
  }
}

int run_try(TryArguments& arguments) {
  if (arguments.print_template) {
    require(arguments.words.size() == 1,
            "try --template wants an operation: try --template softmax");
    print(template_of(operation_of(arguments.words.front())));
    return kOk;
  }
  require(arguments.words.size() == 2,
          "try wants a file and an operation: try my.cu softmax, or --template softmax");
  arguments.file = arguments.words[0];
  arguments.operation = &operation_of(arguments.words[1]);
  require(std::filesystem::is_regular_file(arguments.file), "cannot read ", arguments.file);
  runtime::require_device();
  const harness::Selection& selection = arguments.problems.selection;  // refused before it compiles
  selection.of(*arguments.operation, arguments.operation->cases().smoke);
  if (arguments.watch) watch(arguments);
  return tell(arguments, try_once(arguments));
}

}  // namespace

void add_try(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "try", "A kernel of your own: verified, placed in the ladder, with a hint what is next");
  auto arguments = std::make_shared<TryArguments>();
  verb->add_option("ARGUMENTS", arguments->words,
                   "An ordinary CUDA file, and what its function computes: my.cu softmax")
      ->required();
  verb->add_flag("--template", arguments->print_template,
                 "Print a complete file to start from: a naive kernel that is right");
  verb->add_flag("--watch", arguments->watch, "Again whenever the file changes");
  arguments->problems.add_to(*verb);
  verb->add_option(
          "--cases", arguments->problems.selection.cases,
          "The family's list of shapes: smoke, verify (if left out, in the emulator without "
          "its large products) or bench")
      ->check(CLI::IsMember({"smoke", "verify", "bench"}));
  verb->add_flag("--may-differ", arguments->may_differ,
                 "Two runs may differ, as with atomics on floats: each has to be right");
  verb->add_option("--time", arguments->limits.seconds, "Seconds that one run may take")
      ->capture_default_str()
      ->check(positive_number());
  add_device(*verb);
  add_order(*verb);
  verb->add_flag("--json", arguments->as_json, "As JSON");
  verb->callback([=, &exit_code] { exit_code = run_try(*arguments); });
}

}  // namespace ws::cli
