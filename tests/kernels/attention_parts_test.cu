// What `verify` cannot ask of attention on tensor cores: biases of other dtypes and shapes, windows
// wider than any sequence, sequences and pages that are wrong; and that attention over two halves
// of the keys, merged, is attention over all.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "kernels/attention/backward_cut.hpp"
#include "kernels/attention/backward_grid.hpp"
#include "tests/kernels/attention_instance.hpp"
#include "tests/run.hpp"

namespace ws::attention {
namespace {

using testing::HasSubstr;

Problem attention(const std::array<int64_t, kMaxExtents>& extents, DType dtype = DType::kBf16) {
  return make_problem(operation_named("attention"), {.extents = extents}, dtype);
}

TEST(MmaFlash, BiasesOfOtherDtypesThatRepeat) {
  const std::array<Tensor, 4> biases = {
      Tensor::dense(DType::kF32, {2, 4, 70, 90}), Tensor::dense(DType::kF32, {1, 4, 1, 90}),
      Tensor::dense(DType::kBf16, {2, 1, 70, 1}), Tensor::dense(DType::kBool, {70, 90})};
  for (const Tensor& bias : biases) {
    Problem problem = attention({2, 4, 70, 90, 64, 2});
    problem.tensor(problem.operation->index_of("bias")) = bias;
    SCOPED_TRACE(bias.describe());
    Instance instance(problem);
    instance.expect_right(instance.rung("mma_flash"));
  }
}

TEST(MmaFlash, WindowsWiderThanAnySequence) {
  constexpr int64_t kWide = std::numeric_limits<int64_t>::max();
  for (const auto& [left, right] :
       {std::pair<int64_t, int64_t>{kWide, 3}, {5, kWide}, {kWide, kWide}}) {
    Case chosen{.extents = {1, 1, 40, 80, 64}};
    chosen.attributes[1] = left;
    chosen.attributes[2] = right;
    Instance instance(make_problem(operation_named("attention"), chosen, DType::kBf16));
    instance.expect_right(instance.rung("mma_flash"));
  }
}

// Scales of any sign, one of them none at all.
TEST(MmaFlash, ScalesThatTurnScoresRound) {
  for (const double scale : {-0.2, 0.0}) {
    Case chosen{.extents = {1, 2, 40, 80, 128}};
    chosen.attributes[3] = scale;
    Instance instance(make_problem(operation_named("attention"), chosen, DType::kBf16));
    instance.expect_right(instance.rung("mma_flash"));
  }
}

TEST(MmaFlash, ABadSequenceIsToldAndNothingIsWrittenForIt) {
  Problem problem = make_problem(operation_named("attention_varlen"),
                                 {.extents = {3, 2, 60, 70, 64}}, DType::kF16);
  Instance instance(problem);
  auto* const starts = instance["cu_seqlens_k"].as<int32_t>();
  std::ranges::copy(std::array<int32_t, 4>{0, 20, 71, 70}, starts);
  auto* const queries = instance["cu_seqlens_q"].as<int32_t>();
  std::ranges::copy(std::array<int32_t, 4>{0, 20, 40, 60}, queries);
  EXPECT_THAT(instance.told(instance.rung("mma_flash")), HasSubstr("'cu_seqlens_k'"));
  const Tensor& lse = instance["lse"];  // [heads, queries]
  for (int64_t row = 0; row < 60; ++row) {
    EXPECT_EQ(std::isnan(element(lse, row)), row >= 20) << row;
  }
}

// What two rungs make of the same numbers, among which some are not finite.
void expect_alike(Instance& instance, std::string_view rung, std::string_view other,
                  std::initializer_list<std::string_view> outputs) {
  std::vector<double> expected;
  const auto for_each = [&](const auto& f) {
    for (const std::string_view name : outputs) {
      const Tensor& output = instance[name];
      for (int64_t i = 0; i < output.elements(); ++i) f(element(output, i));
    }
  };
  instance.run(instance.rung(other));
  double size = 1;
  for_each([&](double value) {
    expected.push_back(value);
    if (std::isfinite(value)) size = std::max(size, std::abs(value));
  });
  instance.run(instance.rung(rung));
  size_t at = 0;
  for_each([&](double value) {
    const double want = expected[at++];
    if (std::isfinite(want)) {
      EXPECT_NEAR(value, want, 1e-5 * size) << at;
    } else if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(value)) << at;
    } else {
      EXPECT_EQ(value, want) << at;
    }
  });
}

