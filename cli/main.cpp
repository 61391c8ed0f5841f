// The program `warpsmith`: verbs over the catalogue.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.hpp"

int main(int argc, char** argv) {
  CLI::App app{
      "Warpsmith: CUDA kernels as ladders, from the naive loop to the fastest. Verified, "
      "measured,\n"
      "and without a GPU run in an emulator.",
      "warpsmith"};
  app.require_subcommand(1);
  app.footer(
      "Names are a family (softmax), an operation (log_softmax), a rung (softmax/warp_per_row) or "
      "a\n"
      "seed name (softmax_f32x4); `warpsmith list` shows them.\n"
      "Exit codes: 0 all well, 1 a check failed or a kernel did, 2 bad usage or input.");
  int exit_code = ws::cli::kOk;
  ws::cli::add_list(app, exit_code);
  ws::cli::add_show(app, exit_code);
  ws::cli::add_verify(app, exit_code);
  ws::cli::add_bench(app, exit_code);
  ws::cli::add_ladder(app, exit_code);
  ws::cli::add_profile(app, exit_code);
  ws::cli::add_trace(app, exit_code);
  ws::cli::add_try(app, exit_code);
  ws::cli::add_resources(app, exit_code);
  ws::cli::add_compare(app, exit_code);
  ws::cli::add_report(app, exit_code);
  ws::cli::add_plot(app, exit_code);
  ws::cli::add_learn(app, exit_code);
  ws::cli::add_doctor(app, exit_code);
  ws::cli::add_run(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version arrive here too, with code 0.
    return app.exit(error) == 0 ? ws::cli::kOk : ws::cli::kUsage;
  } catch (const ws::InvalidArgument& error) {
    fmt::print(stderr, "warpsmith: {}\n", error.what());
    return ws::cli::kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "warpsmith: {}\n", error.what());
    return ws::cli::kFailed;
  }
  return exit_code;
}
