// Rotary position embedding: pairs of a head's numbers turn by an angle that goes with the position
// of its token. reference.cpp has how it is checked.
//
//   a' = a * cos - b * sin,  b' = b * cos + a * sin      a, b: pair i of position p
//   cos, sin: of p * base^(-i / pairs), or row p of tables
//
// A pair is (x[i], x[i + pairs]), halves of a head as GPT-NeoX and Llama have them, or,
// interleaved, (x[2 i], x[2 i + 1]). Elements behind the pairs are copied. The inverse turns back,
// which is the gradient. Arithmetic is in f32, each result rounded once. A position outside of the
// tables is found on the device: nothing of its heads is written, and the next call raises it.
#pragma once

#include "catalogue/joined.hpp"
#include "catalogue/row.hpp"
#include "kernels/rope/in_torch.hpp"
#include "warpsmith/device.hpp"

namespace ws::rope {

// ---- Calls --------------------------------------------------------------------------------------

// Of a tensor that is seen as [batch, position, head, column], in elements.
struct Strides {
  int64_t batch = 0;
  int64_t position = 0;
  int64_t head = 0;
  int64_t column = 1;
};
// A tensor and what becomes of it.
struct Turned {
  const void* x;
  void* y;
  int64_t heads;
  Strides from;
  Strides to;
};
struct Table {
  const void* data;
  Strides strides;  // 0 where it is repeated
};

struct Call {
  DType dtype;
  DType table_dtype;
  int64_t batches;
  int64_t positions;
  int64_t columns;
  int64_t pairs;
  Turned tensors[2];  // of rope the second has no heads
  bool has_tables;
  Table cos;
  Table sin;
  int64_t table_rows;
  bool has_positions;  // else 0, 1, 2, ...
  const void* position;
  bool wide_positions;   // i64, else i32
  int64_t batch_stride;  // of positions
  int64_t position_stride;
  bool interleaved;
  bool inverse;
  double base;

  __host__ __device__ int64_t heads() const { return tensors[0].heads + tensors[1].heads; }
};
// The operations' own.
struct RopeCall : Call {};
struct RopeQkCall : Call {};

// ---- Tables -------------------------------------------------------------------------------------

inline constexpr Attribute kAttributesOfAll[] = {
    {.name = "interleaved",
     .kind = Value::Kind::kBool,
     .standard = false,
     .doc = "pairs of neighbours; else of a head's halves"},
    {.name = "inverse",
     .kind = Value::Kind::kBool,
     .standard = false,
     .doc = "turns by the negative angle, as the gradient does"},
    {.name = "heads_first",
     .kind = Value::Kind::kBool,
     .standard = false,
     .doc = "heads stand before positions: [B, H, S, D]"},
    {.name = "rotary_dim",
     .kind = Value::Kind::kInt,
     .standard = Value::absent(),
     .doc = "the first so many columns turn, the rest is copied; twice the tables' columns, "
            "without tables all of them"},
    {.name = "base",
     .kind = Value::Kind::kFloat,
     .standard = 10000.0,
     .doc = "without tables: pair i turns by base^(-i / pairs) a position; from 1 on"}};

inline constexpr Parameter kCos = {
    .name = "cos",
    .optional = true,
    .rows = Parameter::Rows::kShared,
    .doc =
        "f32 or the dtype of x: [T, rotary_dim / 2], a row a position; or with the heads and the "
        "batch of x as well, either of which may be 1, in the order of x. Left out: computed. No "
        "gradient"};
inline constexpr Parameter kSin = {.name = "sin",
                                   .optional = true,
                                   .rows = Parameter::Rows::kShared,
                                   .doc = "shape and dtype of cos, and there where it is"};
inline constexpr Parameter kPositions = {
    .name = "positions",
    .optional = true,
    .rows = Parameter::Rows::kShared,
    .doc = "i64 or i32, [S] or [B, S]: rows of the tables; 0, 1, 2, ... where left out"};

inline constexpr std::string_view kRopeExtents[] = {"batch",   "tokens", "heads",
                                                    "columns", "pairs",  "has"};
inline constexpr std::string_view kRopeQkExtents[] = {"batch",   "tokens", "heads", "kv_heads",
                                                      "columns", "pairs",  "has"};
// The extent "has": what a case has beside dense tensors; a sum.
enum Has : uint16_t {
  kTables = 1,
  kNarrowTables = 2,  // of the dtype of x
  kTablesOfHeads = 4,
  kTablesOfBatch = 8,
  kPositionsIn = 16,
  kNarrowPositions = 32,
  kPositionsOfBatch = 64,
  kSwapped = 128,  // heads and positions lie in the other order
  kSteps = 256,    // gaps between columns
  kNoBatch = 512,  // a dimension less
};

struct Common {
  static constexpr std::string_view kSource =
      "Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, "
      "arXiv:2104.09864";
  static constexpr std::string_view kFormula =
      "a' = a * cos - b * sin, b' = b * cos + a * sin, of pairs (x[i], x[i + pairs]) or (x[2 * i], "
      "x[2 * i + 1])";
  static constexpr DTypes kDTypes = kFloats;
  static constexpr auto& kAttributes = kAttributesOfAll;
  // Each rung reads a pair before it writes it, in one thread.
  static constexpr bool kInPlace = true;
  static constexpr int kOptionalExtents = 2;

  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

// ---- Operations ---------------------------------------------------------------------------------

struct Rope : Common {
  static constexpr std::string_view kName = "rope";
  static constexpr std::string_view kSummary = "rotary position embedding";
  static constexpr Parameter kParameters[] = {
      {.name = "x",
       .doc = "[B, S, H, D] or [S, H, D], f32, f16 or bf16, any strides; heads_first: "
              "[B, H, S, D], [H, S, D] or [S, D]"},
      kCos,
      kSin,
      kPositions,
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of x, whose memory it may be"}};
  static constexpr std::string_view kTorch = kRopeInTorch;
  static constexpr std::string_view kGradient = kRopeGradient;
  static constexpr PythonPeer kPythonPeers[] = {{"quack", kRopeOfQuack}};
  static constexpr std::span<const std::string_view> kExtentNames = kRopeExtents;

  using Call = RopeCall;
  static Call call(const Problem& problem);
  static Cases cases();
  static std::span<const Rung* const> by_worth(const Call& call);  // rope.cu
};

struct RopeQk : Common {
  static constexpr std::string_view kName = "rope_qk";
  static constexpr std::string_view kSummary =
      "rotary position embedding of queries and keys in one launch";
  static constexpr Parameter kParameters[] = {
      {.name = "q",
       .doc = "[B, S, H, D] or [S, H, D], f32, f16 or bf16, any strides; heads_first: "
              "[B, H, S, D], [H, S, D] or [S, D]"},
      {.name = "k", .doc = "dtype and shape of q, but for the number of heads"},
      kCos,
      kSin,
      kPositions,
      {.name = "q_out",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of q, whose memory it may be"},
      {.name = "k_out",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of k, whose memory it may be",
       .shape = "k.shape"}};
  static constexpr std::string_view kTorch = kRopeQkInTorch;
  static constexpr std::string_view kGradient = kRopeQkGradient;
  static constexpr PythonPeer kPythonPeers[] = {{"quack", kRopeQkOfQuack},
                                                {"liger", kRopeQkOfLiger}};
  static constexpr std::span<const std::string_view> kExtentNames = kRopeQkExtents;

  using Call = RopeQkCall;
  static Call call(const Problem& problem);
  static Cases cases();
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::rope
