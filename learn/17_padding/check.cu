#include "check.hpp"
#include "exercise.cu"

int main() {
  const int shapes[][2] = {{64, 96}, {100, 40}, {1, 33}};
  for (const auto& [rows, columns] : shapes) {
    const std::vector<float> x = check::numbers(rows * columns, 1);
    std::vector<double> expected(x.size());
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        expected[column * rows + row] = x[row * columns + column];
      }
    }
    const check::Array<float> on_device(x), result(x.size());
    transpose(rows, columns, on_device.pointer(), result.pointer());
    check::equal(std::to_string(rows) + " x " + std::to_string(columns) + ": y", result.read(),
                 expected, 0, rows);
  }
}
