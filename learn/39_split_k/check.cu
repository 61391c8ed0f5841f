#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int n : {100, 1000, 5000}) {
    const std::vector<float> x = check::numbers(n, 1);
    const std::vector<float> y = check::numbers(n, 2);
    double expected = 0;
    for (int i = 0; i < n; ++i) expected += double(x[i]) * y[i];
    const check::Array<float> x_on_device(x), y_on_device(y), parts(kBlocks), result(1);
    const check::Array<unsigned> ticket(std::vector<unsigned>{0});
    dot(n, x_on_device.pointer(), y_on_device.pointer(), parts.pointer(), ticket.pointer(),
        result.pointer());
    const std::string title = std::to_string(n) + " elements: ";
    check::equal(title + "result", result.read(), {expected}, 1e-3);
    check::equal(title + "ticket", ticket.read(), {0});
  }
}
