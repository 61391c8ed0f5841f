#include "cli/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "cli/terminal.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

int64_t parse_extent(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(failure == std::errc() && end == text.data() + text.size() && value >= 0, "--shape ",
          whole, ": '", text, "' is not an extent; write 4096x1024");
  return value;
}

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> extents;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    extents.push_back(parse_extent(std::string_view(text).substr(at, end - at), text));
    at = end + 1;
  }
  return extents;
}

std::pair<std::string, Json> parse_setting(const std::string& setting) {
  const size_t equals = setting.find('=');
  require(equals != std::string::npos, "--set ", setting, ": write NAME=VALUE");
  return {setting.substr(0, equals), Json(setting.substr(equals + 1))};
}

}  // namespace

std::vector<std::string_view> dtype_names(DTypes dtypes) {
  std::vector<std::string_view> names;
  for (const DType d : kAllDTypes) {
    if (dtypes.has(d)) names.push_back(to_string(d));
  }
  return names;
}

void ProblemOptions::add_to(CLI::App& app) {
  app.add_option("--dtype", selection.dtypes, "Only these: f32, f16, bf16 ...")->delimiter(',');
  // A list of lists is not what CLI11 splits at commas: each word is taken as it comes.
  app.add_option_function<std::vector<std::string>>(
         "--shape",
         [this](const std::vector<std::string>& shapes) {
           for (const std::string& shape : shapes) selection.shapes.push_back(parse_shape(shape));
         },
         "Extents such as 4096x1024, instead of the family's own list")
      ->delimiter(',');
  app.add_option_function<std::vector<std::string>>(
      "--set",
      [this](const std::vector<std::string>& settings) {
        for (const std::string& text : settings) selection.settings.push_back(parse_setting(text));
      },
      "An attribute, NAME=VALUE; `list --json` names them");
  app.add_option("--seed", selection.seed, "Of the random inputs")
      ->capture_default_str()
      ->check(whole_number(0, UINT64_MAX));
  app.add_option("--offset", selection.offset,
                 "With --shape: elements that pointers lie past a 256-byte boundary")
      ->check(whole_number(0, 4096));
}

void ProblemOptions::add_limits_to(CLI::App& app) {
  app.add_option("--memory", selection.limits.gigabytes,
                 "GB that a problem may need, instead of nine tenths of what is free")
      ->check(positive_number());
  app.add_option("--time", selection.limits.seconds,
                 "Seconds that all of it may take, by a rough estimate")
      ->capture_default_str()
      ->check(positive_number());
}

void ProblemOptions::add_names_to(CLI::App& app) {
  app.add_option("NAMES", selection.names,
                 "Families, operations, rungs or seed names; all if none");
}

void ProblemOptions::add_problems_to(CLI::App& app) {
  app.add_option("--problem", selection.problems,
                 "Of the list those whose line in a table has this text: 'bf16 [4096, 4096]'; "
                 "repeatable")
      ->allow_extra_args(false);
}

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  return {[=](const std::string& text) -> std::string {
            uint64_t value = 0;
            const auto [end, failure] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            const bool is_whole = failure == std::errc() && end == text.data() + text.size();
            if (is_whole && value >= least && value <= most) return {};
            return fmt::format("'{}' is no whole number from {} to {}", text, least, most);
          },
          ""};
}

CLI::Validator positive_number() {
  return {[](const std::string& text) -> std::string {
            double value = 0;
            const auto [end, failure] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            const bool is_number = failure == std::errc() && end == text.data() + text.size();
            if (is_number && value > 0 && std::isfinite(value)) return {};
            return fmt::format("'{}' is no number above 0", text);
          },
          ""};
}

void add_device(CLI::App& app) {
  app.add_option_function<std::string>(
      "--device",
      [](const std::string& device) {
        require(device == "cuda" || device == "emulator", "--device ", device,
                ": 'cuda' or 'emulator'");
        require(
            device != "cuda" || !runtime::kEmulated,
            "--device cuda: this warpsmith is the emulated build, it has no CUDA in it; build the "
            "preset `cuda` where there is an nvcc");
        require(device != "emulator" || runtime::kEmulated,
                "--device emulator: this warpsmith is the CUDA build; build the preset `emulated`");
      },
      "cuda or emulator: fails where this build is not for it");
}

void add_order(CLI::App& app) {
  app.add_option_function<std::string>(
      "--order", [](const std::string& order) { runtime::set_thread_order(order); },
      "In which order the emulator runs threads: forward, reverse, random");
}

std::string remarks_on(const Rung& rung) {
  std::string text = fmt::format("from {}", to_string(rung.arch));
  if (rung.gpu_only) text += ", not in the emulator";
  if (!rung.deterministic) text += ", not deterministic: two runs may differ";
  if (rung.accumulate != DType::kF32) {
    text +=
        fmt::format(", adds up in {}: never chosen, only asked for", to_string(rung.accumulate));
  }
  return text;
}

std::string idea_of(const Rung& rung) {
  std::string text(rung.idea);
  if (!rung.deterministic) text += " (not deterministic)";
  if (rung.accumulate != DType::kF32) {
    text += fmt::format(" (adds up in {})", to_string(rung.accumulate));
  }
  return text;
}

Progress::Progress()
    : terminal_(isatty(STDERR_FILENO) != 0), start_(std::chrono::steady_clock::now()) {}
Progress::~Progress() { clear(); }

void Progress::show(const std::string& text, double done) {
  if (!terminal_) return;
  std::string line = text;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  // What the first second tells of the rest is nothing.
  if (done > 0 && passed.count() > 1) {
    line += fmt::format(", {:.0f} %, {} to go", 100 * done,
                        harness::duration_text(passed.count() * (1 - done) / done));
  }
  fmt::print(stderr, "\r\033[K{}", line.substr(0, width_of(STDERR_FILENO) - 1));
  std::fflush(stderr);
}

void Progress::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

harness::Announce Progress::announce() {
  return [this](const std::string& what, double done) { show(what, done); };
}

std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines = {""};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

std::string Table::text() const {
  const size_t count = columns_.size();
  std::vector<size_t> widths(count);
  for (size_t c = 0; c < count; ++c) {
    widths[c] = columns_[c].title.size();
    for (const auto& row : rows_) widths[c] = std::max(widths[c], row[c].size());
  }
  size_t before = 0;
  for (size_t c = 0; c + 1 < count; ++c) before += widths[c] + 2;
  const size_t width = width_of(STDOUT_FILENO);
  const size_t room = before + 20 < width ? width - before : 20;
  widths[count - 1] = std::min(widths[count - 1], room);

  std::string text;
  const auto line = [&](const auto& cell) {
    std::string row;
    for (size_t c = 0; c + 1 < count; ++c) {
      row += columns_[c].right ? fmt::format("{:>{}}  ", cell(c), widths[c])
                               : fmt::format("{:<{}}  ", cell(c), widths[c]);
    }
    for (const std::string& part : wrap(cell(count - 1), widths[count - 1])) {
      row += columns_[count - 1].right ? fmt::format("{:>{}}", part, widths[count - 1]) : part;
      row.erase(row.find_last_not_of(' ') + 1);
      text += row + "\n";
      row.assign(before, ' ');
    }
  };
  line([&](size_t c) { return columns_[c].title; });
  for (const auto& cells : rows_) line([&](size_t c) { return cells[c]; });
  return text;
}

void print(const std::string& text) { fmt::print("{}", text); }
void print_json(const Json& json) {
  // What somebody's program printed need not be text.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace ws::cli
