// What `verify` cannot ask of sparse products: matrices that are wrong, rows and tiles that meet in
// every way, and which rung a call gets.
#include <gmock/gmock.h>

#include <cmath>
#include <list>
#include <numeric>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"
#include "kernels/spmv/merge_path.hpp"
#include "kernels/spmv/operations.hpp"
#include "kernels/spmv/rows_of_tiles.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/kernels/tensor_of.hpp"
#include "tests/run.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::spmv {
namespace {

using ::testing::HasSubstr;

const Operation& by_vector() { return operation_named("spmv_csr"); }
const Operation& by_matrix() { return operation_named("spmm_csr"); }
const Operation& sampled() { return operation_named("sddmm_csr"); }

// A call on f32 with memory; NaN around what is written.
class Instance {
 public:
  static constexpr int64_t kAround = 64;
  static constexpr int64_t kWidth = 8;

  Instance(const std::vector<int32_t>& crow, const std::vector<int32_t>& col, int64_t columns,
           const Operation& operation = by_vector())
      : crow_(crow),
        col_(col.empty() ? std::vector<int32_t>(1) : col),
        values_(std::max<size_t>(col.size(), 1)),
        x_(static_cast<size_t>(std::max<int64_t>(columns, 1) * kWidth)),
        left_((crow.size() - 1) * kWidth + 1),
        out_(std::max((crow.size() - 1) * kWidth, col.size()) + 2 * kAround) {
    for (size_t j = 0; j < values_.size(); ++j) values_[j] = static_cast<float>(j % 7) - 2;
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 5) + 1;
    const auto rows = static_cast<int64_t>(crow.size()) - 1;
    const auto entries = static_cast<int64_t>(col.size());
    for (size_t i = 0; i < left_.size(); ++i) left_[i] = static_cast<float>(i % 3) - 1;
    const bool is_vector = &operation == &by_vector();
    const bool is_sampled = &operation == &sampled();
    problem_.operation = &operation;
    problem_.tensor(0) =
        is_sampled ? test::tensor_of(left_, {rows, kWidth}) : test::tensor_of(values_, {entries});
    problem_.tensor(1) = test::tensor_of(crow_, {rows + 1});
    problem_.tensor(2) = test::tensor_of(col_, {entries});
    problem_.tensor(3) =
        is_vector ? test::tensor_of(x_, {columns}) : test::tensor_of(x_, {columns, kWidth});
    Tensor& out = problem_.tensor(is_vector ? 5 : 4);
    out = is_vector    ? test::tensor_of(out_, {rows})
          : is_sampled ? test::tensor_of(out_, {entries})
                       : test::tensor_of(out_, {rows, kWidth});
    out.data = out_.data() + kAround;
    size_ = out.elements();
  }

  AnyCall call() const { return AnyCall(problem_); }
  float* out() { return out_.data() + kAround; }

  void run(const Rung& rung) {
    const AnyCall one = call();
    std::ranges::fill(out_, NAN);
    test::Buffer<std::byte> workspace(workspace_of(rung, one).bytes + 1);
    ws::run(rung, one, {.workspace = workspace.data()});
    runtime::synchronize_device();
  }
  void expect_margins() {
    for (int64_t i = 0; i < kAround; ++i) {
      ASSERT_TRUE(std::isnan(out()[-1 - i])) << i;
      ASSERT_TRUE(std::isnan(out()[size_ + i])) << i;
    }
  }

  template <class F>
  void for_each_rung(const F& f) {
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call(), runtime::capability())) continue;
      SCOPED_TRACE(rung->name);
      f(*rung);
      expect_margins();
    }
  }

 private:
  test::Buffer<int32_t> crow_;
  test::Buffer<int32_t> col_;
  test::Buffer<float> values_;
  test::Buffer<float> x_;
  test::Buffer<float> left_;
  test::Buffer<float> out_;
  Problem problem_;
  int64_t size_ = 0;
};