// What is left of an infinity in f32 is no number, and must not be met again. Minus infinity as a
// score is a key that nobody looks at.
TEST(ThreeTf32, NumbersThatAreNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const int64_t dim : {64, 128, 256}) {
    SCOPED_TRACE(dim);
    const Problem problem = attention({1, 2, 40, 70, dim}, DType::kF32);
    const auto test = [&](const auto& change) {
      Instance instance(problem);
      change(instance);
      expect_alike(instance, "three_tf32", "any", {"out", "lse"});
    };
    for (const char* name : {"q", "k", "v"}) {
      SCOPED_TRACE(name);
      for (const double value : {kInfinity, -kInfinity, double{NAN}}) {
        test([&](Instance& of) { set_element(of[name], 5, value); });
      }
    }
    test([&](Instance& of) {
      for (int64_t row = 0; row < 80; ++row) set_element(of["q"], row * dim, 0x1p-120);
      set_element(of["k"], 3 * dim, -kInfinity);
    });
  }
}

TEST(BackwardThreeTf32, NumbersThatAreNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const int64_t dim : {64, 128}) {
    SCOPED_TRACE(dim);
    // Whole tiles of queries: a weight of 0, of one that is not there, times infinity is NaN.
    const Problem problem = make_problem(operation_named("attention_backward"),
                                         {.extents = {1, 2, 64, 70, dim}}, DType::kF32);
    for (const char* name : {"q", "k", "v", "dout"}) {
      SCOPED_TRACE(name);
      for (const double value : {kInfinity, -kInfinity, double{NAN}}) {
        Instance instance(problem);
        set_element(instance[name], 5, value);
        expect_alike(instance, "backward_three_tf32", "backward_any", {"dq", "dk", "dv"});
      }
    }
  }
}

// Attention over keys 0 ... 40 and over the others, merged.
TEST(MergeAttnStates, HalvesOfTheKeysMakeTheWhole) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    SCOPED_TRACE(to_string(dtype));
    Instance whole(attention({2, 4, 37, 90, 64, 2}, dtype));
    whole.run_best();
    Problem merging =
        make_problem(operation_named("merge_attn_states"), {.extents = {2, 4, 37, 64}}, dtype);
    Instance merged(merging);
    std::vector<std::unique_ptr<Instance>> parts;
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 40}, {40, 50}}) {
      parts.push_back(std::make_unique<Instance>(whole.problem()));
      Instance& part = *parts.back();
      for (const std::string_view name : {"q", "k", "v"}) part[name] = whole[name];
      for (const std::string_view name : {"k", "v"}) {
        Tensor& rows = part[name];
        rows.data = static_cast<std::byte*>(rows.data) +
                    static_cast<size_t>(first * rows.stride(2)) * size_of(dtype);
        rows.shape[2] = count;
      }
      part.run_best();
      const bool is_first = first == 0;
      merged[is_first ? "out_a" : "out_b"] = part["out"];
      merged[is_first ? "lse_a" : "lse_b"] = part["lse"];
    }
    for (const std::string_view rung : {"merge_naive", "merge_vector"}) {
      merged.run(merged.rung(rung));
      const double bound = dtype == DType::kF32 ? 1e-5 : dtype == DType::kF16 ? 2e-3 : 1.6e-2;
      for (int64_t i = 0; i < whole["out"].elements(); ++i) {
        ASSERT_NEAR(element(merged["out"], i), element(whole["out"], i), bound) << rung << " " << i;
      }
      for (int64_t i = 0; i < whole["lse"].elements(); ++i) {
        ASSERT_NEAR(element(merged["lse"], i), element(whole["lse"], i), 1e-5) << rung << " " << i;
      }
    }
  }
}

#ifdef WS_EMULATED
// Sections of heads: each tile of each has one turn, and no section is much shorter than another.
TEST(QueryTiles, EachTileHasOneTurn) {
  constexpr int kRows = 128;
  for (const int64_t heads : {1, 2, 3, 5, 7, 16, 17, 64, 65, 70}) {
    for (const int64_t group : {1, 3}) {
      SCOPED_TRACE(concatenate(heads, " heads of keys, ", group));
      Call call;
      call.batch = 1;
      call.heads = heads * group;
      call.kv_heads = heads;
      call.queries = 300;
      call.keys = 4096;
      call.head_dim = call.value_dim = 128;
      const QueryTiles tiles(call, Sequences(call, ""), kRows);
      std::vector<int> turns(static_cast<size_t>(tiles.count()));
      int section = 0;
      std::vector<int> sections;
      for (int64_t block = 0; block < tiles.count(); ++block) {
        const QueryTiles::Turn turn = tiles.turn(block);
        ++turns.at(static_cast<size_t>(turn.matrix * 3 + turn.tile));
        if (turn.tile == 0 && block > 0 && tiles.turn(block - 1).tile != 0) section = 0;
        if (turn.tile == 0) ++section;
        if (turn.tile == 1 && tiles.turn(block - 1).tile == 0) sections.push_back(section);
      }
      EXPECT_THAT(turns, testing::Each(1));
      const auto [least, most] = std::ranges::minmax(sections);
      EXPECT_LE(most - least, group);
      EXPECT_LE(most, 12 * group);  // 16 MB, and half of it
    }
  }
}
#endif

