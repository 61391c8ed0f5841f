// Softmax of a matrix by Warpsmith's library: docs/cpp.md.
#include <cstdio>
#include <vector>

#include "warpsmith/operations.hpp"

int main() {
  const std::vector<float> x = {1, 2, 3, 1, 1, 1};
  std::vector<float> y(x.size());
  std::vector<float> total(2);

  warpsmith::softmax({x.data(), {2, 3}}, {y.data(), {2, 3}});
  std::printf("%.3f %.3f %.3f\n%.3f %.3f %.3f\n", y[0], y[1], y[2], y[3], y[4], y[5]);

  warpsmith::sum({y.data(), {2, 3}}, {total.data(), 2}, {.dim = 1});
  std::printf("rows add up to %.3f and %.3f\n", total[0], total[1]);

  try {
    warpsmith::softmax({x.data(), {2, 3}}, {y.data(), {3, 2}});
  } catch (const warpsmith::InvalidArgument& error) {
    std::printf("%s\n", error.what());
  }
}
