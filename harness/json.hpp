// Results and facts as JSON: the one place that says how files and --json look.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/verify.hpp"

namespace ws::harness {

using Json = nlohmann::ordered_json;

Json to_json(const Tensor& tensor);
Json to_json(const Verification& result);
// A number, or null where JSON has none for it.
Json number(double value);

}  // namespace ws::harness