TEST(Spmv, AWrongMatrixIsToldAndWritesNothingElsewhere) {
  struct Wrong {
    std::vector<int32_t> crow;
    int32_t column;  // of entry 4
    const char* words;
  };
  const Wrong all[] = {
      {{0, 4, 2, 8}, 0, "index 2 at position 2 of 'crow' is outside [4, 10)"},
      {{1, 4, 6, 8}, 0, "index 1 at position 0 of 'crow' is outside [0, 1)"},
      {{-3, 4, 6, 8}, 0, "index -3 at position 0 of 'crow' is outside [0, 1)"},
      {{0, 4, 10, 12}, 0, "index 10 at position 2 of 'crow' is outside [4, 10)"},
      {{0, 4, 6, 2000000000}, 0, "index 2000000000 at position 3 of 'crow' is outside [6, 10)"},
      {{0, 4, -6, 8}, 0, "index -6 at position 2 of 'crow' is outside [4, 10)"},
      {{0, 4, 6, 8}, 5, "index 5 at position 4 of 'col' is outside [0, 5)"},
      {{0, 4, 6, 8}, -1, "index -1 at position 4 of 'col' is outside [0, 5)"},
  };
  for (const Wrong& wrong : all) {
    for (const Operation* operation : {&by_vector(), &by_matrix(), &sampled()}) {
      std::vector<int32_t> col = {0, 1, 2, 3, wrong.column, 4, 3, 2, 1};
      Instance instance(wrong.crow, col, 5, *operation);
      instance.for_each_rung([&](const Rung& rung) {
        std::string told;
        try {
          instance.run(rung);
          if (const std::optional<std::string> text = take_device_error()) told = *text;
        } catch (const InvalidArgument& error) {  // in the emulator by the call itself
          told = error.what();
        }
        EXPECT_THAT(told, HasSubstr(wrong.words));
        EXPECT_THAT(told, HasSubstr(concatenate(operation->name, "/", rung.name)));
      });
    }
  }
}

// Where ends fall far apart tiles disagree about which rows are theirs.
TEST(Spmv, ALargeWrongMatrixStaysWithinBounds) {
  std::vector<int32_t> crow(5001);
  std::vector<int32_t> col(9000, 1);
  for (size_t i = 0; i < crow.size(); ++i) {
    crow[i] = i == 0 ? 0 : static_cast<int32_t>(random_bits(3, i) % 20000) - 5000;
  }
  for (const Operation* operation : {&by_vector(), &sampled()}) {
    Instance instance(crow, col, 5, *operation);
    instance.for_each_rung(
        [&](const Rung& rung) { EXPECT_THROW(instance.run(rung), InvalidArgument); });
  }
}

std::vector<int32_t> starts_of(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> crow = {0};
  for (const int64_t length : lengths) crow.push_back(crow.back() + static_cast<int32_t>(length));
  return crow;
}

// A product of rows so long. All numbers are small and whole: sums are exact.
void expect_sums(const std::vector<int64_t>& lengths, const Operation& operation,
                 const char* rung) {
  const std::vector<int32_t> crow = starts_of(lengths);
  std::vector<int32_t> col(static_cast<size_t>(crow.back()));
  for (size_t j = 0; j < col.size(); ++j) col[j] = static_cast<int32_t>(j % 5);
  Instance instance(crow, col, 5, operation);
  instance.run(*rung_named(family_of(operation), rung));
  const int32_t width = &operation == &by_vector() ? 1 : Instance::kWidth;
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int32_t n = 0; n < width; ++n) {
      float sum = 0;
      for (int32_t j = crow[row]; j < crow[row + 1]; ++j) {
        const int32_t x = j % 5 * width + n;
        sum += (static_cast<float>(j % 7) - 2) * static_cast<float>(x % 5 + 1);
      }
      ASSERT_EQ(instance.out()[row * static_cast<size_t>(width) + static_cast<size_t>(n)], sum)
          << row << " of " << lengths.size() << ", column " << n;
    }
  }
  instance.expect_margins();
}

// Rows that end where tiles do, one item before and after; rows over several tiles; tiles of ends
// of rows alone.
TEST(Spmv, RowsMeetTilesInEveryWay) {
  struct Tiles {
    const Operation& operation;
    const char* rung;
    int64_t items;
  };
  for (const auto& [operation, rung, items] :
       {Tiles{by_vector(), "merge_path", 2044}, Tiles{by_vector(), "merge_runs", 2044},
        Tiles{by_matrix(), "merge_slice", 1024}}) {
    SCOPED_TRACE(rung);
    for (const int64_t first : {items - 2, items - 1, items, items + 1, 3 * items, 4 * items + 5}) {
      expect_sums({first, 3, 0, 2 * items, 1}, operation, rung);
      expect_sums({0, 0, first}, operation, rung);
    }
    expect_sums(std::vector<int64_t>(static_cast<size_t>(2 * items + 1), 0), operation, rung);
    std::vector<int64_t> lengths(static_cast<size_t>(2 * items), 0);
    lengths.back() = items;
    expect_sums(lengths, operation, rung);
    lengths.assign(static_cast<size_t>(items + 40), 1);
    lengths.front() = 700;
    expect_sums(lengths, operation, rung);
  }
}

