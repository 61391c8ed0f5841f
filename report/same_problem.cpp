#include "report/same_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <tuple>

#include "harness/instance.hpp"

namespace ws::report {
namespace {

using harness::Instance;

bool are_alike(const Tensor& a, const Tensor& b) {
  if (a.exists() != b.exists()) return false;
  return !a.exists() || (a.dtype == b.dtype && a.same_shape(b) && a.strides == b.strides);
}

bool are_alike(const Tolerance& a, const Tolerance& b) {
  return a.relative == b.relative && a.worst == b.worst && a.floor == b.floor;
}

bool are_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Whether the reference of `problem`, which has the inputs of `instance`, is that of `instance`.
bool has_reference_of(const Problem& problem, Instance& instance) {
  for (const Instance::Expected& piece : instance.expected()) {
    std::vector<std::vector<double>> values = piece.tensors;
    std::vector<double*> targets;
    for (std::vector<double>& of_tensor : values) {
      std::ranges::fill(of_tensor, 0.0);
      targets.push_back(of_tensor.empty() ? nullptr : of_tensor.data());
    }
    problem.operation->reference(problem, piece.slice, targets);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::ranges::equal(values[i], piece.tensors[i], are_same)) return false;
    }
  }
  return true;
}

// Whether the same must come out of both cases, of the same inputs and with the same tolerance.
bool ask_for_the_same(const Operation& operation, const Case& a, const Case& b, DType dtype) {
  Instance first(operation, a, dtype, 1);
  const Instance second(operation, b, dtype, 1);
  Problem problem = second.problem();
  for (size_t i = 0; i < operation.parameters.size(); ++i) {
    const Parameter& parameter = operation.parameters[i];
    const Tensor& tensor = first.problem().tensors[i];
    if (!are_alike(tensor, problem.tensors[i])) return false;
    if (parameter.is_written() && !are_alike(operation.tolerance(first.problem(), parameter),
                                             operation.tolerance(problem, parameter))) {
      return false;
    }
    problem.tensors[i].data = tensor.data;
  }
  return has_reference_of(problem, first);
}

// On the operation's small cases: one that tells the two values apart is enough.
bool is_of_the_problem(const Operation& operation, size_t attribute, const Value& value,
                       DType dtype) {
  bool is_tried = false;
  for (Case plain : operation.cases().smoke) {
    if (!plain.is_of(dtype)) continue;
    plain.attributes[attribute] = operation.attributes[attribute].standard;
    Case changed = plain;
    changed.attributes[attribute] = value;
    try {
      if (!ask_for_the_same(operation, plain, changed, dtype)) return true;
      is_tried = true;
    } catch (const InvalidArgument&) {
      continue;  // one of them is no problem of the operation
    }
  }
  return !is_tried;
}

bool matters(const Operation& operation, const std::string& setting, DType dtype) {
  static std::map<std::tuple<const Operation*, std::string, DType>, bool> known;
  const size_t equals = setting.find('=');
  const std::string_view name = std::string_view(setting).substr(0, equals);
  const auto at = std::ranges::find(operation.attributes, name, &Attribute::name);
  if (equals == std::string::npos || at == operation.attributes.end()) return true;
  const std::tuple key{&operation, setting, dtype};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const Value value = parse_value(*at, std::string_view(setting).substr(equals + 1));
  const auto index = static_cast<size_t>(at - operation.attributes.begin());
  return known[key] = is_of_the_problem(operation, index, value, dtype);
}

}  // namespace

std::string essence_of(const Ladder& ladder) {
  try {
    const Operation& operation = operation_named(ladder.operation);
    const DType dtype = dtype_from(ladder.dtype);
    std::string essence;
    std::istringstream words(ladder.problem);
    for (std::string word; words >> word;) {
      if (matters(operation, word, dtype)) essence.append(essence.empty() ? "" : " ").append(word);
    }
    return essence;
  } catch (const InvalidArgument&) {
    return ladder.problem;  // of a catalogue that is not this one
  }
}

}  // namespace ws::report
