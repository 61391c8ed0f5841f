#include "warpsmith/tile/raster.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace ws::tile {
namespace {

TEST(Raster, VisitsEveryTileOnce) {
  for (const auto& [m, n, group] : {std::array{1, 1, 8},
                                    {7, 5, 8},
                                    {8, 3, 4},
                                    {9, 4, 4},
                                    {3, 9, 1},
                                    {1, 300, 32},
                                    {47, 23, 16}}) {
    const Raster raster{.tiles_m = m, .tiles_n = n, .group = group};
    std::set<std::pair<int, int>> seen;
    for (int i = 0; i < raster.count(); ++i) {
      const TileIndex tile = raster.at(i);
      EXPECT_TRUE(tile.m >= 0 && tile.m < m && tile.n >= 0 && tile.n < n)
          << tile.m << " " << tile.n;
      seen.emplace(tile.m, tile.n);
      const TileIndex prepared = PreparedRaster(raster).at(i);
      EXPECT_EQ(std::pair(prepared.m, prepared.n), std::pair(tile.m, tile.n)) << i;
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(m) * n) << m << " x " << n << " by " << group;
  }
}

TEST(Raster, GoesDownTheBandThenAcrossThenBack) {
  const Raster raster{.tiles_m = 3, .tiles_n = 2, .group = 2};
  const std::pair<int, int> expected[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}, {2, 0}};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(std::pair(raster.at(i).m, raster.at(i).n), expected[i]) << i;
  }
}

}  // namespace
}  // namespace ws::tile
