#include "cli/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "cli/sources.hpp"

#ifndef WS_EMULATED
#include <cuda_runtime.h>
#endif

namespace ws::cli {
namespace {

constexpr size_t kWidth = 100;

int64_t parse_extent(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(failure == std::errc() && end == text.data() + text.size() && value >= 0, "--shape ",
          whole, ": '", text, "' is not an extent; write 4096x1024");
  return value;
}

Case parse_shape(const Operation& operation, const std::string& text) {
  Case chosen;
  std::vector<int64_t> extents;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    extents.push_back(parse_extent(std::string_view(text).substr(at, end - at), text));
    at = end + 1;
  }
  std::string names;
  for (const std::string_view name : operation.extent_names) {
    names.append(names.empty() ? "" : "x").append(name);
  }
  const size_t most = operation.extent_names.size();
  require(extents.size() <= most &&
              extents.size() + static_cast<size_t>(operation.optional_extents) >= most,
          "--shape ", text, " has ", extents.size(),
          extents.size() == 1 ? " extent, " : " extents, ", operation.name, " has ", most, ": ",
          names,
          operation.optional_extents > 0
              ? concatenate(", of which the last ", operation.optional_extents, " may be left out")
              : "");
  std::ranges::copy(extents, chosen.extents.begin());
  return chosen;
}

void apply(const Operation& operation, const std::string& setting, Case& chosen) {
  const size_t equals = setting.find('=');
  require(equals != std::string::npos, "--set ", setting, ": write NAME=VALUE");
  const std::string name = setting.substr(0, equals);
  if (!chosen.has_attributes) {
    for (size_t i = 0; i < operation.attributes.size(); ++i) {
      chosen.attributes[i] = operation.attributes[i].standard;
    }
    chosen.has_attributes = true;
  }
  std::string known;
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    const Attribute& attribute = operation.attributes[i];
    if (attribute.name == name) {
      chosen.attributes[i] = parse_value(attribute, std::string_view(setting).substr(equals + 1));
      return;
    }
    known.append(known.empty() ? "" : ", ").append(attribute.name);
  }
  throw InvalidArgument(concatenate("--set ", setting, ": ", operation.name,
                                    known.empty() ? " has no attributes" : " has " + known));
}

}  // namespace

std::vector<std::string_view> dtype_names(DTypes dtypes) {
  std::vector<std::string_view> names;
  for (const DType d : kAllDTypes) {
    if (dtypes.has(d)) names.push_back(to_string(d));
  }
  return names;
}

std::string Target::name() const { return fmt::format("{}/{}", operation->name, rung->name); }

Address address_of(const std::string& name) {
  try {
    return resolve(name);
  } catch (const InvalidArgument&) {
    for (const SeedRow& seed : seed_rows()) {
      if (seed.name != name || !seed.rung.empty()) continue;
      throw InvalidArgument(
          concatenate("'", name, "' is a ", seed.family,
                      " kernel of the public collections that no rung answers to yet; ",
                      "`warpsmith list ", seed.family, "` shows the rungs there are"));
    }
    throw;
  }
}

std::vector<Target> targets_of(const std::vector<std::string>& names) {
  std::vector<Target> targets;
  const auto add = [&](const Family& family, const Operation* only, const Rung* rung,
                       DTypes dtypes) {
    for (const Operation& operation : family.operations) {
      if (only != nullptr && only != &operation) continue;
      for (const Rung& r : family.rungs) {
        if (rung != nullptr && rung != &r) continue;
        const bool known = std::ranges::any_of(
            targets, [&](const Target& t) { return t.operation == &operation && t.rung == &r; });
        const DTypes both = r.dtypes & operation.dtypes;
        if (!known) {
          targets.push_back({&family, &operation, &r, dtypes.empty() ? both : both & dtypes});
        }
      }
    }
  };
  if (names.empty()) {
    for (const Family* family : families()) add(*family, nullptr, nullptr, {});
  }
  for (const std::string& name : names) {
    const Address address = address_of(name);
    // A family's name stands for all of it, also where an operation is called the same.
    const bool whole = name == address.family->name;
    add(*address.family, whole ? nullptr : address.operation, address.rung, address.dtypes);
  }
  return targets;
}

