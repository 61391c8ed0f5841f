// What softmax's rungs share: masks; outputs that are exactly an input; rows that are too long for
// the cases of all rungs.
#include <cstring>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "kernels/softmax/mask.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::softmax {
namespace {

// ---- Masks ------------------------------------------------------------------------------------

struct WhereMasksAre {
  static constexpr int kThreads = 32;
  struct Arguments {
    MaskRows rows;
    const uint8_t* mask;
    int64_t* nth;
    int64_t* offset;
    int64_t count;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    for (int64_t i = thread_index(); i < a.count; i += kThreads) {
      thread::store(a.nth + i, a.rows.nth(i));
      thread::store(a.offset + i, static_cast<int64_t>(a.rows[i] - a.mask));
    }
  }
};

struct Found {
  std::vector<int64_t> nth;
  std::vector<int64_t> offset;
};
Found find(const Tensor& mask, const Tensor& x) {
  const Tensor wide = broadcast(mask, x);
  const RowLayout<1> layout = row_layout(wide);
  test::Buffer<int64_t> nth(static_cast<size_t>(layout.rows));
  test::Buffer<int64_t> offset(static_cast<size_t>(layout.rows));
  test::run<WhereMasksAre>(
      {.blocks = 1, .threads = 32},
      {MaskRows(layout), mask.as<const uint8_t>(), nth.data(), offset.data(), layout.rows});
  for (int64_t row = 0; row < layout.rows; ++row) {
    EXPECT_EQ(offset[static_cast<size_t>(row)], layout.offset(0, row)) << "row " << row;
  }
  return {{nth.begin(), nth.end()}, {offset.begin(), offset.end()}};
}

TEST(MaskRows, FollowTheBroadcast) {
  const Tensor x = Tensor::dense(DType::kF16, {2, 3, 5, 16});  // batch, heads, queries, keys
  test::Buffer<uint8_t> memory(2 * 3 * 5 * 16);
  for (const auto& shape : std::initializer_list<std::initializer_list<int64_t>>{
           {2, 3, 5, 16}, {2, 1, 5, 16}, {5, 16}, {1, 3, 1, 16}, {16}, {2, 1, 1, 16}}) {
    Tensor mask = Tensor::dense(DType::kBool, shape);
    mask.data = memory.data();
    const Found found = find(mask, x);
    for (int64_t i = 0; i < 30; ++i) EXPECT_EQ(found.nth[static_cast<size_t>(i)], i);
  }
}

TEST(MaskRows, HeadsThatShareALargeMaskComeFirst) {
  // 5 queries of 2^20 keys: more than stays in the L2.
  const Tensor x = Tensor::dense(DType::kF16, {2, 3, 5, 1 << 20});
  Tensor mask = Tensor::dense(DType::kBool, {2, 1, 5, 1 << 20});
  uint8_t anywhere = 0;
  mask.data = &anywhere;  // where rows start is all that is asked
  const Found found = find(mask, x);
  std::vector<bool> seen(30);
  for (int64_t i = 0; i < 30; ++i) {
    const int64_t row = found.nth[static_cast<size_t>(i)];
    EXPECT_EQ(row, i / 15 * 15 + i % 3 * 5 + i / 3 % 5);
    seen[static_cast<size_t>(row)] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 30);
}

template <int N>
struct Unpack {
  static constexpr int kThreads = 32;
  struct Arguments {
    const uint8_t* mask;
    uint8_t* bits;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto packed = PackedMask<N>::load(a.mask + thread_index() * N);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      thread::store(a.bits + thread_index() * N + i, static_cast<uint8_t>(packed[i] ? 1 : 0));
    }
  }
};
template <int N>
void check_unpack() {
  test::Buffer<uint8_t> mask(32 * N);
  test::Buffer<uint8_t> bits(32 * N);
  // Any byte but 0 is true: NumPy writes 1, views of other bytes do not.
  for (size_t i = 0; i < mask.size(); ++i)
    mask[i] = static_cast<uint8_t>(i % 3 == 0 ? 0 : 1 << i % 8);
  test::run<Unpack<N>>({.blocks = 1, .threads = 32}, {mask.data(), bits.data()});
  for (size_t i = 0; i < mask.size(); ++i) EXPECT_EQ(bits[i] != 0, mask[i] != 0) << "byte " << i;
}
TEST(PackedMask, EachByteByItself) {
  check_unpack<1>();
  check_unpack<2>();
  check_unpack<4>();
  check_unpack<8>();
}

