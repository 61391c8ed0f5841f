// The catalogue as JSON: all that the program's `list --json`, Python and the C ABI tell of it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "catalogue/catalogue.hpp"

namespace ws {

using Json = nlohmann::ordered_json;

// {"version", "device", "dtypes", "families": [{"name", "summary", "operations", "rungs"}]}, made
// once.
const Json& catalogue_json();
const std::string& catalogue_text();  // dumped

// Operations are numbered through all families. Throws InvalidArgument outside.
const Operation& operation_at(int64_t id);
int32_t id_of(const Operation& operation);

std::string_view to_string(Value::Kind kind);  // of an attribute: "float", "choice", ...

// A value as JSON has it: a number, true, a choice's name, [0, -1]; null for none and for unset.
Json to_json(const Attribute& attribute, const Value& value);
// And back; text is read as parse_value() reads it. Throws InvalidArgument that names the
// attribute.
Value value_from(const Attribute& attribute, const Json& json);

// {"extents", "offset", "padding", "attributes": {name: value, of those that are set}}
Json to_json(const Operation& operation, const Case& chosen);

Json names_of(DTypes dtypes);  // ["f32", "f16"]

}  // namespace ws
