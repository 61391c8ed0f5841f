// What the fuzzers share: a source of chance that a seed repeats, nasty texts, and what a message
// may be.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ws::fuzz {

// WARPSMITH_FUZZ_SEED, or 1, so that CI tries the same each time.
inline uint64_t seed_of_environment() {
  const char* text = std::getenv("WARPSMITH_FUZZ_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

// WARPSMITH_FUZZ_SECONDS, or few.
inline double seconds_of_environment(double otherwise) {
  const char* text = std::getenv("WARPSMITH_FUZZ_SECONDS");
  return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

// The n-th case is made from the seed and n alone, so that one can be tried again by itself.
class Chance {
 public:
  Chance(uint64_t seed, uint64_t number) : bits_(seed * 0x9E3779B97F4A7C15ULL + number) {}

  int64_t between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(bits_);
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
  }

 private:
  std::mt19937_64 bits_;
};

// f(number) from 0 on, for so long.
template <class F>
uint64_t repeat_for(double seconds, const F& f) {
  const auto start = std::chrono::steady_clock::now();
  uint64_t number = 0;
  do {
    f(number++);
  } while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds));
  return number;
}

inline const std::vector<std::string>& nasty_texts() {
  static const std::vector<std::string> kTexts = {
      "",
      " ",
      "-",
      "--",
      "-1",
      "0",
      "1e400",
      "nan",
      "inf",
      "0x10",
      "1.5",
      "+7",
      "18446744073709551616",
      "9223372036854775807",
      "-9223372036854775809",
      "4294967296x4294967296",
      "1000000x1000000x1000000",
      "0x0x0",
      "1x",
      "x",
      "1x1x1x1x1x1x1x1x1x1",
      "null",
      "{}",
      "[]",
      "%s%n%d",
      "{:d}",
      "\"'`$(x)",
      "\x1b[31mred",
      "bell\x07",
      "two\nlines",
      "two\n  lines",
      "tab\there",
      "\xff\xfe",
      "\xc3\x28",
      "\xe2\x80\xae",
      "grün",
      "=",
      "a=",
      "=a",
      ",",
      ",,",
      "/",
      "//",
      "softmax/",
      "/naive",
      "@file",
      std::string(300, 'a'),
      std::string(20000, 'b'),
      std::string(300, '/'),
  };
  return kTexts;
}

// What is wrong with a text that a user is to read; "" where nothing is. Its first line may be
// followed by such as begin with two spaces.
inline std::string fault_of_message(std::string_view text) {
  for (const std::string_view inside :
       {"json.exception", "std::", "basic_string", "filesystem error", "terminate called", "what()",
        "Sanitizer", "runtime error:", "vector::", "bad_alloc", "__", "ios_base"}) {
    if (text.find(inside) != std::string_view::npos) return "it has " + std::string(inside);
  }
  if (text.size() > 20000) return "it has " + std::to_string(text.size()) + " bytes";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      if (text.substr(i).starts_with("\n  ") || i + 1 == text.size()) continue;
      return "it has a second line";
    }
    if (byte < 0x20 || byte == 0x7F) return "it has the control character " + std::to_string(byte);
  }
  return {};
}

}  // namespace ws::fuzz