// As many lanes a row as there is room for, 1 to 32, and whole warps for rows too long for these.
TEST(Spmv, RowsOfATileAreShortAndLong) {
  for (const int64_t length : {0, 1, 2, 7, 15, 40, 130, 300}) {
    for (const int64_t longer : {0, 33, 500, 1900}) {
      SCOPED_TRACE(concatenate(length, " and ", longer));
      std::vector<int64_t> lengths(longer == 0 ? 700 : 90, length);
      for (size_t i = 0; i < lengths.size(); i += 7) lengths[i] += longer;
      for (size_t i = 1; i < lengths.size(); i += 31) lengths[i] = longer;
      expect_sums(lengths, by_vector(), "merge_path");
      expect_sums(lengths, by_vector(), "merge_runs");
    }
  }
}

// More tiles than there are blocks: rows within a tile, over tiles of a run, over whole runs, and
// so many in one tile that they are counted in several steps.
TEST(Spmv, RowsMeetRunsInEveryWay) {
  const int64_t items = int64_t{2044} * 4 * device_facts().multiprocessors;  // a tile a block
  for (const int64_t length : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{700}, items / 7}) {
    SCOPED_TRACE(length);
    std::vector<int64_t> lengths(static_cast<size_t>(2 * items / (length + 1)), length);
    lengths.push_back(3 * items);  // over whole runs
    lengths.insert(lengths.end(), 3000, 0);
    lengths.push_back(2044);
    lengths.insert(lengths.end(), 300, 5);
    expect_sums(lengths, by_vector(), "merge_runs");
  }
}

// What falls, and what lies outside, in matrices of more tiles than blocks.
TEST(Spmv, AWrongEndAmongManyIsTold) {
  for (const size_t wrong : {size_t{1}, size_t{2500}, size_t{6000}, size_t{9999}, size_t{10000}}) {
    for (const int32_t end : {-5, 0, 1 << 20}) {
      std::vector<int32_t> crow = starts_of(std::vector<int64_t>(10000, 7));
      const auto entries = static_cast<size_t>(crow.back());
      const int32_t before = crow[wrong - 1];
      crow[wrong] = end;
      if (end >= before && end <= static_cast<int32_t>(entries)) continue;
      Instance instance(crow, std::vector<int32_t>(entries, 1), 5);
      for (const char* rung : {"merge_path", "merge_runs"}) {
        SCOPED_TRACE(concatenate(rung, " ", wrong, " ", end));
        std::string told;
        try {
          instance.run(*rung_named(family_of(by_vector()), rung));
          told = take_device_error().value_or("");
        } catch (const InvalidArgument& error) {  // in the emulator by the call itself
          told = error.what();
        }
        EXPECT_THAT(told, HasSubstr("of 'crow' is outside"));
        instance.expect_margins();
      }
    }
  }
}

// Where all of a thread's columns are looked at together, the wrong one is told all the same.
TEST(Spmv, AWrongColumnAmongMany) {
  for (const size_t wrong : {size_t{0}, size_t{1025}, size_t{2043}, size_t{2044}, size_t{6500}}) {
    const std::vector<int32_t> crow = starts_of(std::vector<int64_t>(500, 20));
    std::vector<int32_t> col(10000, 1);
    col[wrong] = wrong % 2 == 0 ? 5 : -7;
    Instance instance(crow, col, 5);
    instance.for_each_rung([&](const Rung& rung) {
      std::string told;
      try {
        instance.run(rung);
        told = take_device_error().value_or("");
      } catch (const InvalidArgument& error) {  // in the emulator by the call itself
        told = error.what();
      }
      EXPECT_THAT(told, HasSubstr(concatenate("index ", col[wrong], " at position ", wrong,
                                              " of 'col' is outside [0, 5)")));
    });
  }
}

// Rows over so many tiles that blocks add up what several blocks before have of them; tiles in
// which none ends; rows behind the last, which are not stored. Sums are exact.
TEST(Spmv, RowsMeetBlocksOfPartsInEveryWay) {
  constexpr int64_t kBlock = RowsOfTilesKernel<float>::kThreads;
  for (const int64_t length : {int64_t{1}, int64_t{5}, kBlock, kBlock + 1, 5 * kBlock + 40}) {
    for (const int64_t tiles : {kBlock - 1, kBlock, 12 * kBlock + 3}) {
      test::Buffer<int64_t> memory(static_cast<size_t>(2 * tiles));
      const PartsOfTiles<float> parts(memory.data(), tiles);
      const int64_t rows = divide_up(tiles, length) - 1;  // the last is none
      test::Buffer<float> y(static_cast<size_t>(rows + 1));
      std::vector<float> want(y.size(), 0);
      float open = 0;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const bool ends = tile % length == length - 1 || tile == tiles - 1;
        parts.rows[tile] = ends ? tile / length : -1;
        parts.firsts[tile] = static_cast<float>(tile % 3 + 1);
        parts.rests[tile] = static_cast<float>(tile % 7 + 1);
        if (ends && tile / length < rows) {
          want[static_cast<size_t>(tile / length)] = open + parts.firsts[tile];
        }
        open = (ends ? 0 : open) + parts.rests[tile];
      }
      Vectors vectors;
      vectors.y = y.data();
      add_up_rows_of_tiles<float>(parts, Result<float>(vectors), rows, tiles, {});
      test::wait();
      for (size_t row = 0; row < want.size(); ++row) {
        ASSERT_EQ(y[row], want[row]) << row << " of " << length << " tiles each, of " << tiles;
      }
    }
  }
}

