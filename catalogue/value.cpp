#include "catalogue/value.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "warpsmith/error.hpp"

namespace ws {
namespace {

template <class Number>
bool read(std::string_view text, Number& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size();
}

std::string join(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

// What the attribute takes, for messages.
std::string wanted(const Attribute& attribute) {
  const auto kind = [&]() -> std::string {
    switch (attribute.kind) {
      case Value::Kind::kBool: return "true or false";
      case Value::Kind::kInt: return "an integer";
      case Value::Kind::kFloat: return "a number";
      case Value::Kind::kChoice: return "one of " + join(attribute.choices);
      case Value::Kind::kDims: return "a list of dimensions such as 0,-1";
      case Value::Kind::kUnset:
      case Value::Kind::kAbsent: break;
    }
    return "?";
  }();
  return attribute.standard.is_absent() ? kind + ", or none" : kind;
}

bool read_dims(std::string_view text, Dims& dims) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    int dim = 0;
    if (static_cast<size_t>(dims.count) == dims.at.size()) return false;
    if (!read(text.substr(0, comma), dim) || dim < -128 || dim > 127) return false;
    dims.at[static_cast<size_t>(dims.count++)] = dim;
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

}  // namespace

std::string describe_value(const Attribute& attribute, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUnset: return "unset";
    case Value::Kind::kAbsent: return "none";
    case Value::Kind::kBool: return value.as_bool() ? "true" : "false";
    case Value::Kind::kInt: return std::to_string(value.as_int());
    case Value::Kind::kFloat: {
      std::array<char, 32> text{};
      const auto end = std::to_chars(text.data(), text.data() + text.size(), value.as_float()).ptr;
      return {text.data(), end};
    }
    case Value::Kind::kChoice: {
      const auto index = static_cast<size_t>(value.as_choice());
      return std::string(index < attribute.choices.size() ? attribute.choices[index] : "?");
    }
    case Value::Kind::kDims: {
      std::string text;
      for (const int dim : value.as_dims()) {
        text.append(text.empty() ? "" : ",").append(std::to_string(dim));
      }
      return text;
    }
  }
  return "?";
}

Value parse_value(const Attribute& attribute, std::string_view text) {
  const auto refuse = [&]() -> Value {
    throw InvalidArgument(concatenate("attribute '", attribute.name, "' is ", wanted(attribute),
                                      ", not '", text, "'"));
  };
  if (text == "none" && attribute.standard.is_absent()) return Value::absent();
  switch (attribute.kind) {
    case Value::Kind::kBool:
      if (text == "true" || text == "1") return true;
      if (text == "false" || text == "0") return false;
      return refuse();
    case Value::Kind::kInt: {
      int64_t number = 0;
      return read(text, number) ? Value(number) : refuse();
    }
    case Value::Kind::kFloat: {
      double number = 0;
      return read(text, number) ? Value(number) : refuse();
    }
    case Value::Kind::kChoice: {
      const auto at = std::ranges::find(attribute.choices, text);
      if (at == attribute.choices.end()) return refuse();
      return Value::choice(static_cast<int>(at - attribute.choices.begin()));
    }
    case Value::Kind::kDims: {
      Dims dims;
      return read_dims(text, dims) ? Value(dims) : refuse();
    }
    case Value::Kind::kUnset:
    case Value::Kind::kAbsent: break;
  }
  return refuse();
}

Value checked_value(const Attribute& attribute, const Value& value) {
  const auto is_choice = [&] {
    return value.as_int() >= 0 && static_cast<size_t>(value.as_int()) < attribute.choices.size();
  };
  if (value.is_unset() && !attribute.standard.is_unset()) return attribute.standard;
  if (value.is_absent() && attribute.standard.is_absent()) return value;
  if (value.kind() == attribute.kind) {
    if (attribute.kind != Value::Kind::kChoice || is_choice()) return value;
  } else if (value.kind() == Value::Kind::kInt) {
    if (attribute.kind == Value::Kind::kFloat) return static_cast<double>(value.as_int());
    if (attribute.kind == Value::Kind::kChoice && is_choice()) {
      return Value::choice(static_cast<int>(value.as_int()));
    }
    if (attribute.kind == Value::Kind::kBool && (value.as_int() == 0 || value.as_int() == 1)) {
      return value.as_int() == 1;
    }
    if (attribute.kind == Value::Kind::kDims &&
        value.as_int() >= std::numeric_limits<int8_t>::min() &&
        value.as_int() <= std::numeric_limits<int8_t>::max()) {
      return Dims{static_cast<int>(value.as_int())};
    }
  } else if (value.kind() == Value::Kind::kBool && attribute.kind == Value::Kind::kInt) {
    return int64_t{value.as_bool() ? 1 : 0};
  }
  throw InvalidArgument(concatenate("attribute '", attribute.name, "' is ", wanted(attribute),
                                    ", not ", describe_value(attribute, value)));
}

}  // namespace ws