// All tiles of blocks that are cut are met once; who adds has its turn behind those who leave.
TEST(BackwardPieces, MakeUpTheLastWave) {
  for (const auto& [blocks, tiles, multiprocessors] :
       std::vector<std::array<int64_t, 3>>{{2048, 64, 132},
                                           {2048, 256, 132},
                                           {2048, 32, 132},
                                           {3072, 64, 132},
                                           {10, 64, 132},
                                           {3, 1000, 132},
                                           {1, 16, 4},
                                           {3, 33, 4},
                                           {133, 5000, 132},
                                           {100, 128, 132},
                                           {2048, 64, 66},
                                           {5, 65535, 132},
                                           {150, 700, 264},
                                           {5, 40, 1}}) {
    SCOPED_TRACE(concatenate(blocks, " blocks of ", tiles, " tiles, ", multiprocessors));
    const BackwardPieces pieces(blocks, tiles, static_cast<int>(multiprocessors));
    const int64_t cut = blocks - pieces.whole;
    EXPECT_EQ(cut, pieces.count == 0 ? 0 : blocks % multiprocessors);
    std::vector<std::vector<int>> met(static_cast<size_t>(cut),
                                      std::vector<int>(static_cast<size_t>(tiles)));
    std::vector<int> left(static_cast<size_t>(pieces.places));  // by how many
    std::vector<int> taken = left;
    for (int i = 0; i < pieces.count; ++i) {
      const BackwardPiece& piece = pieces.of[i];
      EXPECT_LE(piece.first + BackwardPieces::kLeast, piece.end);
      for (int tile = piece.first; tile < piece.end; ++tile) ++met.at(piece.nth).at(tile);
      if (i > 0) {
        EXPECT_LE(piece.end - piece.first, pieces.of[i - 1].end - pieces.of[i - 1].first);
      }
      if (piece.others == BackwardPiece::kLeaves) {
        ++left.at(piece.place);
      } else {
        for (int place = piece.place; place < piece.place + piece.others; ++place) {
          EXPECT_EQ(left.at(place), 1);
          ++taken.at(place);
        }
      }
    }
    for (const std::vector<int>& block : met) EXPECT_THAT(block, testing::Each(1));
    EXPECT_THAT(taken, testing::Each(1));
    EXPECT_EQ(taken, left);
  }
}

TEST(BackwardPieces, AreNoneWhereNothingIsWon) {
  for (const auto& [blocks, tiles] :
       std::vector<std::array<int64_t, 2>>{{132, 64}, {0, 64}, {131, 64}, {10, 8}, {10, 65536}}) {
    const BackwardPieces pieces(blocks, tiles, 132);
    EXPECT_EQ(pieces.count, 0);
    EXPECT_EQ(pieces.whole, blocks);
  }
}

// Blocks of the last wave in pieces, whose sums are put together: several of a block, pieces that
// go over a block's end, heads that share one of keys, tails.
TEST(AttentionBackward, LastWavesAreCut) {
  for (const auto& extents : std::vector<std::array<int64_t, kMaxExtents>>{{1, 1, 2100, 70, 64},
                                                                           {1, 3, 2100, 20, 128},
                                                                           {1, 2, 1100, 70, 104, 1},
                                                                           {1, 1, 1100, 70, 256},
                                                                           {1, 1, 70, 1100, 256},
                                                                           {1, 1, 70, 1100, 128},
                                                                           {1, 1, 70, 2300, 64},
                                                                           {1, 1, 1100, 40, 512}}) {
    Instance instance(
        make_problem(operation_named("attention_backward"), {.extents = extents}, DType::kBf16));
    Problem& problem = instance.problem();
    for (size_t i = 0; i < problem.tensors.size(); ++i) {  // of one seed keys would be queries
      const auto index = static_cast<int>(i);
      if (i >= problem.operation->parameters.size() || !problem.tensors[i].exists()) break;
      if (problem.operation->parameters[i].is_written()) continue;
      problem.operation->fill(problem, index, 71 + i);
    }
    SCOPED_TRACE(concatenate(extents[2], " x ", extents[3], " of ", extents[4]));
    for (const char* rung : {"backward_wgmma_atomic", "backward_wgmma", "backward_wide_heads"}) {
      if ((extents[4] > 128) != (std::string_view(rung) == "backward_wide_heads")) continue;
      SCOPED_TRACE(rung);
      // backward_wgmma_atomic has no blocks of queries, which alone are cut where these are few.
      const bool is_cut =
          extents[2] > extents[3] || std::string_view(rung) != "backward_wgmma_atomic";
      EXPECT_EQ(workspace_of(instance.rung(rung), instance.call()).zeroed > 0, is_cut);
      instance.expect_right(instance.rung(rung));
    }
  }
}

}  // namespace
}  // namespace ws::attention