// Rows that end around the 32nd tile, to whose rows another block adds what is before it.
TEST(Spmv, RowsMeetBlocksOfTilesInEveryWay) {
  for (const int64_t items : {int64_t{32 * 1024 - 10}, int64_t{32 * 1024}, int64_t{40 * 1024}}) {
    expect_sums({9, items, 1500, 0, 2}, by_matrix(), "merge_slice");
  }
}

// Groups of lanes have 16 items each: rows that are cut by groups everywhere, and rows without
// entries before, between and behind them.
TEST(Spmv, RowsMeetGroupsOfLanesInEveryWay) {
  for (int64_t length = 13; length <= 18; ++length) {
    std::vector<int64_t> lengths = {0, 0};
    for (int i = 0; i < 70; ++i)
      lengths.push_back(i % 5 == 3 ? 0 : i % 7 == 5 ? 5 * length : length);
    lengths.insert(lengths.end(), 40, 0);
    expect_sums(lengths, by_matrix(), "merge_slice");
  }
}

// A buffer may be larger than what it holds: what is behind the last row is not looked at.
TEST(Spmv, EntriesBehindTheLastRowMayBeAnything) {
  for (const Operation* operation : {&by_vector(), &by_matrix()}) {
    Instance instance({0, 2, 2, 5}, {0, 1, 2, 3, 4, 99, -7, 5}, 5, *operation);
    instance.for_each_rung([&](const Rung& rung) {
      EXPECT_NO_THROW(instance.run(rung));
      EXPECT_EQ(take_device_error(), std::nullopt);
    });
  }
}

// The list of a matrix of over 2^31 entries, which nobody has to hold: tiles of 2^28 items of it.
struct TilesKernel {
  static constexpr int kThreads = 1;
  struct Arguments {
    Csr<float, int64_t> a;
    const int64_t* starts;
    TileOfList* tiles;
    int tile_items;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, starts, tiles, tile_items] = arguments;
    tiles[block_index()] = TileOfList(a, starts, block_index(), tile_items);
  }
};

TEST(Spmv, TilesOfOver2To31Entries) {
  constexpr int kTileItems = 1 << 28;
  test::Buffer<int64_t> crow(1001);
  const auto rows = static_cast<int64_t>(crow.size()) - 1;
  for (size_t i = 0; i + 1 < crow.size(); ++i) {
    const auto length = static_cast<int64_t>(random_bits(5, i) >> 36);  // up to 2^28
    crow[i + 1] = crow[i] + (i == 500 ? int64_t{1} << 33 : i % 3 == 0 ? 0 : length);
  }
  const int64_t last = crow[crow.size() - 1];
  ASSERT_GT(last, int64_t{1} << 36);
  for (const int64_t behind : {int64_t{0}, int64_t{7}, int64_t{1} << 32}) {
    Matrix matrix{.dtype = DType::kF32, .index = DType::kI64};
    matrix.rows = rows;
    matrix.columns = 1;
    matrix.entries = last + behind;
    matrix.crow = crow.data();
    const Csr<float, int64_t> a(matrix, "spmv_csr/merge_path");
    const int64_t tiles = tiles_of(matrix, kTileItems);
    test::Buffer<int64_t> starts(static_cast<size_t>(tiles) + 1);
    test::Buffer<TileOfList> found(static_cast<size_t>(tiles));
    find_starts(a, starts.data(), tiles, kTileItems, nullptr);
    test::run<TilesKernel>({.blocks = tiles, .threads = TilesKernel::kThreads},
                           {a, starts.data(), found.data(), kTileItems});
    int64_t row = 0;
    int64_t entry = 0;
    for (int64_t i = 0; i < tiles; ++i) {
      const TileOfList& tile = found[static_cast<size_t>(i)];
      ASSERT_TRUE(tile.fits) << i;
      ASSERT_EQ(tile.first_row, row) << i;
      ASSERT_EQ(tile.first_entry, i * kTileItems - row) << i;
      ASSERT_EQ(std::min(tile.first_entry, last), entry) << i;
      const int64_t end = std::min<int64_t>((i + 1) * kTileItems, rows + matrix.entries);
      while (row < rows && row + crow[static_cast<size_t>(row) + 1] < end) ++row;
      ASSERT_EQ(tile.first_row + tile.rows, row) << i;
      entry += tile.entries;
    }
    EXPECT_EQ(row, rows);
    EXPECT_EQ(entry, last);
  }
  EXPECT_EQ(take_device_error(), std::nullopt);
}

