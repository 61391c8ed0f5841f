#include "report/markup.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace ws::report {
namespace {

// Three digits, but never fewer than a whole number has.
std::string digits(double value) {
  return fmt::format("{:.{}f}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

// With the largest of the units, each a thousand of the one before it, that leaves at least one.
template <size_t kCount>
std::string scaled(double value, const std::array<std::string_view, kCount>& units) {
  size_t unit = 0;
  while (unit + 1 < kCount && std::abs(value) >= 1e4) {
    value /= 1e3;
    ++unit;
  }
  const bool whole = unit == 0 && value == std::floor(value);
  return whole ? fmt::format("{:.0f}{}", value, units[0])
               : fmt::format("{}{}", digits(value), units[unit]);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char letter : text) {
    switch (letter) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += letter;
    }
  }
  return result;
}

std::string element(std::string_view name, const Attributes& attributes, std::string_view content) {
  std::string result = fmt::format("<{}", name);
  for (const auto& [key, value] : attributes) {
    if (!value.empty()) result += fmt::format(" {}=\"{}\"", key, escaped(value));
  }
  return result + fmt::format(">{}</{}>", content, name);
}

std::string text_element(std::string_view name, const Attributes& attributes,
                         std::string_view text) {
  return element(name, attributes, escaped(text));
}

std::string percent(double share) { return fmt::format("{:.5g}%", 100 * share); }

std::string pixels(double value) { return fmt::format("{:g}", std::round(10 * value) / 10); }

std::string rate_text(double rate, bool of_bytes) {
  return digits(rate * (of_bytes ? 1e-9 : 1e-12)) + (of_bytes ? " GB/s" : " TFLOP/s");
}

std::string time_text(double microseconds) {
  return microseconds < 1e4 ? digits(microseconds) + " us" : digits(microseconds * 1e-3) + " ms";
}

std::string bytes_text(double bytes) {
  return scaled(bytes, std::array<std::string_view, 5>{" B", " KB", " MB", " GB", " TB"});
}

std::string count_text(double count) {
  return scaled(count, std::array<std::string_view, 5>{"", "k", "M", "G", "T"});
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace ws::report
