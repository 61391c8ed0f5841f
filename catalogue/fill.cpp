#include "catalogue/fill.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <numbers>
#include <thread>
#include <vector>

namespace ws {
namespace {

// How an element lies in memory: a bool is a byte.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

}  // namespace

double random_normal(uint64_t seed, uint64_t index) {
  // Box and Muller; 1 - u keeps the logarithm's argument above zero.
  const uint64_t bits = random_bits(seed, index);
  const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
  const double angle = static_cast<double>(bits & 0xFFFFFFFFu) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * angle);
}

void set_element(const Tensor& tensor, int64_t index, double value) {
  with_type<kEveryDType>(tensor.dtype, [&]<class T>() {
    tensor.as<Stored<T>>()[offset_of(tensor, index)] = nearest<T>(value);
  });
}

void fill_with(const Tensor& tensor, const std::function<double(int64_t)>& value) {
  const bool dense = tensor.contiguous();
  with_type<kEveryDType>(tensor.dtype, [&]<class T>() {
    auto* data = tensor.as<Stored<T>>();
    parallel_for(tensor.elements(), 1 << 14, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        data[dense ? i : offset_of(tensor, i)] = nearest<T>(value(i));
      }
    });
  });
}

// Dense tensors of more elements than this repeat their numbers, which is forty times as fast as
// making more; it is prime, so that rows differ whatever their length.
constexpr int64_t kNormalPeriod = 16777213;

void fill_normal(const Tensor& tensor, uint64_t seed) {
  const auto normal = [seed](int64_t i) { return random_normal(seed, static_cast<uint64_t>(i)); };
  const int64_t elements = tensor.elements();
  if (elements <= kNormalPeriod || !tensor.contiguous()) return fill_with(tensor, normal);
  Tensor period = Tensor::dense(tensor.dtype, {kNormalPeriod});
  period.data = tensor.data;
  fill_with(period, normal);
  const size_t size = size_of(tensor.dtype);
  auto* const bytes = static_cast<std::byte*>(tensor.data);
  parallel_for(elements - kNormalPeriod, 1 << 16, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last;) {
      const int64_t from = i % kNormalPeriod;
      const int64_t count = std::min(last - i, kNormalPeriod - from);
      std::memcpy(bytes + static_cast<size_t>(kNormalPeriod + i) * size,
                  bytes + static_cast<size_t>(from) * size, static_cast<size_t>(count) * size);
      i += count;
    }
  });
}

void fill_normal_input(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (is_float(tensor.dtype)) return fill_normal(tensor, seed);
  const bool is_bool = tensor.dtype == DType::kBool;
  const double least = is_bool || tensor.dtype == DType::kU8 ? 0 : -100;
  const double most = is_bool ? 1 : 100;
  fill_with(tensor, [=](int64_t i) {
    const double uniform = random_uniform(seed, static_cast<uint64_t>(i));
    return std::floor(least + uniform * (most - least + 1));
  });
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
