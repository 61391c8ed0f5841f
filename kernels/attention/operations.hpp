// Attention: what each query gathers of the values, weighed by how well it meets their keys.
//
//   attention          q, k, v of [batch, heads, rows, head dim], any strides; its gradients are
//                      attention_backward's (backward.hpp)
//   attention_varlen   sequences of their own lengths, one behind the other; keys may lie in pages,
//                      and be of 8 bits; its gradients are attention_varlen_backward's
//   scaled_attention   q, k and v of 8 bits, each head with a scale
//
// A score is scale * <q, k>, then softcap * tanh(score / softcap), then what is added to it: a
// bias, or ALiBi's -slope * |distance|. Query i of Sq stands over key i + Sk - Sq: causal and
// windows are aligned at the bottom right. A sink is a score that is weighed and has no value. A
// query with nothing to attend to gives 0, and lse = -infinity (with a sink: the sink).
//
// The softmax is in f32. Several query heads may share a head of keys (GQA, MQA): heads h of
// H / Hk in a row.
#pragma once

#include <type_traits>

#include "catalogue/joined.hpp"
#include "catalogue/row.hpp"
#include "kernels/attention/formula_in_torch.hpp"
#include "kernels/attention/python_peers.hpp"

namespace ws::attention {

// Rows of all heads: elements from one batch, head, row and column to the next.
struct Heads {
  void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 1;

  template <class T>
  constexpr T* as() const {
    return static_cast<T*>(data);
  }
  template <class T>
  constexpr T* at(int64_t of_batch, int64_t of_head, int64_t of_row) const {
    return as<T>() + of_batch * batch + of_head * head + of_row * row;
  }
};

// Which keys a query sees: from `left` before the one that it stands over to `right` after it;
// negative: all of that side.
struct Window {
  int64_t left = -1;
  int64_t right = -1;

  constexpr bool is_open() const { return left < 0 && right < 0; }
  constexpr bool is_causal() const { return left < 0 && right == 0; }
};

// What is added to scores: [batch, heads, queries, keys] by strides, 0 where it repeats. Of bool:
// false hides the key.
struct Bias {
  bool exists = false;
  DType dtype{};
  Heads at;
};

// A number of f32 for each head, or for each batch and head.
struct PerHead {
  bool exists = false;
  const float* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
};

// One call. `heads` is a multiple of `kv_heads`; v and out have rows of value_dim.
struct Call {
  DType dtype{};
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
  Heads q, k, v, out;
  Heads lse;  // f32, a row is a query; no columns
  Window window;
  float scale = 1;
  float softcap = 0;  // 0: none
  Bias bias;
  PerHead slopes;
  PerHead sinks;