// ---- In place ---------------------------------------------------------------------------------

// Each rung gives the same bits where the output is an input, in any order of threads.
TEST(InPlace, SameBitsAsElsewhere) {
  for (const std::string_view name :
       {"softmax", "log_softmax", "scale_mask_softmax", "softmax_backward", "log_softmax_backward",
        "scale_mask_softmax_backward"}) {
    const Operation& operation = operation_named(name);
    const auto out = static_cast<int>(operation.parameters.size()) - 1;
    for (const int64_t columns : {66, 34000}) {
      Case chosen{.extents = {3, columns}};
      if (operation.parameters[0].name == "x" && operation.attributes[0].name == "bounded") {
        chosen.attributes[0] = true;
      }
      Problem problem = make_problem(operation, chosen, DType::kF16);
      std::vector<std::unique_ptr<test::Buffer<uint16_t>>> buffers;
      for (int i = 0; i <= out; ++i) {
        buffers.push_back(
            std::make_unique<test::Buffer<uint16_t>>(static_cast<size_t>(3 * columns)));
        if (i < out) problem.tensor(i).data = buffers.back()->data();
        if (i < out) operation.fill(problem, i, 17 + static_cast<uint64_t>(i));
      }
      problem.tensor(out) = Tensor::like(problem.tensor(0));
      problem.tensor(out).data = buffers.back()->data();
      for (const Rung* rung : family_of(operation).rungs) {
        const AnyCall apart(problem);
        if (!takes(*rung, apart, runtime::capability())) continue;
        SCOPED_TRACE(concatenate(rung->name, ": ", apart.problem().describe()));
        const Workspace needs = workspace_of(*rung, apart);
        test::Buffer<uint64_t> workspace(needs.bytes / 8 + 1);
        run(*rung, apart, {.workspace = workspace.data()});
        runtime::synchronize_device();
        for (int i = 0; i < out; ++i) {
          if (problem.tensor(i).dtype != DType::kF16) continue;
          test::in_every_order([&] {
            test::Buffer<uint16_t> copy(buffers[static_cast<size_t>(i)]->size());
            std::ranges::copy(*buffers[static_cast<size_t>(i)], copy.data());
            Problem same = problem;
            same.tensor(i).data = copy.data();
            same.tensor(out) = same.tensor(i);
            run(*rung, AnyCall(same), {.workspace = workspace.data()});
            runtime::synchronize_device();
            EXPECT_EQ(std::memcmp(copy.data(), buffers.back()->data(), copy.size() * 2), 0)
                << "in place of " << operation.parameters[static_cast<size_t>(i)].name;
          });
        }
      }
    }
  }
}

// ---- Rows that fill the chip ------------------------------------------------------------------

void expect_rung_right(std::string_view rung, std::string_view name, const Case& chosen,
                       DType dtype) {
  const Operation& operation = operation_named(name);
  harness::Instance instance(operation, chosen, dtype, 5);
  const harness::Verification result =
      harness::verify(*rung_named(family_of(operation), rung), instance);
  EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n" << result.reason;
}

