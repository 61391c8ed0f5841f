#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int n : {256, 1024}) {
    const std::vector<float> x = check::numbers(n, 1);
    std::vector<double> expected((n + 255) / 256);
    for (int i = 0; i < n; ++i) expected[i / 256] += x[i];
    const check::Array<float> on_device(x), result(expected.size());
    block_sums(n, on_device.pointer(), result.pointer());
    check::equal(std::to_string(n) + " elements: sums", result.read(), expected, 1e-4);
  }
}