  constexpr int64_t group() const { return heads / kv_heads; }
};

// i32, each with its stride; one that is left out has `exists` false.
struct Lengths {
  bool exists = false;
  const int32_t* data = nullptr;
  int64_t stride = 1;
};

// Sequence b has the rows starts_q[b] ... starts_q[b + 1] - 1 of q and out, and of k and v alike by
// starts_k; its first used_k[b] keys count, where given. `queries` is the most that one has, and
// `total_queries`, `total_keys` the rows there are.
//
// With pages there is no starts_k: key j of sequence b is row j % page of page pages[b][j / page],
// k.batch and v.batch lead from page to page, of which there are total_pages.
struct Packing {
  int64_t total_queries = 0;
  int64_t total_keys = 0;
  Lengths starts_q;
  Lengths starts_k;
  Lengths used_k;
  bool paged = false;
  int64_t page = 0;
  int64_t total_pages = 0;
  int64_t most_pages = 0;  // of a sequence
  const int32_t* pages = nullptr;
  int64_t pages_batch = 0;
  int64_t pages_column = 1;
};

// What q, k and v are multiplied by.
struct Scales {
  PerHead q, k, v;
};

// Where k and v are of 8 bits they have scales; q has none.
struct VarlenCall : Call, Packing {
  bool has_kv_of_8_bits = false;
  Scales scales;
};

template <class AnyCall>
inline constexpr bool kIsPacked = std::is_base_of_v<Packing, AnyCall>;

// Of scaled_attention.
struct ScaledCall : Call {
  Scales scales;
  DType out_dtype{};
};

constexpr DType out_dtype_of(const Call& call) { return call.dtype; }
constexpr DType out_dtype_of(const ScaledCall& call) { return call.out_dtype; }

// How a case lies and what it has beside q, k and v; a sum.
enum Has : uint8_t {
  kRowsBeforeHeads = 1,  // [batch, rows, heads, head dim] in memory
  kBiasTensor = 2,       // dense, of the dtype of q
  kBiasOfKeys = 4,       // bool [batch, 1, 1, keys]: which keys there are
  kAlibi = 8,
  kSinks = 16,
  kValuesInKeys = 32,  // a value is what its key begins with: latent attention
};
// The same of attention_varlen.
enum VarlenHas : uint8_t {
  kPages = 1,     // of 16 keys; sequences may share them, and Tk is the most that one has
  kUsed = 2,      // fewer keys count than there are
  kOwnPages = 4,  // each sequence its own, scattered; Tk: of all, as many each
  kVarlenAlibi = 8,
  kVarlenSinks = 16,
  kKvOf8Bits = 32,
  kKvScales = 64,
  kVarlenValuesInKeys = 128,
};
// To be added where pages are not of 16 keys.
constexpr int64_t of_page(int64_t keys) { return keys << 8; }

// The same of scaled_attention.
enum ScaledHas : uint8_t { kScaledRowsBeforeHeads = 1, kScales = 2 };

inline constexpr Attribute kCausal = {
    .name = "causal",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "a query sees no key after the one it stands over, aligned at the bottom right"};
inline constexpr Attribute kWindowLeft = {
    .name = "window_left",
    .kind = Value::Kind::kInt,
    .standard = -1,
    .doc = "how many keys before the one it stands over a query sees; -1: all"};
inline constexpr Attribute kWindowRight = {
    .name = "window_right",
    .kind = Value::Kind::kInt,
    .standard = -1,
    .doc = "how many keys after it; -1: all. With causal none"};
inline constexpr Attribute kScale = {.name = "scale",
                                     .kind = Value::Kind::kFloat,
                                     .standard = Value::absent(),
                                     .doc = "what times <q, k>; none: 1 / sqrt(D)"};
inline constexpr Attribute kSoftcap = {
    .name = "softcap",
    .kind = Value::Kind::kFloat,
    .standard = 0.0,
    .doc = "scores become softcap * tanh(score / softcap); 0: as they are"};
// Of what is made of a call, not of the call: its gradient.
inline constexpr Attribute kDeterministicGradient = {
    .name = "deterministic",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "the gradient gives the same bits every time, as out does; see attention_backward"};
inline constexpr Parameter kSlopesIn = {
    .name = "alibi_slopes",
    .optional = true,
    .doc = "f32 [H] or [B, H]: slope * distance is taken off a score"};
inline constexpr Parameter kSinksIn = {
    .name = "sinks",
    .optional = true,
    .doc = "f32 [H], a score of each head that is weighed and has no value"};

struct Attention {
  static constexpr std::string_view kName = "attention";
  static constexpr std::string_view kSummary =
      "softmax(q k^T) v of all heads, and the logarithm of each softmax's sum";
  static constexpr std::string_view kSource =
      "Vaswani et al., Attention Is All You Need, 2017, arXiv:1706.03762; Dao et al., "
      "FlashAttention, 2022, arXiv:2205.14135";
  static constexpr std::string_view kFormula =
      "out[i] = sum over j of softmax_j(scale * <q[i], k[j]>) * v[j]";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "[B, H, Sq, D], any strides"},
      {.name = "k", .doc = "[B, Hk, Sk, D], dtype of q; Hk divides H"},
      {.name = "v", .doc = "[B, Hk, Sk, Dv], dtype of q"},
      {.name = "bias",
       .optional = true,
       .doc = "[B, H, Sq, Sk] or what broadcasts to it, added to scores: dtype of q, f32, or bool, "
              "where false hides the key"},
      kSlopesIn,
      kSinksIn,
      {.name = "out",
       .role = Parameter::Role::kOut,
       .doc = "[B, H, Sq, Dv], dtype of q",
       .shape = "laid_as(q, (*q.shape[:3], v.shape[3]))"},
      {.name = "lse",
       .role = Parameter::Role::kOut,
       .doc = "f32 [B, H, Sq], logarithm of the sum of exp(scores)",
       .shape = "q.shape[:3]",
       .torch_dtype = "torch.float32"},
  };
  static constexpr Attribute kAttributes[] = {kCausal, kWindowLeft, kWindowRight,
                                              kScale,  kSoftcap,    kDeterministicGradient};
  // Hk, Dv: 0 for those of q; has: a sum of Has.
  static constexpr std::string_view kExtentNames[] = {"B", "H", "Sq", "Sk", "D", "Hk", "Dv", "has"};
  static constexpr int kOptionalExtents = 3;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kCallInTorch = "return attend(q, k, v, bias, alibi_slopes)\n";
  static constexpr std::string_view kTorch = kJoined<kAttendInTorch, kCallInTorch>;
  static constexpr std::string_view kGradient = kAttentionGradient;
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch", kTorchUsers}, {"cudnn", kCudnn}, {"torch_flash", kFlash}, {"fa4", kFlash4}};

  using Call = attention::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static Tolerance tolerance_in(const Problem& problem, const Parameter& output, DType accumulate);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct AttentionVarlen {
  static constexpr std::string_view kName = "attention_varlen";
  static constexpr std::string_view kSummary =
      "attention within sequences of their own lengths, packed; keys and values may lie in pages";
  static constexpr std::string_view kSource =
      "Dao, FlashAttention-2, 2023, arXiv:2307.08691; Kwon et al., Efficient Memory Management "
      "for Large Language Model Serving with PagedAttention, 2023, arXiv:2309.06180";
  static constexpr std::string_view kFormula =
      "out[i] = sum over j of softmax_j(scale * <q[i], k[j]>) * v[j], i and j of one sequence";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "[Tq, H, D], any strides: sequences one behind the other"},
      {.name = "k",
       .doc = "[Tk, Hk, D], dtype of q or e4m3, Hk divides H; with pages [pages, page, Hk, D]"},
      {.name = "v", .doc = "[Tk, Hk, Dv], dtype of k; with pages [pages, page, Hk, Dv]"},
      {.name = "cu_seqlens_q",
       .doc =
           "i32 [B + 1], where each sequence of q begins; its last: Tq, or less, and of the rows "
           "behind nothing is written"},
      {.name = "cu_seqlens_k",
       .optional = true,
       .doc = "i32 [B + 1], the same of k and v; left out where there are pages"},
      {.name = "seqused_k",
       .optional = true,
       .doc = "i32 [B], how many keys of each sequence count; with pages it has to be there"},
      {.name = "block_table",
       .optional = true,
       .doc = "i32 [B, most pages of a sequence], where its keys lie"},
      kSlopesIn,
      kSinksIn,
      {.name = "scale_k",
       .optional = true,
       .doc = "f32 [Hk] or [B, Hk], above 0: what k of e4m3 was divided by; none: 1"},
      {.name = "scale_v", .optional = true, .doc = "f32 [Hk] or [B, Hk], the same of v"},
      {.name = "out",
       .role = Parameter::Role::kOut,
       .doc = "[Tq, H, Dv], dtype of q",
       .shape = "(*q.shape[:2], v.shape[-1])"},
      {.name = "lse",
       .role = Parameter::Role::kOut,
       .doc = "f32 [H, Tq], logarithm of the sum of exp(scores)",
       .shape = "(q.shape[1], q.shape[0])",
       .torch_dtype = "torch.float32"},
  };
  static constexpr Attribute kAttributes[] = {
      kCausal,
      kWindowLeft,
      kWindowRight,
      kScale,
      kSoftcap,
      {.name = "max_seqlen_q",
       .kind = Value::Kind::kInt,
       .standard = Value::absent(),
       .doc = "no sequence of q is longer, which saves work; none: any may be all of q"},
      kDeterministicGradient};
  // Hk, Dv: 0 for those of q; has: a sum of VarlenHas.
  static constexpr std::string_view kExtentNames[] = {"B", "H", "Tq", "Tk", "D", "Hk", "Dv", "has"};
  static constexpr int kOptionalExtents = 3;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kCallInTorch = "return packed()\n";
  static constexpr std::string_view kTorch =
      kJoined<kAttendInTorch, kAttendPackedInTorch, kCallInTorch>;
  static constexpr std::string_view kGradient = kPackedGradient;
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch", kPackedTorchUsers}, {"cudnn", kPackedCudnn}, {"fa4", kPackedFlash4}};

  using Call = VarlenCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Cost cost_of_data(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct ScaledAttention {
  static constexpr std::string_view kOutputs[] = {"bfloat16", "float16"};

  static constexpr std::string_view kName = "scaled_attention";
  static constexpr std::string_view kSummary =
      "attention of 8-bit floats, whose heads have a scale each";
  static constexpr std::string_view kSource =
      "Shah et al., FlashAttention-3, 2024, arXiv:2407.08608; Micikevicius et al., FP8 Formats for "
      "Deep Learning, 2022, arXiv:2209.05433";
  static constexpr std::string_view kFormula =
      "out[i] = scale_v * sum over j of softmax_j(scale * scale_q * scale_k * <q[i], k[j]>) * v[j]";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "[B, H, Sq, D], e4m3, any strides"},
      {.name = "k", .doc = "[B, Hk, Sk, D], e4m3; Hk divides H"},
      {.name = "v", .doc = "[B, Hk, Sk, Dv], e4m3"},
      {.name = "scale_q",
       .optional = true,
       .doc = "f32 [H] or [B, H], above 0: what q was divided by; none: 1"},
      {.name = "scale_k", .optional = true, .doc = "f32 [Hk] or [B, Hk], the same of k"},
      {.name = "scale_v", .optional = true, .doc = "f32 [Hk] or [B, Hk], the same of v"},
      {.name = "out",
       .role = Parameter::Role::kOut,
       .doc = "[B, H, Sq, Dv], of out_dtype",
       .shape = "laid_as(q, (*q.shape[:3], v.shape[3]))",
       .torch_dtype = "getattr(torch, out_dtype)"},
      {.name = "lse",
       .role = Parameter::Role::kOut,
       .doc = "f32 [B, H, Sq], logarithm of the sum of exp(scores)",
       .shape = "q.shape[:3]",
       .torch_dtype = "torch.float32"},
  };
  static constexpr Attribute kAttributes[] = {kCausal,
                                              kWindowLeft,
                                              kWindowRight,
                                              kScale,
                                              {.name = "out_dtype",
                                               .kind = Value::Kind::kChoice,
                                               .standard = Value::choice(0),
                                               .choices = kOutputs,
                                               .doc = "of out"}};
  // Hk, Dv: 0 for those of q; has: a sum of ScaledHas.
  static constexpr std::string_view kExtentNames[] = {"B", "H", "Sq", "Sk", "D", "Hk", "Dv", "has"};
  static constexpr int kOptionalExtents = 3;
  static constexpr DTypes kDTypes = {DType::kE4m3};
  static constexpr std::string_view kTorch = kJoined<kAttendInTorch, kAttendScaledInTorch>;

  using Call = ScaledCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::attention