// Of such a matrix here only the last rows have entries: the first, which would have all before, is
// wrong, as it begins there, and so is empty. All entries are one, by strides of 0.
TEST(Spmv, RowsBeyond2To31Entries) {
  constexpr int64_t kBefore = (int64_t{1} << 31) + 5;
  test::Buffer<int64_t> crow(42);
  for (size_t i = 0; i < crow.size(); ++i) crow[i] = (i == 0 ? kBefore : crow[i - 1]) + i * 5 % 37;
  const auto rows = static_cast<int64_t>(crow.size()) - 1;
  const int64_t entries = crow[crow.size() - 1] + 3;
  test::Buffer<int64_t> col(std::vector<int64_t>{1});
  test::Buffer<float> values(std::vector<float>{3});
  const int64_t width = Instance::kWidth;
  test::Buffer<float> x(static_cast<size_t>(2 * width));
  std::iota(x.begin(), x.end(), 1.0f);
  for (const Operation* operation : {&by_vector(), &by_matrix()}) {
    const bool is_vector = operation == &by_vector();
    test::Buffer<float> out(static_cast<size_t>(rows * width));
    Problem problem;
    problem.operation = operation;
    problem.tensor(0) = Tensor::dense(DType::kF32, {entries});
    problem.tensor(0).data = values.data();
    problem.tensor(0).strides[0] = 0;
    problem.tensor(1) = test::tensor_of(crow, {rows + 1});
    problem.tensor(2) = Tensor::dense(DType::kI64, {entries});
    problem.tensor(2).data = col.data();
    problem.tensor(2).strides[0] = 0;
    problem.tensor(3) = is_vector ? test::tensor_of(x, {2}) : test::tensor_of(x, {2, width});
    problem.tensor(is_vector ? 5 : 4) =
        is_vector ? test::tensor_of(out, {rows}) : test::tensor_of(out, {rows, width});
    const AnyCall call(problem);
    int count = 0;
    for (const Rung* rung : family_of(*operation).rungs) {
      if (!takes(*rung, call, runtime::capability())) continue;
      SCOPED_TRACE(rung->name);
      ++count;
      std::ranges::fill(out, NAN);
      std::string told;
      try {
        ws::run(*rung, call, {});
        runtime::synchronize_device();
        told = take_device_error().value_or("");
      } catch (const InvalidArgument& error) {  // in the emulator by the call itself
        told = error.what();
      }
      EXPECT_THAT(told, HasSubstr("index 2147483653 at position 0 of 'crow' is outside [0, 1)"));
      const int64_t each = is_vector ? 1 : width;
      for (int64_t i = 0; i < rows * each; ++i) {
        const auto row = static_cast<size_t>(i / each);
        const int64_t length = row == 0 ? 0 : crow[row + 1] - crow[row];
        ASSERT_EQ(out[static_cast<size_t>(i)],
                  static_cast<float>(3 * length) * x[static_cast<size_t>(each + i % each)])
            << i;
      }
    }
    EXPECT_EQ(count, is_vector ? 3 : 1);
  }
}

// A call of any format on f32, with memory; NaN around y. Values count from -2 on, x from 1 on.
class Product {
 public:
  static constexpr int64_t kAround = 64;

