#include <algorithm>

#include "check.hpp"
#include "exercise.cu"

int main() {
  const int rows = 3;
  for (const int columns : {32, 100}) {
    for (const float around : {0.0f, 1000.0f, -1000.0f}) {
      std::vector<float> x = check::numbers(rows * columns, 1);
      for (float& value : x) value = around + 8 * value;
      std::vector<double> expected(x.size());
      for (int row = 0; row < rows; ++row) {
        const float* in = x.data() + row * columns;
        const float most = *std::max_element(in, in + columns);
        double sum = 0;
        for (int i = 0; i < columns; ++i) sum += std::exp(double(in[i]) - most);
        for (int i = 0; i < columns; ++i) {
          expected[row * columns + i] = std::exp(double(in[i]) - most) / sum;
        }
      }
      const check::Array<float> on_device(x), result(x.size());
      softmax(rows, columns, on_device.pointer(), result.pointer());
      check::equal(
          "rows of " + std::to_string(columns) + " around " + std::to_string(int(around)) + ": y",
          result.read(), expected, 1e-5, columns);
    }
  }
}