// As the emulator's four multiprocessors hold them: a block has 400 KiB of a row of each element
// size, of gradients half of that of each input.
TEST(GridOnChip, RoundsPlacesAndWhatIsReadAgain) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  const auto expect_right = [](std::string_view name, std::array<int64_t, kMaxExtents> extents,
                               int offset, DType dtype) {
    expect_rung_right("grid_on_chip", name, {.extents = extents, .offset = offset}, dtype);
  };
  // Two rounds of two rows.
  test::in_every_order([&] { expect_right("softmax", {3, 120001}, 1, DType::kF32); });
  //     // two rounds of two rows
  expect_right("softmax", {1, 430003}, 3, DType::kF32);       // four blocks hold 409600
  expect_right("log_softmax", {1, 300001}, 0, DType::kF16);   // in places, some of them empty
  expect_right("log_softmax", {1, 819208}, 0, DType::kBf16);  // a vector is read again
  expect_right("softmax_backward", {3, 60001}, 0, DType::kF32);
  expect_right("log_softmax_backward", {1, 411003}, 5, DType::kF16);
  // Masks: in rounds, shared by heads, beside what is read again.
  test::in_every_order([&] { expect_right("scale_mask_softmax", {2, 120000, 2}, 0, DType::kF32); });
  expect_right("scale_mask_softmax", {1, 430003}, 3, DType::kF32);
  expect_right("scale_mask_softmax", {1, 819208}, 0, DType::kBf16);
  expect_right("scale_mask_softmax_backward", {2, 60000, 2}, 0, DType::kF32);
  expect_right("scale_mask_softmax_backward", {1, 411003}, 5, DType::kF16);
}

// ---- Columns ----------------------------------------------------------------------------------

// `across` columns of `elements`, side by side.
Case columns_case(int64_t across, int64_t elements) {
  return {.extents = {across, elements, 0, 0, 1}};
}

// Stripes as wide as a warp, in one block; small blocks in clusters, of 16 bits, floats and
// gradients; then columns so long that blocks have 512 threads: 64 bytes side by side at two blocks
// an SM, 32 bytes, and 64 at one.
TEST(ColumnsInCluster, WideStripesAndLongColumns) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  const auto expect_right = [](std::string_view name, int64_t across, int64_t elements,
                               DType dtype) {
    expect_rung_right("columns_in_cluster", name, columns_case(across, elements), dtype);
  };
  test::in_every_order([&] {
    expect_right("softmax", 1040, 32, DType::kF32);
    expect_right("log_softmax_backward", 1040, 33, DType::kBf16);
  });
  expect_right("softmax", 136, 2100, DType::kBf16);
  expect_right("softmax", 136, 1001, DType::kF32);
  expect_right("log_softmax", 264, 402, DType::kF32);
  expect_right("softmax_backward", 328, 500, DType::kF16);
  expect_right("log_softmax_backward", 136, 1030, DType::kF32);
  expect_right("softmax", 16, 20000, DType::kF32);
  expect_right("log_softmax", 16, 30000, DType::kF32);
  expect_right("softmax_backward", 16, 17000, DType::kF32);
  expect_right("softmax_backward", 16, 27000, DType::kF32);
}

TEST(Softmax, RungsThatColumnsGet) {
  const auto chosen = [](std::string_view name, int64_t across, int64_t elements) {
    const Problem problem =
        make_problem(operation_named(name), columns_case(across, elements), DType::kF16);
    return std::string(best(AnyCall(problem), 90).name);
  };
  for (const std::string_view name :
       {"softmax", "log_softmax", "softmax_backward", "log_softmax_backward"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(chosen(name, 4096, 4096), "columns_in_cluster");
    EXPECT_EQ(chosen(name, 16384, 32), "columns_in_cluster");
    EXPECT_EQ(chosen(name, 65536, 31), "columns");    // shorter than measured
    EXPECT_EQ(chosen(name, 4096, 32), "columns");     // few bytes
    EXPECT_EQ(chosen(name, 16385, 32), "columns");    // rows begin anywhere
    EXPECT_EQ(chosen(name, 1024, 60000), "columns");  // longer than a cluster holds
  }
  EXPECT_EQ(chosen("softmax_backward", 1024, 30000), "columns");
  EXPECT_EQ(chosen("scale_mask_softmax", 4096, 4096), "warp_per_row");
}

}  // namespace
}  // namespace ws::softmax
