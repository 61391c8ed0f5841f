#include "harness/json.hpp"

#include <cmath>

namespace ws::harness {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const Tensor& tensor) {
  const auto rank = static_cast<std::ptrdiff_t>(tensor.rank);
  return {{"dtype", to_string(tensor.dtype)},
          {"shape", std::vector(tensor.shape.begin(), tensor.shape.begin() + rank)},
          {"strides", std::vector(tensor.strides.begin(), tensor.strides.begin() + rank)}};
}

Json to_json(const Verification& result) {
  Json json = {{"rung", result.rung},
               {"problem", result.problem},
               {"dtype", to_string(result.dtype)},
               {"verdict", to_string(result.verdict)}};
  if (result.verdict == Verdict::kFailed) json["defect"] = to_string(result.defect);
  if (!result.reason.empty()) json["reason"] = result.reason;
  if (result.verdict == Verdict::kSkipped) return json;
  json["error"] = number(result.error);
  json["tolerance"] = {{"relative", result.tolerance.relative},
                       {"worst", result.tolerance.worst},
                       {"floor", result.tolerance.floor}};
  json["worst"] = {{"tensor", result.worst.tensor},
                   {"index", result.worst.index},
                   {"got", number(result.worst.got)},
                   {"expected", number(result.worst.expected)}};
  json["checked"] = result.checked;
  json["elements"] = result.elements;
  json["seconds"] = result.seconds;
  if (!result.counts.empty()) json["counts"] = result.counts;
  return json;
}

}  // namespace ws::harness
