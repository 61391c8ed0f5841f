#include "catalogue/catalogue_json.hpp"

#include <algorithm>
#include <cmath>

#include "warpsmith/runtime.hpp"

namespace ws {
namespace {

template <class Range>
Json list_of(const Range& range) {
  return Json(std::vector<std::string_view>(range.begin(), range.end()));
}

std::string_view to_string(Parameter::Role role) {
  switch (role) {
    case Parameter::Role::kIn: return "in";
    case Parameter::Role::kOut: return "out";
    case Parameter::Role::kInOut: return "inout";
  }
  return "?";
}

std::string_view to_string(Parameter::Rows rows) {
  switch (rows) {
    case Parameter::Rows::kLeading: return "leading";
    case Parameter::Rows::kBroadcast: return "broadcast";
    case Parameter::Rows::kShared: return "shared";
  }
  return "?";
}

std::string_view to_string(Batch batch) {
  switch (batch) {
    case Batch::kNone: return "none";
    case Batch::kElements: return "elements";
    case Batch::kRows: return "rows";
  }
  return "?";
}

Json to_json(const Parameter& parameter) {
  return {{"name", parameter.name},           {"role", to_string(parameter.role)},
          {"optional", parameter.optional},   {"doc", parameter.doc},
          {"shape", parameter.shape},         {"torch_dtype", parameter.torch_dtype},
          {"rows", to_string(parameter.rows)}};
}

Json to_json(const Attribute& attribute) {
  return {{"name", attribute.name},
          {"kind", to_string(attribute.kind)},
          {"required", attribute.standard.is_unset()},
          {"default", to_json(attribute, attribute.standard)},
          {"choices", list_of(attribute.choices)},
          {"doc", attribute.doc}};
}

Json to_json(const Family& family, const Operation& operation) {
  Json json = {{"id", id_of(operation)},
               {"name", operation.name},
               {"summary", operation.summary},
               {"formula", operation.formula},
               {"source", operation.source},
               {"torch", operation.torch},
               {"gradient", operation.gradient},
               {"in_place", operation.in_place},
               {"batch", to_string(operation.batch)},
               {"dtypes", names_of(operation.dtypes)},
               {"extents", list_of(operation.extent_names)},
               {"optional_extents", operation.optional_extents},
               {"parameters", Json::array()},
               {"attributes", Json::array()},
               {"peers", Json::array()},
               {"python_peers", Json::array()},
               {"seeds", Json::array()}};
  for (const Parameter& p : operation.parameters) json["parameters"].push_back(to_json(p));
  for (const Attribute& a : operation.attributes) json["attributes"].push_back(to_json(a));
  if (operation.peers != nullptr) {
    for (const Peer& peer : operation.peers()) json["peers"].push_back(peer.name);
  }
  for (const PythonPeer& peer : operation.python_peers) {
    json["python_peers"].push_back({{"name", peer.name}, {"expression", peer.expression}});
  }
  for (const Rung* rung : family.rungs) {
    for (const std::string& name : seeds_of(*rung, operation)) {
      // What a name fixes beyond the rung is resolve()'s to say.
      const DTypes fixed = resolve(name).dtypes;
      const DTypes all = dtypes_of(*rung, operation);
      json["seeds"].push_back({{"name", name},
                               {"rung", rung->name},
                               {"dtypes", names_of(fixed.empty() ? all : fixed & all)}});
    }
  }
  return json;
}

Json to_json(const Family& family, const Rung& rung) {
  DTypes dtypes;
  Json operations = Json::object();
  for (const Operation& operation : family.operations) {
    const DTypes taken = dtypes_of(rung, operation);
    if (taken.empty()) continue;
    operations[std::string(operation.name)] = names_of(taken);
    dtypes = dtypes | taken;
  }
  return {{"name", rung.name},
          {"from", rung.from.empty() ? Json(nullptr) : Json(rung.from)},
          {"idea", rung.idea},
          {"arch", to_string(rung.arch)},
          {"deterministic", rung.deterministic},
          {"accumulate", to_string(rung.accumulate)},
          {"may_spill", rung.may_spill},
          {"gpu_only", rung.gpu_only},
          {"file", rung.file},
          {"dtypes", names_of(dtypes)},
          {"operations", operations}};
}

Json to_json(const Family& family) {
  Json json = {{"name", family.name},
               {"summary", family.summary},
               {"operations", Json::array()},
               {"rungs", Json::array()}};
  for (const Operation& operation : family.operations) {
    json["operations"].push_back(to_json(family, operation));
  }
  for (const Rung* rung : family.rungs) json["rungs"].push_back(to_json(family, *rung));
  return json;
}

Json dtype_table() {
  Json table = Json::array();
  for (const DTypeFacts& facts : kDTypeFacts) {
    table.push_back({{"name", facts.name},
                     {"torch", facts.torch_name},
                     {"code", facts.dlpack_code},
                     {"bits", 8 * facts.bytes},
                     {"float", facts.is_float}});
  }
  return table;
}

}  // namespace

const Json& catalogue_json() {
  static const Json kCatalogue = [] {
    Json all = Json::array();
    for (const Family* family : families()) all.push_back(to_json(*family));
    return Json{{"version", "0.1.0"},
                {"device", runtime::kName},
                {"dtypes", dtype_table()},
                {"families", all}};
  }();
  return kCatalogue;
}

const std::string& catalogue_text() {
  static const std::string kText = catalogue_json().dump();
  return kText;
}

const Operation& operation_at(int64_t id) {
  int64_t left = id;
  for (const Family* family : families()) {
    const auto count = static_cast<int64_t>(family->operations.size());
    if (left >= 0 && left < count) return family->operations[static_cast<size_t>(left)];
    left -= count;
  }
  throw InvalidArgument(concatenate("no operation has the number ", id));
}

int32_t id_of(const Operation& operation) {
  int32_t id = 0;
  for (const Family* family : families()) {
    for (const Operation& other : family->operations) {
      if (&other == &operation) return id;
      ++id;
    }
  }
  throw Error(concatenate("operation '", operation.name, "' is not in the catalogue"));
}

std::string_view to_string(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::kUnset: return "unset";
    case Value::Kind::kAbsent: return "none";
    case Value::Kind::kBool: return "bool";
    case Value::Kind::kInt: return "int";
    case Value::Kind::kFloat: return "float";
    case Value::Kind::kChoice: return "choice";
    case Value::Kind::kDims: return "dims";
  }
  return "?";
}

