// warpsmith report: results as one HTML file.
#include "report/page.hpp"

#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "cli/command.hpp"
#include "cli/results_here.hpp"
#include "report/markup.hpp"

namespace ws::cli {
namespace {

struct ReportArguments {
  ResultOptions results;
  std::string output = "report.html";
  bool no_counts = false;
};

void run_report(const ReportArguments& arguments) {
  const report::Results results = arguments.results.results(!arguments.no_counts);
  const std::optional<report::Results> against = arguments.results.against();
  const std::vector<const report::Ladder*> ladders =
      report::chosen(results, arguments.results.choice());
  const std::string page = [&] {
    Progress progress;
    return report::page({.results = results,
                         .ladders = ladders,
                         .against = against ? &*against : nullptr,
                         .with_counts = !arguments.no_counts},
                        progress.announce());
  }();
  std::ofstream file(arguments.output);
  file << page;
  file.close();
  require(file.good(), "cannot write --output ", arguments.output);
  print(fmt::format("{}: {} problem{} of {}, {}; open it in any browser\n", arguments.output,
                    ladders.size(), ladders.size() == 1 ? "" : "s", results.device,
                    report::bytes_text(static_cast<double>(page.size()))));
}

}  // namespace

void add_report(CLI::App& app, int&) {
  CLI::App* verb = app.add_subcommand(
      "report", "Ladders, rooflines and sources with their counts in one HTML file");
  auto arguments = std::make_shared<ReportArguments>();
  arguments->results.add_to(*verb);
  verb->add_option("--output,-o", arguments->output, "The file")->capture_default_str();
  verb->add_flag("--no-counts", arguments->no_counts,
                 "Sources without what the emulator counts of their lines, which takes it a while");
  verb->callback([=] { run_report(*arguments); });
}

}  // namespace ws::cli
