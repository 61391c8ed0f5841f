#include "cli/drawing.hpp"

#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "cli/terminal.hpp"

namespace ws::cli {
namespace {

constexpr std::string_view kFull = "█";
constexpr std::string_view kLight = "░";
constexpr std::string_view kLine = "┊";

std::string in_color(fmt::terminal_color color, const std::string& text) {
  return has_colors() && !text.empty() ? fmt::format(fmt::fg(color), "{}", text) : text;
}

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

// ---- Bars ---------------------------------------------------------------------------------------

size_t cells_of(double value, double whole, size_t room) {
  return static_cast<size_t>(std::lround(value / whole * static_cast<double>(room)));
}

// The marks' names above their lines, each beginning or, near the end, ending there.
std::string names_of(std::span<const Mark> marks, double whole, size_t before, size_t room) {
  std::string text;
  for (const Mark& mark : marks) {
    std::string row(before, ' ');
    const size_t at = std::min(cells_of(mark.at, whole, room), room - 1);
    const bool to_the_left = at >= mark.name.size() + 1;
    row += to_the_left ? fmt::format("{:>{}} {}", mark.name, at - 1, kLine)
                       : fmt::format("{:{}}{} {}", "", at, kLine, mark.name);
    text += row + "\n";
  }
  return text;
}

}  // namespace

std::string chart(std::span<const Bar> bars, std::span<const Mark> marks) {
  constexpr size_t kLeast = 16;
  size_t names = 0;
  size_t texts = 0;
  double whole = 0;
  for (const Bar& bar : bars) {
    names = std::max(names, bar.name.size());
    texts = std::max(texts, bar.text.size());
    whole = std::max(whole, bar.value);
  }
  for (const Mark& mark : marks) whole = std::max(whole, mark.at);
  const size_t around = names + 2 + 2 + texts;
  const size_t width = width_of(STDOUT_FILENO);
  if (whole <= 0 || width < around + kLeast) return {};
  const size_t room = width - around;

  std::string text = names_of(marks, whole, names + 2, room);
  for (const Bar& bar : bars) {
    // What is there is seen, however short.
    const size_t full = std::max<size_t>(cells_of(bar.full, whole, room), bar.full > 0 ? 1 : 0);
    const size_t all = std::max(cells_of(bar.value, whole, room), full);
    std::vector<std::string_view> cells(room, " ");
    std::fill_n(cells.begin(), all, kLight);
    std::fill_n(cells.begin(), full, kFull);
    for (const Mark& mark : marks) {
      const size_t at = std::min(cells_of(mark.at, whole, room), room - 1);
      if (at >= all) cells[at] = kLine;
    }
    const auto piece = [&](size_t first, size_t last) {
      std::string part;
      for (size_t i = first; i < last; ++i) part += cells[i];
      return part;
    };
    using Color = fmt::terminal_color;
    text += fmt::format("{:<{}}  {}{}{}  {:>{}}\n", bar.name, names,
                        in_color(bar.stands_out ? Color::yellow : Color::green, piece(0, full)),
                        in_color(Color::red, piece(full, all)), piece(all, room), bar.text, texts);
  }
  return text;
}

// ---- A warp's accesses --------------------------------------------------------------------------

namespace {

constexpr uint64_t kSector = 32;  // bytes
constexpr uint64_t kRow = 128;    // bytes of global memory in a row of the picture
constexpr int kBanks = 32;

std::vector<int> lanes_in(uint32_t mask) {
  std::vector<int> lanes;
  for (; mask != 0; mask &= mask - 1) lanes.push_back(std::countr_zero(mask));
  return lanes;
}

uint64_t offset_of(const WarpAccess& access, int lane) {
  return access.offset[static_cast<size_t>(lane)];
}

// "lane 3", "lanes 0-7", "lanes 0, 8, 16 ..."
std::string lanes_text(const std::vector<int>& lanes) {
  if (lanes.size() == 1) return fmt::format("lane {}", lanes.front());
  const bool are_together = lanes.back() - lanes.front() + 1 == static_cast<int>(lanes.size());
  if (are_together) return fmt::format("lanes {}-{}", lanes.front(), lanes.back());
  constexpr size_t kShown = 3;
  const std::span shown(lanes.data(), std::min(lanes.size(), kShown));
  return fmt::format("lanes {}{}", fmt::join(shown, ", "), lanes.size() > kShown ? " ..." : "");
}

struct GlobalBytes {
  std::set<uint64_t> asked;
  std::map<uint64_t, std::vector<int>> rows;  // lanes, by row
  std::set<uint64_t> sectors;
};

GlobalBytes global_bytes(const WarpAccess& access) {
  GlobalBytes bytes;
  for (const int lane : lanes_in(access.lanes)) {
    const uint64_t first = offset_of(access, lane);
    for (uint64_t byte = first; byte < first + access.width; ++byte) {
      bytes.asked.insert(byte);
      bytes.sectors.insert(byte / kSector);
      std::vector<int>& lanes = bytes.rows[byte / kRow];
      if (lanes.empty() || lanes.back() != lane) lanes.push_back(lane);
    }
  }
  return bytes;
}

// A row for 128 bytes; of many the first and the last.
std::string global_picture(const WarpAccess& access) {
  constexpr size_t kShown = 6;
  const GlobalBytes bytes = global_bytes(access);
  const uint64_t cell = std::clamp<uint64_t>(access.width, 2, 4);
  std::string text;
  size_t number = 0;
  for (const auto& [row, lanes] : bytes.rows) {
    ++number;
    if (number >= kShown && number < bytes.rows.size()) {
      if (number == kShown)
        text += fmt::format("{:>10}  ... {} rows more\n", "", bytes.rows.size() - kShown);
      continue;
    }
    text += fmt::format("{:>10}  ", fmt::format("+{}", row * kRow));
    for (uint64_t byte = row * kRow; byte < (row + 1) * kRow; byte += cell) {
      if (byte % kSector == 0 && byte % kRow != 0) text += " ";
      const auto next = bytes.asked.lower_bound(byte);
      const bool is_asked = next != bytes.asked.end() && *next < byte + cell;
      text += is_asked ? in_color(fmt::terminal_color::green, std::string(kFull))
              : bytes.sectors.contains(byte / kSector)
                  ? in_color(fmt::terminal_color::red, std::string(kLight))
                  : "·";
    }
    text += "  " + lanes_text(lanes) + "\n";
  }
  return text;
}

// The words that a part of the lanes reaches, by bank.
std::array<std::set<uint64_t>, kBanks> words_by_bank(const WarpAccess& access) {
  std::array<std::set<uint64_t>, kBanks> words;
  for (const int lane : lanes_in(access.part)) {
    const uint64_t first = offset_of(access, lane);
    for (uint64_t word = first / 4; word <= (first + access.width - 1) / 4; ++word) {
      words[word % kBanks].insert(word);
    }
  }
  return words;
}

size_t passes_over(const std::array<std::set<uint64_t>, kBanks>& words) {
  size_t most = 0;
  for (const auto& of_bank : words) most = std::max(most, of_bank.size());
  return most;
}

std::string shared_picture(const WarpAccess& access) {
  constexpr size_t kShown = 6;
  const auto words = words_by_bank(access);
  const size_t passes = passes_over(words);
  std::string text = fmt::format("{:>10}  ", "bank");
  for (int bank = 0; bank < kBanks; bank += 4) text += fmt::format("{:<8}", bank);
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  for (size_t pass = 0; pass < passes; ++pass) {
    if (pass + 1 >= kShown && pass + 1 < passes) {
      if (pass + 1 == kShown) text += fmt::format("{:>10}  ... {} more\n", "", passes - kShown);
      continue;
    }
    text += fmt::format("{:>10}  ", fmt::format("pass {}", pass + 1));
    for (const auto& of_bank : words) {
      const bool is_busy = of_bank.size() > pass;
      text += is_busy ? in_color(pass == 0 ? fmt::terminal_color::green : fmt::terminal_color::red,
                                 repeated(kFull, 1)) +
                            " "
                      : "· ";
    }
    text.pop_back();
    text += "\n";
  }
  return text;
}

}  // namespace

std::string in_words(const WarpAccess& access) {
  if (access.lanes == 0) return {};
  if (access.is_shared) {
    const size_t passes = passes_over(words_by_bank(access));
    return fmt::format("{} of {} bytes each take {} {} over the 32 banks",
                       lanes_text(lanes_in(access.part)), access.width, passes,
                       passes == 1 ? "pass" : "passes");
  }
  const GlobalBytes bytes = global_bytes(access);
  return fmt::format("{} sectors of 32 bytes for {} bytes", bytes.sectors.size(),
                     bytes.asked.size());
}

std::string picture(const WarpAccess& access) {
  if (access.lanes == 0) return {};
  return access.is_shared ? shared_picture(access) : global_picture(access);
}

}  // namespace ws::cli