  Product(const Operation& operation, const std::vector<int64_t>& values_shape,
          const std::vector<std::vector<int32_t>>& indices, int64_t columns, int64_t rows,
          std::initializer_list<Value> attributes = {})
      : values_(product(values_shape)),
        x_(static_cast<size_t>(columns)),
        y_(static_cast<size_t>(rows + 2 * kAround)) {
    for (size_t j = 0; j < values_.size(); ++j) values_[j] = static_cast<float>(j % 7) - 2;
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 5) + 1;
    problem_ = make_problem(operation, operation.cases().smoke[0], DType::kF32);
    std::ranges::copy(attributes, problem_.attributes.begin());
    problem_["values"] = Tensor::dense(DType::kF32, values_shape);
    problem_["values"].data = values_.data();
    for (size_t i = 0; i < indices.size(); ++i) {
      indices_.emplace_back(indices[i]);
      const auto size = static_cast<int64_t>(indices[i].size());
      Tensor& tensor = problem_.tensor(static_cast<int>(i) + 1);
      tensor = values_shape.size() == 2 ? Tensor::dense(DType::kI32, values_shape)
                                        : Tensor::dense(DType::kI32, {size});
      tensor.data = indices_.back().data();
    }
    problem_["x"] = test::tensor_of(x_, {columns});
    problem_["y"] = test::tensor_of(y_, {rows});
    problem_["y"].data = y();
  }

  float* y() { return y_.data() + kAround; }

  void run(const Rung& rung) {
    const AnyCall call(problem_);
    std::ranges::fill(y_, NAN);
    test::Buffer<std::byte> workspace(workspace_of(rung, call).bytes + 1);
    std::ranges::fill(workspace, std::byte{0});
    ws::run(rung, call, {.workspace = workspace.data()});
    runtime::synchronize_device();
  }
  // What it reports, or nothing.
  std::string told_by(const Rung& rung) {
    try {
      run(rung);
      return take_device_error().value_or("");
    } catch (const InvalidArgument& error) {  // in the emulator by the call itself
      return error.what();
    }
  }
  void expect_margins() {
    for (int64_t i = 0; i < kAround; ++i) {
      ASSERT_TRUE(std::isnan(y()[-1 - i])) << i;
      ASSERT_TRUE(std::isnan(y()[problem_["y"].extent(0) + i])) << i;
    }
  }
  template <class F>
  void for_each_rung(const F& f) {
    const AnyCall call(problem_);
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call, runtime::capability())) continue;
      SCOPED_TRACE(rung->name);
      f(*rung);
      expect_margins();
    }
  }

 private:
  static size_t product(const std::vector<int64_t>& shape) {
    int64_t all = 1;
    for (const int64_t extent : shape) all *= extent;
    return static_cast<size_t>(all);
  }

  test::Buffer<float> values_;
  std::list<test::Buffer<int32_t>> indices_;
  test::Buffer<float> x_;
  test::Buffer<float> y_;
  Problem problem_;
};

Product by_coordinates(const std::vector<int32_t>& row, const std::vector<int32_t>& col,
                       int64_t columns, int64_t rows, bool ordered) {
  return {
      operation_named("spmv_coo"),  {static_cast<int64_t>(row.size())}, {row, col}, columns, rows,
      {Value(rows), Value(ordered)}};
}

TEST(SpmvFormats, WrongIndicesAreToldAndWriteNothingElsewhere) {
  const auto expect = [](Product product, const char* words) {
    product.for_each_rung(
        [&](const Rung& rung) { EXPECT_THAT(product.told_by(rung), HasSubstr(words)); });
  };
  const std::vector<int32_t> col = {0, 1, 2, 3, 4, 0};
  for (const bool ordered : {false, true}) {
    expect(by_coordinates({0, 0, 1, 7, 2, 2}, col, 5, 3, ordered),
           "index 7 at position 3 of 'row' is outside [");
    expect(by_coordinates({-1, 0, 1, 1, 2, 2}, col, 5, 3, ordered),
           "index -1 at position 0 of 'row' is outside [0, 3)");
    expect(by_coordinates({0, 0, 1, 1, 2, 2}, {0, 1, 2, 3, 5, 0}, 5, 3, ordered),
           "index 5 at position 4 of 'col' is outside [0, 5)");
  }
  const Operation& slots = operation_named("spmv_ell");
  expect({slots, {2, 3}, {{0, -1, 5, 0, 1, 2}}, 5, 2},
         "index 5 at position 2 of 'col' is outside [0, 5)");
  expect({slots, {2, 3}, {{0, -1, 4, 0, -2, 2}}, 5, 2},
         "index -2 at position 4 of 'col' is outside [0, 5)");
  const Operation& blocks = operation_named("spmv_bsr");
  expect({blocks, {3, 2, 2}, {{0, 1, 3}, {0, 2, 1}}, 4, 4},
         "index 2 at position 1 of 'col' is outside [0, 2)");
  expect({blocks, {3, 2, 2}, {{0, 4, 3}, {0, 1, 1}}, 4, 4},
         "index 4 at position 1 of 'crow' is outside [0, 4)");
  expect({blocks, {3, 2, 2}, {{0, 2, 1}, {0, 1, 1}}, 4, 4},
         "index 1 at position 2 of 'crow' is outside [2, 4)");
}