Json to_json(const Attribute& attribute, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUnset:
    case Value::Kind::kAbsent: return nullptr;
    case Value::Kind::kBool: return value.as_bool();
    case Value::Kind::kInt: return value.as_int();
    case Value::Kind::kFloat:
      // JSON has no infinity, and readers take its text as well.
      return std::isfinite(value.as_float()) ? Json(value.as_float())
                                             : Json(describe_value(attribute, value));
    case Value::Kind::kChoice: return attribute.choices[static_cast<size_t>(value.as_choice())];
    case Value::Kind::kDims: {
      Json dims = Json::array();
      for (const int dim : value.as_dims()) dims.push_back(static_cast<int>(dim));
      return dims;
    }
  }
  return nullptr;
}

Value value_from(const Attribute& attribute, const Json& json) {
  if (json.is_null()) return parse_value(attribute, "none");
  if (json.is_string()) return parse_value(attribute, json.get<std::string>());
  if (!json.is_array()) return parse_value(attribute, json.dump());
  std::string text;
  for (const Json& entry : json) text.append(text.empty() ? "" : ",").append(entry.dump());
  return parse_value(attribute, text);
}

Json to_json(const Operation& operation, const Case& chosen) {
  const auto end =
      chosen.extents.begin() + static_cast<std::ptrdiff_t>(operation.extent_names.size());
  Json json = {{"extents", std::vector(chosen.extents.begin(), end)},
               {"offset", chosen.offset},
               {"padding", chosen.padding},
               {"attributes", Json::object()}};
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    if (chosen.attributes[i].is_unset()) continue;
    const Attribute& attribute = operation.attributes[i];
    json["attributes"][std::string(attribute.name)] = to_json(attribute, chosen.attributes[i]);
  }
  return json;
}

Json names_of(DTypes dtypes) {
  Json names = Json::array();
  for (const DType dtype : kAllDTypes) {
    if (dtypes.has(dtype)) names.push_back(to_string(dtype));
  }
  return names;
}

}  // namespace ws
