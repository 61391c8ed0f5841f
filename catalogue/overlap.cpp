#include "catalogue/overlap.hpp"

#include <algorithm>
#include <numeric>

namespace ws {
namespace {

// A tensor's addresses: base, and steps in bytes, the longest first. Without dimensions of one
// element or of stride 0; negative steps turned round.
struct Box {
  int64_t base = 0;
  int64_t size = 0;  // of an element
  int rank = 0;
  std::array<int64_t, kMaxRank> steps{};
  std::array<int64_t, kMaxRank> counts{};

  explicit Box(const Tensor& tensor)
      : base(reinterpret_cast<int64_t>(tensor.data)),
        size(static_cast<int64_t>(size_of(tensor.dtype))) {
    for (int d = 0; d < tensor.rank; ++d) {
      const int64_t step = tensor.stride(d) * size;
      if (tensor.extent(d) <= 1 || step == 0) continue;
      if (step < 0) base += step * (tensor.extent(d) - 1);
      int at = rank++;
      for (; at > 0 && steps[static_cast<size_t>(at - 1)] < std::abs(step); --at) {
        steps[static_cast<size_t>(at)] = steps[static_cast<size_t>(at - 1)];
        counts[static_cast<size_t>(at)] = counts[static_cast<size_t>(at - 1)];
      }
      steps[static_cast<size_t>(at)] = std::abs(step);
      counts[static_cast<size_t>(at)] = tensor.extent(d);
    }
  }

  int64_t step(int d) const { return d < rank ? steps[static_cast<size_t>(d)] : 0; }
  int64_t count(int d) const { return d < rank ? counts[static_cast<size_t>(d)] : 1; }
  // Bytes from the first to the end of the last element of dimensions d and after.
  int64_t span(int d) const {
    int64_t bytes = size;
    for (; d < rank; ++d) bytes += step(d) * (count(d) - 1);
    return bytes;
  }
};

// Whether a's dimensions from `i` on and b's from `j` on meet, b lying `distance` bytes behind a.
bool meet(const Box& a, int i, const Box& b, int j, int64_t distance) {
  if (distance >= a.span(i) || -distance >= b.span(j)) return false;
  const int64_t step = std::max(a.step(i), b.step(j));
  if (step == 0) return true;
  const int next_i = a.step(i) == step ? i + 1 : i;
  const int next_j = b.step(j) == step ? j + 1 : j;
  const int64_t a_last = next_i > i ? a.count(i) - 1 : 0;
  const int64_t b_last = next_j > j ? b.count(j) - 1 : 0;
  if (a.span(next_i) > step || b.span(next_j) > step) return true;  // entangled
  // a's index less b's: only those that bring the rest within reach.
  const int64_t middle = distance / step;
  for (int64_t k = middle - 1; k <= middle + 1; ++k) {
    if (k < -b_last || k > a_last) continue;
    if (meet(a, next_i, b, next_j, distance - k * step)) return true;
  }
  return false;
}

}  // namespace

bool overlap(const Tensor& a, const Tensor& b) {
  if (a.data == nullptr || b.data == nullptr || a.elements() == 0 || b.elements() == 0) {
    return false;
  }
  const Box one(a);
  const Box two(b);
  const int64_t distance = two.base - one.base;
  if (distance >= one.span(0) || -distance >= two.span(0)) return false;  // nearly every pair
  int64_t common = 0;
  for (int d = 0; d < one.rank; ++d) common = std::gcd(common, one.step(d));
  for (int d = 0; d < two.rank; ++d) common = std::gcd(common, two.step(d));
  if (common > 0) {
    const int64_t rest = ((distance % common) + common) % common;
    if (rest >= one.size && common - rest >= two.size) return false;
  }
  return meet(one, 0, two, 0, distance);
}

bool overlaps_itself(const Tensor& tensor) {
  if (tensor.elements() == 0) return false;
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.extent(d) > 1 && tensor.stride(d) == 0) return true;
  }
  const Box box(tensor);
  for (int d = 0; d < box.rank; ++d) {
    if (box.step(d) < box.span(d + 1)) return true;
  }
  return false;
}

bool coincide(const Tensor& a, const Tensor& b) {
  if (a.data != b.data || a.dtype != b.dtype || !a.same_shape(b)) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.extent(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

}  // namespace ws
