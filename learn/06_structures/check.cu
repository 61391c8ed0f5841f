#include "check.hpp"
#include "exercise.cu"

int main() {
  const float speed[] = {0.5f, -1, 2, 0};
  for (const int count : {128, 1000}) {
    const std::vector<float> before = check::numbers(4 * count, 1);
    std::vector<double> expected(before.size());
    for (size_t i = 0; i < before.size(); ++i) expected[i] = double(before[i]) + speed[i % 4];
    const check::Array<float> on_device(before), result(before.size());
    move_particles(count, speed[0], speed[1], speed[2], on_device.pointer(), result.pointer());
    check::equal(std::to_string(count) + " particles: after", result.read(), expected, 1e-6, 4);
  }
}
