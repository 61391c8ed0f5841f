// What scan's rungs share: lengths around tiles and groups of tiles, the same bits in every run,
// numbers that are none.
#include <cmath>
#include <cstring>
#include <limits>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"
#include "kernels/scan/16_columns_strips.cuh"
#include "kernels/scan/look_back.hpp"
#include "kernels/scan/operations.hpp"
#include "tests/run.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::scan {
namespace {

// A call with memory.
class Instance {
 public:
  Instance(std::string_view operation, DType dtype, std::initializer_list<int64_t> shape, int dim,
           bool exclusive = false, bool reverse = false)
      : x_(bytes_of(dtype, shape)) {
    Problem problem;
    problem.operation = &operation_named(operation);
    problem.tensor(0) = Tensor::dense(dtype, shape);
    problem.tensor(0).data = x_.data();
    problem.attributes[0] = dim;
    problem.attributes[1] = exclusive;
    problem.attributes[2] = reverse;
    if (dtype == DType::kI32 && operation.starts_with("cum")) {
      problem.attributes[3] = Value::choice(0);
    }
    problem_ = AnyCall(problem).problem();
    const Tensor& y = problem_.tensor(1);
    bytes_ = static_cast<size_t>(y.elements()) * size_of(y.dtype);
    y_ = std::make_unique<test::Buffer<uint8_t>>(bytes_);
    problem_.tensor(1).data = y_->data();
    problem_.operation->fill(problem_, 0, 7);
  }

  const Tensor& x() const { return problem_.tensor(0); }
  const Tensor& y() const { return problem_.tensor(1); }
  AnyCall call() const { return AnyCall(problem_); }
  const Rung& rung(std::string_view name) const {
    return *rung_named(family_of(*problem_.operation), name);
  }
  std::string_view best_rung() const { return best(call(), runtime::capability()).name; }

  // Its bytes; the workspace serves several calls of a rung, and has to be as zero after each as
  // before.
  std::vector<uint8_t> run(const Rung& rung) {
    const Workspace wanted = workspace_of(rung, call());
    if (workspace_of_ != &rung) {
      workspace_of_ = &rung;
      workspace_ = std::make_unique<test::Buffer<uint8_t>>(wanted.bytes + 1);
    }
    std::memset(workspace_->data() + wanted.zeroed, 0xFF, wanted.bytes - wanted.zeroed);
    std::memset(y_->data(), 0xFF, bytes_);
    ws::run(rung, call(), {.workspace = workspace_->data()});
    test::wait();
    EXPECT_TRUE(std::all_of(workspace_->data(), workspace_->data() + wanted.zeroed,
                            [](uint8_t byte) { return byte == 0; }))
        << "the workspace is not zero";
    return {y_->begin(), y_->end()};
  }

  void expect_right() {
    const Operation& operation = *problem_.operation;
    std::vector<double> expected(static_cast<size_t>(y().elements()));
    std::array<double*, kMaxTensors> to{};
    to[1] = expected.data();
    operation.reference(problem_, {0, operation.items(problem_, operation.parameters[1])}, to);
    const Tolerance allowed = operation.tolerance(problem_, operation.parameters[1]);
    for (int64_t i = 0; i < y().elements(); ++i) {
      const double want = expected[static_cast<size_t>(i)];
      const double got = element(y(), i);
      if (std::isnan(want) || std::isinf(want)) {
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
            << got << " for " << want << " at " << i << " of " << problem_.describe();
      } else {
        ASSERT_LE(std::abs(got - want), allowed.worst * (std::abs(want) + allowed.floor))
            << got << " for " << want << " at " << i << " of " << problem_.describe();
      }
    }
  }
  // Of each rung that takes the call; those that hold products with zeros leave numbers alone.
  int every_rung_is_right(bool numbers = true) {
    int takers = 0;
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call(), runtime::capability())) continue;
      if (!numbers && rung->name == "tensor_core") continue;
      SCOPED_TRACE(rung->name);
      ++takers;
      run(*rung);
      expect_right();
    }
    return takers;
  }

  // x to other memory, an element past its first, and elements `stride` apart.
  void move_x(int64_t stride) {
    Tensor& x = problem_.tensor(0);
    for (int d = 0; d < x.rank; ++d) x.strides[static_cast<size_t>(d)] *= stride;
    const auto elements = static_cast<size_t>(x.elements() * stride + 1);
    moved_ = std::make_unique<test::Buffer<uint8_t>>(elements * size_of(x.dtype));
    x.data = moved_->data() + size_of(x.dtype);
    problem_.operation->fill(problem_, 0, 7);
  }

 private:
  static size_t bytes_of(DType dtype, std::initializer_list<int64_t> shape) {
    const Tensor x = Tensor::dense(dtype, shape);
    return static_cast<size_t>(x.elements() + 1) * size_of(dtype);
  }

  Problem problem_;
  test::Buffer<uint8_t> x_;
  std::unique_ptr<test::Buffer<uint8_t>> moved_;
  std::unique_ptr<test::Buffer<uint8_t>> y_;
  const Rung* workspace_of_ = nullptr;
  std::unique_ptr<test::Buffer<uint8_t>> workspace_;
  size_t bytes_ = 0;
};

