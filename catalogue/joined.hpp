// Texts of the catalogue that have a part in common.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ws {
namespace detail {

template <const std::string_view&... kParts>
inline constexpr auto kJoinedText = [] {
  std::array<char, (kParts.size() + ...)> text{};
  auto* to = text.data();
  ((to = std::copy(kParts.begin(), kParts.end(), to)), ...);
  return text;
}();

}  // namespace detail

// The parts one after the other, in static storage: kJoined<kFormula, kLastLine>.
template <const std::string_view&... kParts>
inline constexpr std::string_view kJoined{detail::kJoinedText<kParts...>.data(),
                                          detail::kJoinedText<kParts...>.size()};

}  // namespace ws
