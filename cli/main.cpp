// The program `warpsmith`: verbs over the catalogue.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "catalogue/catalogue_json.hpp"
#include "cli/command.hpp"
#include "harness/machine.hpp"
#include "harness/readable.hpp"
#include "warpsmith/runtime.hpp"

namespace {

void complain(const std::string& message) {
  fmt::print(stderr, "warpsmith: {}\n", ws::harness::readable(message));
}

std::string version() {
  return fmt::format("warpsmith {}, revision {}, the {} build",
                     ws::catalogue_json()["version"].get<std::string>(), ws::harness::revision(),
                     ws::runtime::kEmulated ? "emulated" : "CUDA");
}

// What is wrong with the arguments, and whose help tells more.
std::string explanation(const CLI::App& app, const CLI::ParseError& error) {
  std::string verb;
  for (const CLI::App* chosen : app.get_subcommands()) verb = " " + chosen->get_name();
  const std::string help = fmt::format("; `warpsmith{} --help` tells more", verb);
  const std::vector<std::string> unknown = app.remaining();
  if (!verb.empty() || unknown.empty()) return error.what() + help;
  const std::string& word = unknown.front();
  if (word.starts_with('-')) return fmt::format("there is no option {}{}", word, help);
  std::vector<std::string> verbs;
  for (const CLI::App* known : app.get_subcommands({})) verbs.push_back(known->get_name());
  const std::vector<std::string> near = ws::near_names(word, verbs);
  return fmt::format("there is no verb '{}'{}{}", word,
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near.front()), help);
}

// What is still in a buffer may be what a full disk does not take.
int flushed(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  complain(fmt::format("cannot write the output: {}", std::strerror(errno)));
  return ws::cli::kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Warpsmith: CUDA kernels as ladders, from the naive loop to the fastest. Verified, "
      "measured,\n"
      "and without a GPU run in an emulator.",
      "warpsmith"};
  app.set_version_flag("--version", version, "Which warpsmith this is");
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
  ws::cli::add_microbench(app, exit_code);
  ws::cli::add_doctor(app, exit_code);
  ws::cli::add_run(app, exit_code);
  try {
    ws::runtime::orders_to_check();  // what WARPSMITH_EMULATOR says badly is no kernel's failure
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help and --version
    return flushed(app.exit(done));
  } catch (const CLI::ParseError& error) {
    complain(explanation(app, error));
    return ws::cli::kUsage;
  } catch (const ws::InvalidArgument& error) {
    complain(error.what());
    return ws::cli::kUsage;
  } catch (const std::filesystem::filesystem_error& error) {
    complain(fmt::format("{}: {}", error.path1().string(), error.code().message()));
    return ws::cli::kUsage;
  } catch (const std::bad_alloc&) {
    complain("there is not enough memory");
    return ws::cli::kFailed;
  } catch (const std::exception& error) {
    complain(error.what());
    return ws::cli::kFailed;
  }
  return flushed(exit_code);
}