// Tiles of look_back are 32 KiB, of values of 8 bytes 16.
TEST(Scan, LengthsAroundTiles) {
  for (const int64_t tile : {int64_t{8192}, int64_t{4096}}) {
    for (const int64_t count : {tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1}) {
      Instance("cumsum", DType::kF32, {count}, 0).every_rung_is_right();
      Instance("cumsum", DType::kF32, {count}, 0, true, true).every_rung_is_right();
    }
  }
  Instance("cumsum", DType::kBf16, {16385}, 0).every_rung_is_right();
  for (const int64_t count : {2047, 2048, 2049, 6000}) {
    Instance("cumsum", DType::kI64, {count}, 0, true).every_rung_is_right();
    Instance("scan_min", DType::kI64, {count}, 0, false, true).every_rung_is_right();
  }
  Instance("logcumsumexp", DType::kF32, {4097}, 0, true).every_rung_is_right();
}

// Groups are of 32 tiles, which of whole numbers are of 2048 and of 4096: in every order of blocks,
// call after call.
TEST(Scan, GroupsOfTilesPassOn) {
  for (const std::string_view name : {"look_back", "look_back_queue", "server"}) {
    SCOPED_TRACE(name);
    const int64_t tile = name == "look_back" ? 2048 : 4096;
    Instance instance("cumsum", DType::kI64, {tile * 66 + 5}, 0);
    test::in_every_order([&] {
      instance.run(instance.rung(name));
      instance.expect_right();
    });
  }
}

// Eight groups of tiles, so that each warp of the server has several; and rows that begin within
// one.
TEST(Scan, TheServerGoesRound) {
  Instance("cumsum", DType::kI64, {1000001}, 0).every_rung_is_right();
  for (const bool reverse : {false, true}) {
    Instance instance("cumsum", DType::kF32, {7, 130001}, 1, reverse, reverse);
    test::in_every_order([&] {
      instance.run(instance.rung("server"));
      instance.expect_right();
    });
  }
}

// Rows of some lanes, of several warps and of several parts, that fill them and that do not, one
// behind the other and apart.
TEST(Scan, RowsOfAQueue) {
  for (const int64_t count : {32, 64, 100, 1024, 1100, 2048, 2500, 4096, 8192, 20000}) {
    for (const bool reverse : {false, true}) {
      Instance instance("cumsum", DType::kF32, {count < 200 ? 300 : 5, count}, 1, !reverse,
                        reverse);
      instance.run(instance.rung("row_queue"));
      instance.expect_right();
    }
  }
}

// Lines of several tiles, and short ones, of which only results begin at multiples of 16 bytes, or
// whose elements lie apart. What is added to what does not depend on it.
TEST(Scan, SidesThatLieDifferently) {
  const auto is_right = [](std::string_view operation, DType dtype,
                           std::initializer_list<int64_t> shape) {
    for (const int64_t stride : {1, 3}) {
      for (const bool reverse : {false, true}) {
        Instance instance(operation, dtype, shape, -1, !reverse, reverse);
        const Rung& rung = instance.rung("look_back");
        const std::vector<uint8_t> alike = instance.run(rung);
        instance.move_x(stride);
        EXPECT_GE(instance.every_rung_is_right(), 4);
        if (shape.size() == 1) {
          EXPECT_EQ(instance.run(rung), alike);
        }
      }
    }
  };
  is_right("cumsum", DType::kF32, {20003});
  is_right("cumsum", DType::kF16, {33001});
  is_right("cumsum", DType::kI32, {4100});
  is_right("cumprod", DType::kI64, {2, 4097});
  is_right("logcumsumexp", DType::kF32, {4099});
  is_right("scan_min", DType::kBf16, {3, 16385});
  is_right("scan_max", DType::kF32, {37, 101});
  is_right("cumsum", DType::kF32, {9, 7});
}

