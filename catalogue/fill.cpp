#include "catalogue/fill.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numbers>
#include <thread>
#include <vector>

namespace ws {
namespace {

int64_t offset_of(const Tensor& tensor, int64_t index) {
  int64_t offset = 0;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    offset += index % tensor.shape[i] * tensor.strides[i];
    index /= tensor.shape[i];
  }
  return offset;
}

// Calls set(i, value) with the element's place in memory.
template <class T, class Convert>
void fill_as(const Tensor& tensor, const std::function<double(int64_t)>& value, Convert convert) {
  const bool dense = tensor.contiguous();
  T* data = tensor.as<T>();
  parallel_for(tensor.elements(), 1 << 14, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      data[dense ? i : offset_of(tensor, i)] = convert(value(i));
    }
  });
}

template <class T>
T rounded(double value) {
  return from_float<T>(static_cast<float>(value));
}

}  // namespace

double random_normal(uint64_t seed, uint64_t index) {
  // Box and Muller; 1 - u keeps the logarithm's argument above zero.
  const uint64_t bits = random_bits(seed, index);
  const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
  const double angle = static_cast<double>(bits & 0xFFFFFFFFu) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * angle);
}

void set_element(const Tensor& tensor, int64_t index, double value) {
  const int64_t at = offset_of(tensor, index);
  switch (tensor.dtype) {
    case DType::kF32: tensor.as<float>()[at] = static_cast<float>(value); break;
    case DType::kF16: tensor.as<half>()[at] = rounded<half>(value); break;
    case DType::kBf16: tensor.as<bf16>()[at] = rounded<bf16>(value); break;
    case DType::kE4m3: tensor.as<e4m3>()[at] = rounded<e4m3>(value); break;
    case DType::kE5m2: tensor.as<e5m2>()[at] = rounded<e5m2>(value); break;
    case DType::kI32: tensor.as<int32_t>()[at] = static_cast<int32_t>(value); break;
    case DType::kI64: tensor.as<int64_t>()[at] = static_cast<int64_t>(value); break;
    case DType::kBool: tensor.as<uint8_t>()[at] = value != 0; break;
  }
}

void fill_with(const Tensor& tensor, const std::function<double(int64_t)>& value) {
  switch (tensor.dtype) {
    case DType::kF32:
      fill_as<float>(tensor, value, [](double v) { return static_cast<float>(v); });
      break;
    case DType::kF16: fill_as<half>(tensor, value, rounded<half>); break;
    case DType::kBf16: fill_as<bf16>(tensor, value, rounded<bf16>); break;
    case DType::kE4m3: fill_as<e4m3>(tensor, value, rounded<e4m3>); break;
    case DType::kE5m2: fill_as<e5m2>(tensor, value, rounded<e5m2>); break;
    case DType::kI32:
      fill_as<int32_t>(tensor, value, [](double v) { return static_cast<int32_t>(v); });
      break;
    case DType::kI64:
      fill_as<int64_t>(tensor, value, [](double v) { return static_cast<int64_t>(v); });
      break;
    case DType::kBool:
      fill_as<uint8_t>(tensor, value, [](double v) { return static_cast<uint8_t>(v != 0); });
      break;
  }
}

void fill_normal(const Tensor& tensor, uint64_t seed) {
  fill_with(tensor, [seed](int64_t i) { return random_normal(seed, static_cast<uint64_t>(i)); });
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work) {
  if (count < 2 * grain) {
    if (count > 0) work(0, count);
    return;
  }
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t threads = std::min(cores, count / grain);
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto run = [&] {
    for (int64_t first = next.fetch_add(grain); first < count; first = next.fetch_add(grain)) {
      try {
        work(first, std::min(first + grain, count));
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (failure == nullptr) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int64_t i = 1; i < threads; ++i) helpers.emplace_back(run);
    run();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace ws
