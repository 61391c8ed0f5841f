#include "harness/readable.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ws::harness {
namespace {

constexpr size_t kLongestWord = 200;
constexpr size_t kShownOfWord = 80;

// Bytes of the character that the text begins with; 0 where it is no UTF-8, or controls a terminal.
size_t printable(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) < 0x20 || byte(0) == 0x7F ? 0 : 1;
  const size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool is_control = byte(0) == 0xC2 && byte(1) < 0xA0;
  const bool is_surrogate = byte(0) == 0xED && byte(1) >= 0xA0;
  const bool is_too_long =
      (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool is_beyond = byte(0) == 0xF4 && byte(1) >= 0x90;
  return is_control || is_surrogate || is_too_long || is_beyond ? 0 : length;
}

std::string without_long_words(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const size_t length = end - at;
    if (length > kLongestWord) {
      result.append(text.substr(at, kShownOfWord));
      result += fmt::format("...({} bytes more)", length - kShownOfWord);
    } else {
      result.append(text.substr(at, length));
    }
    if (end < text.size()) result += text[end];
    at = end + 1;
  }
  return result;
}

}  // namespace

std::string readable(std::string_view text) {
  const std::string shortened = without_long_words(text);
  const std::string_view rest = shortened;
  std::string result;
  for (size_t at = 0; at < rest.size();) {
    const bool goes_on = rest.substr(at).starts_with("\n  ");
    const size_t length = goes_on ? 1 : printable(rest.substr(at));
    if (length > 0) {
      result.append(rest.substr(at, length));
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(rest[at]));
    }
    at += std::max<size_t>(length, 1);
  }
  return result;
}

}  // namespace ws::harness
