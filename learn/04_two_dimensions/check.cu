#include "check.hpp"
#include "exercise.cu"

int main() {
  const int shapes[][2] = {{8, 32}, {30, 40}, {100, 1}};
  for (const auto& [rows, columns] : shapes) {
    const std::vector<float> image = check::numbers(rows * columns, 1);
    std::vector<double> expected(image.size());
    for (size_t i = 0; i < image.size(); ++i) expected[i] = 1.0 - image[i];
    const check::Array<float> on_device(image), result(image.size());
    invert(rows, columns, on_device.pointer(), result.pointer());
    check::equal(std::to_string(columns) + " x " + std::to_string(rows) + " pixels: inverted",
                 result.read(), expected, 1e-6, columns);
  }
}
