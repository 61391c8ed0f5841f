// What `verify` cannot ask of sparse products: matrices that are wrong, rows and tiles that meet in
// every way, and which rung a call gets.
#include <gmock/gmock.h>

#include <cmath>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"
#include "kernels/spmv/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/kernels/tensor_of.hpp"
#include "tests/run.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::spmv {
namespace {

using ::testing::HasSubstr;

const Operation& by_vector() { return operation_named("spmv_csr"); }
const Operation& by_matrix() { return operation_named("spmm_csr"); }

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
        out_((crow.size() - 1) * kWidth + 2 * kAround) {
    for (size_t j = 0; j < values_.size(); ++j) values_[j] = static_cast<float>(j % 7) - 2;
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 5) + 1;
    const auto rows = static_cast<int64_t>(crow.size()) - 1;
    const auto entries = static_cast<int64_t>(col.size());
    const bool is_vector = &operation == &by_vector();
    problem_.operation = &operation;
    problem_.tensor(0) = test::tensor_of(values_, {entries});
    problem_.tensor(1) = test::tensor_of(crow_, {rows + 1});
    problem_.tensor(2) = test::tensor_of(col_, {entries});
    problem_.tensor(3) =
        is_vector ? test::tensor_of(x_, {columns}) : test::tensor_of(x_, {columns, kWidth});
    Tensor& out = problem_.tensor(is_vector ? 5 : 4);
    out = is_vector ? test::tensor_of(out_, {rows}) : test::tensor_of(out_, {rows, kWidth});
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
    for (const Operation* operation : {&by_vector(), &by_matrix()}) {
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
  Instance instance(crow, col, 5);
  instance.for_each_rung(
      [&](const Rung& rung) { EXPECT_THROW(instance.run(rung), InvalidArgument); });
}

// Rows that end where tiles do, one item before and after; rows over several tiles; tiles of ends
// of rows alone. All numbers are small and whole: sums are exact.
TEST(Spmv, RowsMeetTilesInEveryWay) {
  constexpr int64_t kTile = 1792;
  std::vector<std::vector<int64_t>> lengths;
  for (const int64_t first : {kTile - 2, kTile - 1, kTile, kTile + 1, 3 * kTile, 4 * kTile + 5}) {
    lengths.push_back({first, 3, 0, 2 * kTile, 1});
    lengths.push_back({0, 0, first});
  }
  lengths.push_back(std::vector<int64_t>(2 * kTile + 1, 0));
  lengths.emplace_back(2 * kTile, 0).back() = kTile;
  lengths.emplace_back(kTile + 40, 1).front() = 700;
  for (const std::vector<int64_t>& one : lengths) {
    std::vector<int32_t> crow = {0};
    for (const int64_t length : one) crow.push_back(crow.back() + static_cast<int32_t>(length));
    std::vector<int32_t> col(static_cast<size_t>(crow.back()));
    for (size_t j = 0; j < col.size(); ++j) col[j] = static_cast<int32_t>(j % 5);
    Instance instance(crow, col, 5);
    instance.run(*rung_named(family_of(by_vector()), "merge_path"));
    for (size_t row = 0; row < one.size(); ++row) {
      float sum = 0;
      for (int32_t j = crow[row]; j < crow[row + 1]; ++j) {
        sum += (static_cast<float>(j % 7) - 2) * static_cast<float>(j % 5 + 1);
      }
      ASSERT_EQ(instance.out()[row], sum) << row << " of " << one.size();
    }
    instance.expect_margins();
  }
}

TEST(Spmv, BestIsChosenBySize) {
  const auto best_of = [](const Case& chosen) {
    return best(AnyCall(make_problem(by_vector(), chosen, DType::kF32)), 90).name;
  };
  EXPECT_EQ(best_of({.extents = {1 << 20, 1 << 20, 1 << 24}}), "merge_path");
  EXPECT_EQ(best_of({.extents = {1000, 1000, 16000}}), "lanes_per_row");
  EXPECT_EQ(best_of({.extents = {1 << 20, 1 << 20, 1 << 24, 1, kGaps}}), "lanes_per_row");
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