TEST(SpmvFormats, RowsThatFallAreToldByWhoAsksForOrder) {
  std::vector<int32_t> row = {0, 0, 2, 1, 2};
  const std::vector<int32_t> col = {0, 1, 2, 3, 4};
  Product product = by_coordinates(row, col, 5, 3, true);
  EXPECT_THAT(product.told_by(*rung_named(family_of(by_vector()), "coo_segments")),
              HasSubstr("index 1 at position 3 of 'row' is outside [2, 3)"));
  product.expect_margins();
  Product unordered = by_coordinates(row, col, 5, 3, false);
  unordered.for_each_rung([&](const Rung& rung) {
    EXPECT_EQ(unordered.told_by(rung), "");
    EXPECT_EQ(unordered.y()[0], -2 * 1 + -1 * 2);
    EXPECT_EQ(unordered.y()[1], 1 * 4);
    EXPECT_EQ(unordered.y()[2], 0 * 3 + 2 * 5);
  });
}

// Rows that change between lanes, warps and tiles, or nowhere, in many places or none; behind an
// order that is as wrong as it can be memory is as it was. Sums are exact.
TEST(SpmvFormats, SegmentsMeetThreadsWarpsAndTilesInEveryWay) {
  constexpr int64_t kTile = 2048;
  for (const int64_t entries : {kTile - 1, kTile, kTile + 1, 3 * kTile + 5}) {
    for (const int64_t length :
         {int64_t{1}, int64_t{3}, int64_t{4}, int64_t{128}, int64_t{129}, kTile, entries}) {
      std::vector<int32_t> row(static_cast<size_t>(entries));
      std::vector<int32_t> col(row.size());
      // Every other row has no entry.
      for (size_t j = 0; j < row.size(); ++j) {
        row[j] = static_cast<int32_t>(2 * (static_cast<int64_t>(j) / length) + 1);
        col[j] = static_cast<int32_t>(j % 5);
      }
      const int64_t rows = row.back() + 2;
      std::vector<float> want(static_cast<size_t>(rows), 0);
      for (size_t j = 0; j < row.size(); ++j) {
        want[static_cast<size_t>(row[j])] +=
            (static_cast<float>(j % 7) - 2) * static_cast<float>(j % 5 + 1);
      }
      Product product = by_coordinates(row, col, 5, rows, true);
      product.run(*rung_named(family_of(by_vector()), "coo_segments"));
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(product.y()[i], want[i]) << i << " of " << entries << " by " << length;
      }
      product.expect_margins();
    }
  }
  std::vector<int32_t> row(3 * kTile);
  for (size_t j = 0; j < row.size(); ++j) {
    row[j] = static_cast<int32_t>(random_bits(3, j) % 300) - 100;
  }
  const std::vector<int32_t> col(row.size(), 1);
  Product product = by_coordinates(row, col, 5, 100, true);
  product.for_each_rung([&](const Rung& rung) {
    EXPECT_THAT(product.told_by(rung), HasSubstr("of 'row' is outside ["));
  });
}

TEST(SpmvFormats, BestIsChosenByLayoutAndOrder) {
  const auto best_of = [](const char* operation, const Case& chosen) {
    return best(AnyCall(make_problem(operation_named(operation), chosen, DType::kF32)), 90).name;
  };
  const Value rows(1000);
  EXPECT_EQ(best_of("spmv_coo", {.extents = {1000, 9000}, .attributes = {rows, true}}),
            "coo_segments");
  EXPECT_EQ(best_of("spmv_coo", {.extents = {1000, 9000}, .attributes = {rows}}), "coo_sort");
  EXPECT_EQ(best_of("spmv_coo", {.extents = {1000, int64_t{5} << 30}, .attributes = {rows}}),
            "coo_atomic");
  EXPECT_EQ(best_of("spmv_ell", {.extents = {1000, 1000, 9}}), "ell_lanes");
  EXPECT_EQ(best_of("spmv_ell", {.extents = {1000, 1000, 9, 1, kTransposed}}), "ell_columns");
  EXPECT_EQ(best_of("spmv_ell", {.extents = {1, 1000, 900}}), "ell_lanes");
  EXPECT_EQ(best_of("spmv_bsr", {.extents = {10, 10, 50, 4, 4}}), "bsr_warp");
  EXPECT_EQ(best_of("spmv_bsr", {.extents = {10, 10, 50, 3, 3}}), "bsr_thread");
  EXPECT_EQ(best_of("spmv_bsr", {.extents = {10, 10, 50, 32, 32}}), "bsr_warp");
}

