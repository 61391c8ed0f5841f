// The value of an attribute: a bool, an exact 64-bit integer, a float, a choice, dimensions, or
// none.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ws {

// A list of up to 8 dimensions, as a caller writes them: negative ones count from the end.
struct Dims {
  uint8_t count = 0;
  std::array<int, 8> at{};  // each from -128 to 127

  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<int> dims) {
    for (const int d : dims) at[count++] = d;
  }
  constexpr const int* begin() const { return at.data(); }
  constexpr const int* end() const { return at.data() + count; }
  friend constexpr bool operator==(const Dims&, const Dims&) = default;
};

class Value {
 public:
  // kUnset stands for the attribute's default, kAbsent for "none" (Python's None).
  enum class Kind : uint8_t { kUnset, kAbsent, kBool, kInt, kFloat, kChoice, kDims };

  constexpr Value() = default;
  constexpr Value(bool value) : kind_(Kind::kBool), word_(value ? 1 : 0) {}
  constexpr Value(int value) : Value(int64_t{value}) {}
  constexpr Value(int64_t value) : kind_(Kind::kInt), word_(value) {}
  constexpr Value(double value) : kind_(Kind::kFloat), word_(std::bit_cast<int64_t>(value)) {}
  constexpr Value(const Dims& dims) : kind_(Kind::kDims), count_(dims.count) {
    for (size_t i = 0; i < dims.at.size(); ++i) {
      word_ |= int64_t{static_cast<uint8_t>(dims.at[i])} << (8 * i);
    }
  }
  static constexpr Value absent() { return {Kind::kAbsent, 0}; }
  static constexpr Value choice(int index) { return {Kind::kChoice, index}; }

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_unset() const { return kind_ == Kind::kUnset; }
  constexpr bool is_absent() const { return kind_ == Kind::kAbsent; }

  // What a value of the kind holds.
  constexpr bool as_bool() const { return word_ != 0; }
  constexpr int64_t as_int() const { return word_; }
  constexpr int as_choice() const { return static_cast<int>(word_); }
  constexpr double as_float() const { return std::bit_cast<double>(word_); }
  constexpr Dims as_dims() const {
    Dims dims;
    dims.count = count_;
    for (size_t i = 0; i < dims.at.size(); ++i) {
      dims.at[i] = static_cast<int>(word_ << (56 - 8 * i) >> 56);  // with its sign
    }
    return dims;
  }

  // Bit by bit: -0.0 is another value than 0.0.
  friend constexpr bool operator==(const Value&, const Value&) = default;

 private:
  constexpr Value(Kind kind, int64_t word) : kind_(kind), word_(word) {}

  Kind kind_ = Kind::kUnset;
  uint8_t count_ = 0;  // of dimensions
  int64_t word_ = 0;
};

// An attribute of an operation: a keyword that is no tensor.
struct Attribute {
  std::string_view name;  // as in Python
  Value::Kind kind;
  Value standard{};  // its default; absent: none. Unset: callers have to say it
  std::span<const std::string_view> choices{};  // of kChoice
  std::string_view doc;
};

// A value as text and back: "0.5", "true", a choice's name, "0,-1", "none". Reading throws
// InvalidArgument that names the attribute and what it takes.
std::string describe_value(const Attribute& attribute, const Value& value);
Value parse_value(const Attribute& attribute, std::string_view text);
// The value as the attribute has it: its default where it is unset, an integer as a float where a
// float is wanted, a single dimension as a list. Throws InvalidArgument where it is none of its
// values.
Value checked_value(const Attribute& attribute, const Value& value);

}  // namespace ws
