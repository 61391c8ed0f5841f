// The house's rules for the tables of a family.
#include <algorithm>

#include "catalogue/catalogue.hpp"

namespace ws {
namespace {

bool is_snake_case(std::string_view name) {
  if (name.empty() || name.front() < 'a' || name.front() > 'z' || name.back() == '_') return false;
  return std::ranges::all_of(
      name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

bool is_one_line(std::string_view text) {
  return !text.empty() && text.find('\n') == std::string_view::npos;
}

class Checker {
 public:
  explicit Checker(std::string where) : where_(std::move(where)) {}
  template <class... Parts>
  void expect(bool condition, const Parts&... parts) {
    if (!condition) defects_.push_back(concatenate(where_, ": ", parts...));
  }
  template <class Names>
  void expect_unique(const Names& names, std::string_view what) {
    for (auto i = names.begin(); i != names.end(); ++i) {
      expect(std::find(names.begin(), i, *i) == i, "two ", what, " are called '", *i, "'");
    }
  }
  void move_to(std::vector<std::string>& all) {
    all.insert(all.end(), defects_.begin(), defects_.end());
  }

 private:
  std::string where_;
  std::vector<std::string> defects_;
};

template <class Rows>
std::vector<std::string_view> names_of(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

void check_attributes(const Operation& op, Checker& checker) {
  checker.expect(op.attributes.size() <= static_cast<size_t>(kMaxAttributes), "has ",
                 op.attributes.size(), " attributes; at most ", kMaxAttributes);
  checker.expect_unique(names_of(op.attributes), "attributes");
  for (const Attribute& a : op.attributes) {
    checker.expect(is_snake_case(a.name), "attribute '", a.name, "' is not snake_case");
    checker.expect((a.kind == Value::Kind::kChoice) == !a.choices.empty(), "attribute '", a.name,
                   "' has choices where it is a choice, and only there");
    if (a.standard.is_unset() || a.standard.is_absent()) continue;
    try {
      checker.expect(checked_value(a, a.standard) == a.standard, "the default of '", a.name,
                     "' is of another kind");
    } catch (const InvalidArgument& error) {
      checker.expect(false, "the default: ", error.message());
    }
  }
}

void check_parameters(const Operation& op, Checker& checker) {
  const std::span<const Parameter> all = op.parameters;
  checker.expect(!all.empty() && all.size() <= static_cast<size_t>(kMaxTensors), "has ", all.size(),
                 " tensors; from 1 to ", kMaxTensors);
  checker.expect_unique(names_of(all), "tensors");
  checker.expect(!all.empty() && all.front().is_read() && !all.front().optional,
                 "the first tensor is one that a call always has");
  checker.expect(std::ranges::any_of(all, &Parameter::is_written), "writes nothing");
  checker.expect(std::ranges::is_partitioned(all, &Parameter::is_read),
                 "inputs and in-out tensors stand before outputs");
  for (const Parameter& p : all) {
    checker.expect(is_snake_case(p.name), "tensor '", p.name, "' is not snake_case");
    checker.expect(p.role != Parameter::Role::kInOut || !p.optional, "in-out tensor '", p.name,
                   "' is optional");
  }
}

void check_operation(const Family& family, const Operation& op, Checker& checker) {
  checker.expect(is_snake_case(op.name), "the name is not snake_case");
  checker.expect(is_one_line(op.summary) && is_one_line(op.formula), "summary, formula: one line");
  check_parameters(op, checker);
  check_attributes(op, checker);
  checker.expect(
      !op.extent_names.empty() && op.extent_names.size() <= static_cast<size_t>(kMaxExtents),
      "has ", op.extent_names.size(), " extents; from 1 to ", kMaxExtents);
  checker.expect(!op.dtypes.empty(), "takes no dtype");
  const Cases cases = op.cases();
  checker.expect(!cases.smoke.empty() && !cases.verify.empty() && !cases.bench.empty(),
                 "cases are missing");
  checker.expect(
      std::ranges::any_of(family.rungs, [&](const Rung* r) { return r->of(op) != nullptr; }),
      "no rung computes it");
}

void check_rung(const Family& family, size_t place, Checker& checker) {
  const Rung& rung = *family.rungs[place];
  checker.expect(is_snake_case(rung.name), "the name is not snake_case");
  checker.expect(is_one_line(rung.idea), "idea: one line");
  checker.expect(!rung.implementations.empty(), "computes nothing");
  for (const Implementation& one : rung.implementations) {
    checker.expect(!one.dtypes.empty(), "takes no dtype of ", one.operation);
    checker.expect(std::ranges::find(family.operations, one.operation, &Operation::name) !=
                       family.operations.end(),
                   "computes ", one.operation, ", which the family does not have");
  }
  for (const Seed& seed : rung.seeds) checker.expect(!seed.name.empty(), "a seed without a name");
  if (rung.accumulate != DType::kF32) {
    const std::string word = concatenate("acc_", to_string(rung.accumulate));
    checker.expect(size_of(rung.accumulate) < 4 && rung.name.find(word) != std::string_view::npos,
                   "adds up in ", to_string(rung.accumulate), ", and its name does not say ", word);
    for (const Operation& op : family.operations) {
      checker.expect(rung.of(op) == nullptr || op.tolerance_in != nullptr, "adds up in ",
                     to_string(rung.accumulate), ", for which ", op.name, " has no tolerance");
    }
  }
  const auto below = family.rungs.first(place);
  checker.expect(
      rung.from.empty() || std::ranges::find(below, rung.from, &Rung::name) != below.end(),
      "grew from '", rung.from, "', which does not stand before it");
  checker.expect(place > 0 || rung.from.empty(), "the first of the ladder grew from another");
}

}  // namespace

std::vector<std::string> defects_of(const Family& family) {
  std::vector<std::string> defects;
  Checker whole{std::string(family.name)};
  whole.expect(is_snake_case(family.name) && is_one_line(family.summary), "name and summary");
  whole.expect(!family.operations.empty() && !family.rungs.empty(), "operations and rungs");
  whole.expect_unique(names_of(family.operations), "operations");
  std::vector<std::string_view> rungs;
  for (const Rung* rung : family.rungs) rungs.push_back(rung->name);
  whole.expect_unique(rungs, "rungs");
  whole.move_to(defects);
  for (const Operation& op : family.operations) {
    Checker checker{std::string(op.name)};
    check_operation(family, op, checker);
    checker.move_to(defects);
  }
  for (size_t i = 0; i < family.rungs.size(); ++i) {
    Checker checker(concatenate(family.name, "/", family.rungs[i]->name));
    check_rung(family, i, checker);
    checker.move_to(defects);
  }
  return defects;
}

}  // namespace ws