TEST(SpmvFormats, ShapesMustFit) {
  const auto of = [](const char* operation, auto&& change) {
    const Operation& row = operation_named(operation);
    return test::told(make_problem(row, row.cases().smoke[0], DType::kF16), change);
  };
  EXPECT_THAT(of("spmv_coo", [](Problem& p) { p["row"].dtype = DType::kI64; }),
              HasSubstr("row and col of one dtype"));
  EXPECT_THAT(of("spmv_coo", [](Problem& p) { p["col"].shape[0] = 3; }),
              HasSubstr("a value, a row and a column for each entry"));
  EXPECT_THAT(of("spmv_coo", [](Problem& p) { p.attributes[0] = Value(-1); }),
              HasSubstr("a matrix of -1 rows"));
  EXPECT_THAT(of("spmv_ell", [](Problem& p) { p["col"].shape[1] = 3; }),
              HasSubstr("as many of one as of the other"));
  EXPECT_THAT(of("spmv_ell", [](Problem& p) { p["x"].rank = 2; }), HasSubstr("a vector x"));
  EXPECT_THAT(of("spmv_bsr", [](Problem& p) { p["x"].shape[0] -= 1; }),
              HasSubstr("an x of whole columns of blocks"));
  EXPECT_THAT(of("spmv_bsr", [](Problem& p) { p["values"].shape[1] = 0; }),
              HasSubstr("blocks of an element or more"));
  EXPECT_THAT(of("spmv_bsr", [](Problem& p) { p["col"].shape[0] = 3; }),
              HasSubstr("a column for each block"));
  EXPECT_THAT(of("spmv_bsr",
                 [](Problem& p) {
                   p["values"] = Tensor::dense(DType::kF16, {0, int64_t{1} << 43, 4});
                   p["crow"].shape[0] = 100;
                   p["col"].shape[0] = 0;
                 }),
              HasSubstr("fewer than 2^47 rows"));
}

TEST(Spmv, BestIsChosenBySize) {
  const auto best_of = [](const Case& chosen) {
    return best(AnyCall(make_problem(by_vector(), chosen, DType::kF32)), 90).name;
  };
  EXPECT_EQ(best_of({.extents = {1 << 20, 1 << 20, 1 << 24}}), "merge_runs");
  EXPECT_EQ(best_of({.extents = {1000, 1000, 16000}}), "lanes_per_row");
  EXPECT_EQ(best_of({.extents = {1 << 20, 1 << 20, 1 << 24, 1, kGaps}}), "lanes_per_row");
  const auto best_product = [](const Case& chosen) {
    return best(AnyCall(make_problem(by_matrix(), chosen, DType::kF32)), 90).name;
  };
  EXPECT_EQ(best_product({.extents = {1 << 18, 1 << 18, 1 << 22, 64}}), "merge_slice");
  EXPECT_EQ(best_product({.extents = {1 << 18, 1 << 18, 1 << 22, 33}}), "merge_slice");
  EXPECT_EQ(best_product({.extents = {1 << 18, 1 << 18, 1 << 22, 64, kGaps}}), "element");
  EXPECT_EQ(best_product({.extents = {1000, 1000, 16000, 64}}), "row_slice");

  // No case: all of its columns are wrong. merge_slice would read a row of B in their place.
  Problem none =
      make_problem(by_matrix(), {.extents = {1 << 18, 1 << 18, 1 << 22, 64}}, DType::kF32);
  none["b"].shape[0] = 0;
  EXPECT_EQ(best(AnyCall(none), 90).name, "row_slice");
}

TEST(Spmv, ShapesMustFit) {
  const Problem vector =
      make_problem(by_vector(), {.extents = {8, 9, 20, 1, 2}}, DType::kF16);  // with added
  const auto of_vector = [&](auto&& change) { return test::told(vector, change); };
  EXPECT_THAT(of_vector([](Problem& p) { p.tensor(2).dtype = DType::kI64; }),
              HasSubstr("crow and col of one dtype"));
  EXPECT_THAT(of_vector([](Problem& p) { p.tensor(0).shape[0] = 19; }),
              HasSubstr("a value and a column for each entry"));
  EXPECT_THAT(of_vector([](Problem& p) { p.tensor(1).shape[0] = 0; }),
              HasSubstr("an element more than there are rows"));
  EXPECT_THAT(of_vector([](Problem& p) { p.tensor(3).dtype = DType::kBf16; }),
              HasSubstr("one dtype"));
  EXPECT_THAT(of_vector([](Problem& p) { p.tensor(4).shape[0] = 7; }),
              HasSubstr("an 'added' of 8 elements"));
  const Problem matrix = make_problem(by_matrix(), {.extents = {8, 9, 20, 4}}, DType::kF16);
  EXPECT_THAT(test::told(matrix, [](Problem& p) { p.tensor(3).rank = 1; }), HasSubstr("a matrix"));
}

}  // namespace
}  // namespace ws::spmv
