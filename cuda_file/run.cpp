#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction, kill

#include <algorithm>
#include <cstring>

#include "cuda_file/child.hpp"
#include "cuda_file/cuda_file.hpp"
#include "cuda_file/report.hpp"
#include "warpsmith/error.hpp"

namespace ws::cuda_file {
namespace {

namespace fs = std::filesystem;

// What its report says; it may not have come to write one.
void take_report(Outcome& outcome, const fs::path& file) {
  const Json report = Json::parse(text_of(file), nullptr, false);
  if (report.is_discarded()) return;
  for (const Json& launch : report.at("launches")) {
    outcome.launches.push_back(launch_of(launch));
    for (const auto& [name, count] : outcome.launches.back().counts) outcome.counts[name] += count;
  }
  for (const Json& fault : report.at("faults")) outcome.faults.push_back(fault_of(fault));
  if (report.contains("profile")) outcome.profile = profile_of(report["profile"]);
  outcome.times_asked = report.value("times_asked", false);
}

// At a limit the fault says where, if the program could; what limit it was is known here.
void tell_limit(Outcome& outcome, const std::string& kind, const std::string& what) {
  if (outcome.faults.empty()) outcome.faults.emplace_back();
  FaultReport& fault = outcome.faults.front();
  fault.kind = kind;
  fault.message = fault.message.empty() ? what : what + ": " + fault.message;
}

}  // namespace

Outcome run(const Built& built, const RunOptions& options) {
  require(built.ok(), built.source.string(), " was not built");
  const std::shared_ptr<fs::path> folder = temporary_folder();
  const fs::path report = *folder / "report.json";
  ChildOptions child{.working_folder = options.working_folder,
                     .seconds = options.seconds,
                     .memory_bytes = options.memory_bytes,
                     .output_bytes = options.output_bytes};
  if (options.capture) child.output = *folder / "output.txt";
  child.environment[kReportVariable] = report.string();
  child.environment[kMemoryVariable] = std::to_string(options.memory_bytes);
  if (options.profile) child.environment[kProfileVariable] = "1";
  child.environment["WARPSMITH_EMULATOR"] =
      fmt::format("order={} seed={}", options.order, options.seed);
  std::vector<std::string> command{built.program.string()};
  command.insert(command.end(), options.arguments.begin(), options.arguments.end());
  const ChildEnd end = run_child(command, child);

  Outcome outcome;
  outcome.seconds = end.seconds;
  outcome.exit_code = end.signal != 0 ? end.signal : end.exit_code;
  take_report(outcome, report);
  if (options.capture) outcome.output = text_of(child.output);
  if (end.limit == Limit::kTime) {
    outcome.end = End::kTime;
    tell_limit(outcome, "time", fmt::format("not at its end after {:.4g} s", options.seconds));
  } else if (end.limit == Limit::kMemory) {
    outcome.end = End::kMemory;
    tell_limit(outcome, "memory",
               fmt::format("takes more than {:.4g} GB of memory",
                           static_cast<double>(options.memory_bytes) / 1e9));
  } else if (end.limit == Limit::kOutput) {
    outcome.end = End::kOutput;
    outcome.output.resize(std::min(outcome.output.size(), options.output_bytes));
    tell_limit(
        outcome, "output",
        fmt::format("prints more than {:.4g} MB", static_cast<double>(options.output_bytes) / 1e6));
  } else if (!outcome.faults.empty()) {
    outcome.end = End::kFault;
  } else if (end.signal != 0) {
    outcome.end = End::kSignal;
    FaultReport fault;
    fault.kind = "crash";
    fault.message = fmt::format("signal {}, {}", end.signal, strsignal(end.signal));
    outcome.faults.push_back(std::move(fault));
  }
  return outcome;
}

Json to_json(const Outcome& outcome) {
  static constexpr std::array kEnds = {"exited", "fault", "time", "memory", "output", "signal"};
  Json json = {{"end", kEnds[static_cast<size_t>(outcome.end)]},
               {"exit_code", outcome.exit_code},
               {"seconds", outcome.seconds},
               {"faults", Json::array()},
               {"launches", Json::array()},
               {"counts", outcome.counts}};
  for (const FaultReport& fault : outcome.faults) json["faults"].push_back(to_json(fault));
  for (const LaunchReport& launch : outcome.launches) json["launches"].push_back(to_json(launch));
  if (outcome.profile) json["profile"] = to_json(*outcome.profile);
  return json;
}

}  // namespace ws::cuda_file
