#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int tiles : {1, 2, 5}) {
    const std::vector<float> x = check::numbers(512 * tiles, 1);
    std::vector<double> expected(x.size());
    for (int i = 0; i < 512 * tiles; ++i) expected[i] = x[i / 512 * 512 + 511 - i % 512];
    const check::Array<float> on_device(x), result(x.size());
    reverse_tiles(tiles, on_device.pointer(), result.pointer());
    check::equal(std::to_string(tiles) + " tiles: y", result.read(), expected);
  }
}