void ProblemOptions::add_to(CLI::App& app) {
  app.add_option("--dtype", dtypes, "Only these: f32, f16, bf16 ...")->delimiter(',');
  app.add_option("--shape", shapes, "Extents such as 4096x1024, instead of the family's own list")
      ->delimiter(',');
  app.add_option("--set", attributes, "An attribute, NAME=VALUE; `list --json` names them");
  app.add_option("--seed", seed, "Of the random inputs")->capture_default_str();
  app.add_option("--offset", offset,
                 "With --shape: elements that pointers lie past a 256-byte boundary")
      ->check(CLI::NonNegativeNumber);
}

std::vector<Case> ProblemOptions::cases(const Operation& operation,
                                        std::span<const Case> standard) const {
  std::vector<Case> all(standard.begin(), standard.end());
  if (!shapes.empty()) {
    all.clear();
    for (const std::string& shape : shapes) all.push_back(parse_shape(operation, shape));
    for (Case& chosen : all) chosen.offset = offset;
  }
  for (Case& chosen : all) {
    for (const std::string& setting : attributes) apply(operation, setting, chosen);
  }
  return all;
}

std::vector<DType> ProblemOptions::chosen(DTypes available) const {
  std::vector<DType> all;
  for (const std::string& name : dtypes) {
    const DType dtype = dtype_from(name);
    if (available.has(dtype)) all.push_back(dtype);
  }
  if (!dtypes.empty()) return all;
  std::ranges::copy_if(kAllDTypes, std::back_inserter(all),
                       [&](DType dtype) { return available.has(dtype); });
  return all;
}

void add_device(CLI::App& app) {
  app.add_option_function<std::string>(
      "--device",
      [](const std::string& device) {
        require(device == "cuda" || device == "emulator", "--device ", device,
                ": 'cuda' or 'emulator'");
        require(
            device != "cuda" || !kEmulated,
            "--device cuda: this warpsmith is the emulated build, it has no CUDA in it; build the "
            "preset `cuda` where there is an nvcc");
        require(device != "emulator" || kEmulated,
                "--device emulator: this warpsmith is the CUDA build; build the preset `emulated`");
      },
      "cuda or emulator: fails where this build is not for it");
}

void require_device() {
#ifndef WS_EMULATED
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  require(status == cudaSuccess && count > 0, "this warpsmith is the CUDA build and finds no GPU (",
          status == cudaSuccess ? "no device" : cudaGetErrorString(status),
          "); the preset `emulated` runs without one, `warpsmith doctor` tells more");
#endif
}

void add_order(CLI::App& app) {
  app.add_option_function<std::string>(
      "--order",
      []([[maybe_unused]] const std::string& order) {
#ifdef WS_EMULATED
        using emulator::Order;
        const std::array<std::pair<std::string_view, Order>, 3> orders = {
            {{"forward", Order::kForward},
             {"reverse", Order::kReverse},
             {"random", Order::kRandom}}};
        const auto at =
            std::ranges::find(orders, order, &std::pair<std::string_view, Order>::first);
        require(at != orders.end(), "--order ", order, ": forward, reverse or random");
        emulator::options().order = at->second;
#else
        throw InvalidArgument("--order is for the emulator; a GPU orders its threads itself");
#endif
      },
      "In which order the emulator runs threads: forward, reverse, random");
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}
Progress::~Progress() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}
void Progress::show(const std::string& text) {
  if (!terminal_) return;
  fmt::print(stderr, "\r\033[K{}", text.substr(0, kWidth - 1));
  std::fflush(stderr);
}

namespace {

// Cuts a text between words into lines of at most `width`; longer words stay whole.
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

}  // namespace

std::string Table::text() const {
  const size_t count = columns_.size();
  std::vector<size_t> widths(count);
  for (size_t c = 0; c < count; ++c) {
    widths[c] = columns_[c].title.size();
    for (const auto& row : rows_) widths[c] = std::max(widths[c], row[c].size());
  }
  size_t before = 0;
  for (size_t c = 0; c + 1 < count; ++c) before += widths[c] + 2;
  const size_t room = before + 20 < kWidth ? kWidth - before : 20;
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
void print_json(const Json& json) { fmt::print("{}\n", json.dump(2)); }

}  // namespace ws::cli
