#include "cli/results_here.hpp"

namespace ws::cli {

void ResultOptions::add_to(CLI::App& app) {
  app.add_option("NAMES", problems.selection.names,
                 "Families or operations; each family's first operation, or all of --results, if "
                 "none");
  app.add_option("--results", files,
                 "What `bench -o`, or `ladder --json` in the emulator, wrote; instead of measuring "
                 "or counting now");
  app.add_option("--against", other_file, "Another such file to compare with");
  problems.add_to(app);
  problems.add_limits_to(app);
  add_device(app);
  add_order(app);
}

report::Results ResultOptions::results(bool with_lines) const {
  const harness::Selection& asked = problems.selection;
  if (!files.empty()) {
    require(asked.shapes.empty() && asked.settings.empty(),
            "--shape and --set choose what runs; --results is read, and nothing runs");
    return report::read_files(files);
  }
  Progress progress;
  return report::of_this_machine(asked, {.lines = with_lines}, progress.announce());
}

std::optional<report::Results> ResultOptions::against() const {
  if (other_file.empty()) return std::nullopt;
  return report::read_file(other_file);
}

report::Choice ResultOptions::choice() const {
  return {.names = problems.selection.names, .dtypes = problems.selection.dtypes};
}

}  // namespace ws::cli
