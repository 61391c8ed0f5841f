#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int n : {500, 4000}) {
    const std::vector<float> x = check::numbers(n, 1);
    double expected = 0;
    for (const float value : x) expected += value > 0 ? 1 : 0;
    const check::Array<float> on_device(x);
    const check::Array<int> result(std::vector<int>{0});
    count_positive(n, on_device.pointer(), result.pointer());
    check::equal(std::to_string(n) + " elements: count", result.read(), {expected});
  }
}