// Columns that are no whole vectors: few, of which many threads stand one below the other, and more
// than a strip; several tiles, in every order of blocks.
TEST(Scan, ColumnsOfSingleElements) {
  for (const bool reverse : {false, true}) {
    Instance("cumsum", DType::kF32, {300, 33}, 0, !reverse, reverse).every_rung_is_right();
    Instance("cumsum", DType::kF16, {270, 70}, 0, reverse, reverse).every_rung_is_right();
    Instance("scan_max", DType::kBf16, {515, 65}, 0, reverse, reverse).every_rung_is_right();
    Instance("cumprod", DType::kI64, {2, 130, 5}, 1, reverse, reverse).every_rung_is_right();
    Instance("logcumsumexp", DType::kBf16, {300, 7}, 0, reverse, reverse).every_rung_is_right();
    Instance moved("cumsum", DType::kI32, {260, 64}, 0, reverse, reverse);
    moved.move_x(1);
    moved.every_rung_is_right();
  }
  for (const int64_t columns : {2, 3}) {
    Instance instance("cumsum", DType::kF32, {40001, columns}, 0);
    const Rung& rung = instance.rung("columns");
    const std::vector<uint8_t> first = instance.run(rung);
    instance.expect_right();
    test::in_every_order([&] { EXPECT_EQ(instance.run(rung), first); });
  }
}

// A block of one warp is a tile with a total for each of `values` columns.
template <bool kByWarp>
struct TotalsKernel {
  static constexpr int kThreads = kWarpSize;
  struct Arguments {
    int64_t* before;
    LookBack<int64_t> look_back;
    int values;
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> drawn;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto add = [](int64_t x, int64_t y) { return x + y; };
    const auto tile = static_cast<int>(a.look_back.draw(shared.drawn));
    const int64_t total = (int64_t{1} << 33) * tile + 1;
    if constexpr (kByWarp) {
      a.before[tile] = a.look_back.by_warp(0, tile, total, int64_t{0}, add);
    } else {
      if (thread_index() < a.values) {
        a.before[tile * a.values + thread_index()] =
            a.look_back.by_thread(0, tile, thread_index(), total + thread_index(), int64_t{0}, add);
      }
      ptx::syncwarp();
      if (thread_index() == 0) a.look_back.done(0, tile);
    }
    a.look_back.leave(0, tile, thread_index(), kThreads, [] { ptx::syncwarp(); });
  }
};
template <bool kByWarp>
void bands_pass_on(const LookBackPlan& plan) {
  test::Buffer<int64_t> before(static_cast<size_t>(plan.tiles) * plan.values);
  test::Buffer<uint8_t> words(plan.bytes());
  std::memset(words.data(), 0, plan.bytes());
  test::in_every_order([&] {
    using Kernel = TotalsKernel<kByWarp>;
    launch<Kernel>({.blocks = plan.tiles, .threads = Kernel::kThreads}, nullptr,
                   {before.data(), {plan, words.data()}, plan.values});
    test::wait();
    for (int64_t t = 0; t < plan.tiles; ++t) {
      for (int c = 0; c < plan.values; ++c) {
        const int64_t expected = (t * (t - 1) / 2 << 33) + t * (1 + (kByWarp ? 0 : c));
        ASSERT_EQ(before.data()[t * plan.values + c], expected) << "tile " << t << ", " << c;
      }
    }
    EXPECT_TRUE(std::all_of(words.data(), words.data() + plan.bytes(),
                            [](uint8_t byte) { return byte == 0; }));
  });
}
TEST(LookBack, BandsPassOn) {
  constexpr int kWords = LookBack<int64_t>::kWords;
  for (const int tiles : {2, 31, 33, 1024, 1025, 2100}) {
    bands_pass_on<true>({.tiles = tiles, .radix = kWarpSize, .words = kWords});
  }
  for (const int radix : {3, LookBack<int64_t>::kRadixOfThreads}) {
    bands_pass_on<false>(
        {.tiles = 5 * radix * radix / 2, .radix = radix, .values = 3, .words = kWords});
  }
}

// Sixteen strips of 64 columns: groups of eight tiles of 32 rows.
TEST(Scan, GroupsOfColumnsPassOn) {
  for (const bool reverse : {false, true}) {
    Instance instance("cumsum", DType::kI64, {300, 1024}, 0, reverse, reverse);
    for (const std::string_view name : {"columns", "columns_staged", "columns_strips"}) {
      SCOPED_TRACE(name);
      test::in_every_order([&] {
        instance.run(instance.rung(name));
        instance.expect_right();
      });
    }
  }
}

