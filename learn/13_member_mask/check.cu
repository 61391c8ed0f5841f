#include <algorithm>

#include "check.hpp"
#include "exercise.cu"

int main() {
  const int rows = 5;
  for (const int columns : {32, 50, 7}) {
    const std::vector<float> x = check::numbers(rows * columns, 1);
    std::vector<double> expected;
    for (int row = 0; row < rows; ++row) {
      const auto first = x.begin() + row * columns;
      expected.push_back(*std::max_element(first, first + columns));
    }
    const check::Array<float> on_device(x), result(rows);
    row_max(rows, columns, on_device.pointer(), result.pointer());
    check::equal("rows of " + std::to_string(columns) + ": largest", result.read(), expected);
  }
}
