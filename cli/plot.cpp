// warpsmith plot: one picture, as SVG.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "cli/command.hpp"
#include "cli/results_here.hpp"
#include "report/plots.hpp"

namespace ws::cli {
namespace {

struct PlotArguments {
  std::string kind;
  ResultOptions results;
  std::string problem;
  std::string output;
};

void run_plot(const PlotArguments& arguments) {
  const harness::Selection& asked = arguments.results.problems.selection;
  const bool of_one = arguments.kind == "lines" && arguments.results.files.empty();
  require(!of_one || asked.names.size() == 1,
          "lines are a rung's: name one, such as softmax/online");
  // Of a rung's lines no other rung need be counted.
  const report::Results results =
      of_one ? report::read(harness::counted_rung(asked.names.front(), asked), "the emulator")
             : arguments.results.results(false);
  const std::optional<report::Results> against = arguments.results.against();
  report::Choice choice = arguments.results.choice();
  choice.problem = arguments.problem;
  const std::string picture =
      report::plot(arguments.kind, results, choice, against ? &*against : nullptr);
  if (arguments.output.empty()) {
    print(picture + "\n");
    return;
  }
  std::ofstream file(arguments.output);
  file << picture << "\n";
  file.close();
  require(file.good(), "cannot write --output ", arguments.output);
}

}  // namespace

void add_plot(CLI::App& app, int&) {
  CLI::App* verb = app.add_subcommand("plot", "A picture of results, as SVG");
  auto arguments = std::make_shared<PlotArguments>();
  verb->add_option("KIND", arguments->kind,
                   "ladder, roofline, changes (with --against), lines (of a rung)")
      ->required()
      ->check(CLI::IsMember({"ladder", "roofline", "changes", "lines"}));
  arguments->results.add_to(*verb);
  verb->add_option("--problem", arguments->problem,
                   "The first whose text has this in it, such as \"[16384, 4096]\"");
  verb->add_option("--output,-o", arguments->output, "The file, instead of stdout");
  verb->callback([=] { run_plot(*arguments); });
}

}  // namespace ws::cli