// Strips of a whole cluster each and strips that two clusters share, whose columns end within a
// tile; more rounds than there are sets of totals; matrices of some strips, the last of which is
// not full.
TEST(Scan, StripsOfColumns) {
  struct Shape {
    int64_t matrices;
    int64_t rows;
    int64_t columns;
  };
  for (const Shape& shape :
       {Shape{1, 5, 4}, Shape{1, 257, 32}, Shape{3, 700, 72}, Shape{1, 20001, 12}}) {
    for (const bool reverse : {false, true}) {
      Instance instance("cumsum", DType::kF32, {shape.matrices, shape.rows, shape.columns}, 1,
                        !reverse, reverse);
      const Rung& rung = instance.rung("columns_strips");
      instance.run(rung);
      instance.expect_right();
    }
  }
  for (const DType dtype : {DType::kBf16, DType::kI64}) {
    Instance instance("scan_min", dtype, {30001, 16}, 0, true);
    test::in_every_order([&] {
      instance.run(instance.rung("columns_strips"));
      instance.expect_right();
    });
  }
}

// Of four blocks, of which three pass on the totals of other clusters: chosen where strips leave no
// two clusters of eight for each.
TEST(Scan, SmallClustersShareAStrip) {
  const Rung strips = rung_of<ColumnsStrips<StripShape<8, 8, 8, 2, 4, 16>>, Cumsum>(
      {.name = "columns_strips_of_four", .idea = "clusters of four", .arch = Arch::kSm90});
  for (const DType dtype : {DType::kBf16, DType::kF32}) {
    Instance instance("cumsum", dtype, {9001, 24}, 0, false, dtype == DType::kF32);
    if (!takes(strips, instance.call(), runtime::capability())) continue;  // an older GPU
    test::in_every_order([&] {
      instance.run(strips);
      instance.expect_right();
    });
  }
}

// Who finds which total when is another matter in each order of threads; what is added to what is
// not.
TEST(Scan, TheSameBitsInEveryOrder) {
  for (const std::string_view operation : {"cumsum", "logcumsumexp"}) {
    for (const std::string_view name : {"look_back", "look_back_queue", "row_queue", "server",
                                        "columns", "columns_staged", "columns_strips"}) {
      const bool columns = name.starts_with("columns");
      Instance instance(operation, DType::kF32, {columns ? 3000 : 90001, columns ? 8 : 1}, 0);
      SCOPED_TRACE(name);
      const Rung& rung = instance.rung(name);
      const std::vector<uint8_t> first = instance.run(rung);
      test::in_every_order([&] { EXPECT_EQ(instance.run(rung), first); });
    }
  }
}

TEST(Scan, WhatIsNoNumberReachesAllBehindIt) {
  for (const std::string_view operation :
       {"cumsum", "cumprod", "logcumsumexp", "scan_max", "scan_min"}) {
    for (const bool reverse : {false, true}) {
      Instance instance(operation, DType::kF16, {5, 72}, 1, false, reverse);
      auto* x = instance.x().as<half>();
      x[20] = from_float<half>(NAN);
      x[72 + 71] = from_float<half>(NAN);
      x[2 * 72 + 40] = from_float<half>(INFINITY);
      x[2 * 72 + 41] = from_float<half>(INFINITY);
      x[3 * 72] = from_float<half>(-INFINITY);
      x[3 * 72 + 71] = from_float<half>(-INFINITY);
      EXPECT_GE(instance.every_rung_is_right(false), 4);
    }
  }
  for (const DType dtype : {DType::kF32, DType::kBf16}) {  // a NaN beside logarithms of 0
    for (const bool reverse : {false, true}) {
      for (const bool down : {false, true}) {
        Instance instance("logcumsumexp", dtype, {640, 640}, down ? 0 : 1, false, reverse);
        const int64_t step = down ? 640 : 1;  // from element to element of a line, ...
        const int64_t other = down ? 1 : 640;
        const auto put = [&](int64_t line, int64_t at, float value) {
          const int64_t i = line * other + at * step;
          if (dtype == DType::kF32) instance.x().as<float>()[i] = value;
          if (dtype == DType::kBf16) instance.x().as<bf16>()[i] = from_float<bf16>(value);
        };
        for (int64_t line = 0; line < 9; ++line) {
          const int64_t first = reverse ? 639 - 40 * line : 40 * line;
          put(line, first, NAN);
          for (int64_t i = 1; i < 60; ++i) put(line, reverse ? first - i : first + i, -INFINITY);
        }
        EXPECT_GE(instance.every_rung_is_right(false), 3);
      }
    }
  }
  for (const bool exclusive : {false, true}) {  // nothing but logarithms of 0
    Instance instance("logcumsumexp", DType::kF32, {40}, 0, exclusive);
    for (int i = 0; i < 20; ++i) instance.x().as<float>()[i] = -INFINITY;
    instance.every_rung_is_right(false);
  }
}

