#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int n : {1000, 5000}) {
    std::vector<int> x;
    for (const float value : check::numbers(n, 1)) x.push_back(int(32 * (value + 1)));
    std::vector<double> expected(64);
    for (const int bin : x) expected[bin] += 1;
    const check::Array<int> on_device(x);
    const check::Array<int> bins(std::vector<int>(64, 0));
    histogram(n, on_device.pointer(), bins.pointer());
    check::equal(std::to_string(n) + " elements: bins", bins.read(), expected);
  }
}
