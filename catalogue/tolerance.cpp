#include "catalogue/tolerance.hpp"

#include <cmath>

namespace ws {

double rounding_error(DType dtype) {
  switch (dtype) {
    case DType::kE5m2: return std::ldexp(1.0, -3);
    case DType::kE4m3: return std::ldexp(1.0, -4);
    case DType::kBf16: return std::ldexp(1.0, -8);
    case DType::kF16: return std::ldexp(1.0, -11);
    default: return std::ldexp(1.0, -24);
  }
}

double accumulation_error(int64_t k) {
  const auto products = static_cast<double>(k);
  return std::ldexp(1.0, -23) * (4 + std::sqrt(products) + products / 32);
}

Tolerance product_tolerance(DType dtype, int64_t k) {
  const double rounding = rounding_error(dtype);
  const double accumulation = accumulation_error(k);
  return {.relative = rounding + accumulation,
          .worst = 1.01 * rounding + 8 * accumulation,
          .floor = std::sqrt(static_cast<double>(k)) + std::ldexp(1.0, -14)};
}

}  // namespace ws
