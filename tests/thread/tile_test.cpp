#include "warpsmith/thread/tile.hpp"

#include <gtest/gtest.h>

namespace ws {
namespace {

TEST(Tile, MapsEveryValueToAnotherType) {
  const thread::Tile<int, 3> tile{{1, 2, 3}};
  const thread::Tile<double, 3> halves = map(tile, [](int v) { return v / 2.0; });
  EXPECT_EQ(halves[0], 0.5);
  EXPECT_EQ(halves[2], 1.5);
}

TEST(Tile, IsMadeOfTypesThatDoNotBeginEmpty) {
  struct Doubled {
    explicit Doubled(int v) : value(2 * v) {}
    int value;
  };
  const auto tile = thread::tile_of<3>([](int i) { return Doubled(i + 1); });
  EXPECT_EQ(tile[0].value, 2);
  EXPECT_EQ(tile[2].value, 6);
}

TEST(Tile, FoldsFromTheFirst) {
  const thread::Tile<int, 4> tile{{1, 2, 3, 4}};
  EXPECT_EQ(fold(tile, 9, [](int all, int v) { return all * 10 + v; }), 91234);
}

}  // namespace
}  // namespace ws
