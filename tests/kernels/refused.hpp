// What a wrong call is told, for tests of calls that are refused.
#pragma once

#include <functional>
#include <string>

#include "catalogue/catalogue.hpp"

namespace ws::test {

inline std::string told(Problem problem, const std::function<void(Problem&)>& change) {
  change(problem);
  try {
    AnyCall{problem};
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

inline void set(Problem& problem, std::string_view name, const Value& value) {
  const auto attributes = problem.operation->attributes;
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (attributes[i].name == name) problem.attributes[i] = value;
  }
}

}  // namespace ws::test