// Sums of exponentials keep their shift where nothing is far above what lies before, and where
// something is, they do not overflow: steps up and down by more than floats' exponents, nothing but
// logarithms of 0 in front, elements of any size.
TEST(Scan, ExponentialsFarApart) {
  const auto fill = [](Instance& instance, int64_t lines, int64_t step) {
    const Tensor& x = instance.x();
    for (int64_t i = 0; i < x.elements(); ++i) {
      const int64_t line = (step == 1 ? i / x.shape[1] : i) % lines;
      const int64_t at = step == 1 ? i % x.shape[1] : i / step;
      const double small = element(x, i);
      double value = small;
      if (line % 4 == 0) value += 100.0 * static_cast<double>(at / 50 % 7);
      if (line % 4 == 1) value += at < 500 ? 400 : -400;
      if (line % 4 == 2) value = at < 600 ? -INFINITY : small * 40;
      if (line % 4 == 3) value *= at == 700 ? 3e4 : at % 300 == 0 ? 200 : 1;
      if (x.dtype == DType::kF32) {
        x.as<float>()[i] = static_cast<float>(value);
      } else {
        x.as<bf16>()[i] = from_float<bf16>(static_cast<float>(value));
      }
    }
  };
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const bool exclusive : {false, true}) {
      Instance columns("logcumsumexp", dtype, {1100, 16}, 0, exclusive, exclusive);
      fill(columns, 16, 16);
      EXPECT_GE(columns.every_rung_is_right(), 4);
      Instance rows("logcumsumexp", dtype, {4, 2900}, 1, exclusive, !exclusive);
      fill(rows, 4, 1);
      EXPECT_GE(rows.every_rung_is_right(), 4);
    }
  }
}

// Whole numbers wrap around, as torch's do.
TEST(Scan, WholeNumbersWrapAround) {
  Instance instance("cumsum", DType::kI32, {2, 100}, 1);
  auto* x = instance.x().as<int32_t>();
  for (int i = 0; i < 200; ++i) x[i] = 2000000000 - i;
  for (const std::string_view name : {"any_layout", "block_scan", "look_back", "lanes_per_row"}) {
    instance.run(instance.rung(name));
    uint32_t sum = 0;
    for (int i = 0; i < 100; ++i) {
      sum += static_cast<uint32_t>(x[i]);
      ASSERT_EQ(instance.y().as<int32_t>()[i], static_cast<int32_t>(sum)) << name << " " << i;
    }
  }
}

TEST(Scan, BestIsByShape) {
  EXPECT_EQ(Instance("cumsum", DType::kF32, {100000}, 0).best_rung(), "look_back");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {1000000}, 0).best_rung(), "look_back");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {2500000}, 0).best_rung(), "server");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {8000000}, 0).best_rung(), "server");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {1100, 4000}, 1).best_rung(), "row_queue");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {4000}, 0).best_rung(), "block_scan");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {64, 256}, 1).best_rung(), "lanes_per_row");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {64, 256}, 0).best_rung(), "columns");
  EXPECT_EQ(Instance("cumprod", DType::kI64, {64, 256}, 0).best_rung(), "columns");
  EXPECT_EQ(Instance("cumsum", DType::kF32, {1100, 1000}, 0).best_rung(), "columns_strips");
  EXPECT_EQ(Instance("logcumsumexp", DType::kBf16, {2200, 1000}, 0).best_rung(), "columns");
  EXPECT_EQ(Instance("cumsum", DType::kBf16, {140000, 64}, 0).best_rung(), "columns_staged");
  EXPECT_EQ(Instance("cumprod", DType::kI32, {8000000}, 0).best_rung(), "server");
  EXPECT_EQ(Instance("scan_max", DType::kBf16, {64, 250}, 0).best_rung(), "columns");
  const auto moved = [](std::initializer_list<int64_t> shape, int64_t stride) {
    Instance instance("cumsum", DType::kF32, shape, -1);
    instance.move_x(stride);
    return instance.best_rung();
  };
  EXPECT_EQ(moved({100000}, 1), "look_back");
  EXPECT_EQ(moved({5000000}, 1), "look_back");
  EXPECT_EQ(moved({100000}, 2), "look_back");
  EXPECT_EQ(moved({4000}, 2), "block_scan");
  EXPECT_EQ(moved({1100, 4000}, 1), "block_scan");
  EXPECT_EQ(moved({64, 250}, 2), "lanes_per_row");
}

}  // namespace
}  // namespace ws::scan
