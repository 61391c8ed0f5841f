#include <algorithm>

#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int n : {32, 50, 96}) {
    std::vector<float> q = check::numbers(n * kDepth, 1);
    const std::vector<float> k = check::numbers(n * kDepth, 2);
    const std::vector<float> v = check::numbers(n * kDepth, 3);
    for (float& value : q) value *= 4;  // scores far apart
    std::vector<double> expected(q.size());
    for (int query = 0; query < n; ++query) {
      std::vector<double> weights(n);
      for (int i = 0; i < n; ++i) {
        for (int d = 0; d < kDepth; ++d) {
          weights[i] += double(q[query * kDepth + d]) * k[i * kDepth + d] / std::sqrt(kDepth);
        }
      }
      const double most = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - most);
      for (int i = 0; i < n * kDepth; ++i) {
        expected[query * kDepth + i % kDepth] += weights[i / kDepth] / sum * v[i];
      }
    }
    const check::Array<float> q_on_device(q), k_on_device(k), v_on_device(v), out(q.size());
    attention(n, q_on_device.pointer(), k_on_device.pointer(), v_on_device.pointer(),
              out.pointer());
    check::equal(std::to_string(n) + " queries: out", out.read(), expected, 1e-4, kDepth);
  }
}
