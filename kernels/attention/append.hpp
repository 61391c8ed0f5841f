// append_kv: keys and values of new tokens, into a cache that attention_varlen reads, in place.
//
// A cache is pages of rows. Without block_table sequence b has page b: a contiguous cache is pages
// as long as a sequence can become. Tokens of a sequence go behind the keys that it has. Keys may
// turn by the angles of where they go (rope), so that a cache holds them turned.
//
// A cache of e4m3 takes k and v of a wider dtype. A number, a key once it is turned in f32, is
// divided by the scale of its head in f32, rounded to the nearest e4m3, of two that are as near to
// the even one, and beyond the largest, 448, to that; NaN stays NaN. attention_varlen reads such a
// cache by the same scales.
//
// What is wrong is found on the device: a length that leaves no room, a page that there is not, a
// position that tables have no row of, a scale that is not above 0 and finite. It is reported, and
// nothing of its tokens, of a scale: of its head, is written.
#pragma once

#include "kernels/attention/operations.hpp"

namespace ws::attention {

struct AppendKv {
  static constexpr std::string_view kName = "append_kv";
  static constexpr std::string_view kSummary =
      "keys and values of new tokens into a cache, whose rows may lie in pages; keys may turn";
  static constexpr std::string_view kSource =
      "Kwon et al., Efficient Memory Management for Large Language Model Serving with "
      "PagedAttention, 2023, arXiv:2309.06180; Su et al., RoFormer, 2021, arXiv:2104.09864";
  static constexpr std::string_view kFormula =
      "k_cache[page(b, p), p % page] = rope(k[b, t], p), v_cache of v alike, p = seqlens[b] + t";
  static constexpr Parameter kParameters[] = {
      {.name = "k_cache",
       .role = Parameter::Role::kInOut,
       .doc = "[pages, page, Hk, D], f32, f16, bf16 or e4m3, any strides: rows of a contiguous "
              "cache are pages too"},
      {.name = "v_cache",
       .role = Parameter::Role::kInOut,
       .doc = "[pages, page, Hk, Dv], dtype of k_cache"},
      {.name = "k",
       .doc = "[B, S, Hk, D], dtype of k_cache, for e4m3 f32, f16 or bf16; any strides: new keys"},
      {.name = "v", .doc = "[B, S, Hk, Dv], dtype of k"},
      {.name = "seqlens", .doc = "i32 [B], how many keys each sequence has before"},
      {.name = "block_table",
       .optional = true,
       .doc = "i32 [B, most pages of a sequence], where its rows lie; none: page b is sequence b"},
      {.name = "cos",
       .optional = true,
       .doc = "f32 or the dtype of k: [T, rotary_dim / 2], a row a position. Left out: keys are "
              "written as they are"},
      {.name = "sin", .optional = true, .doc = "shape and dtype of cos, and there where it is"},
      {.name = "scale_k",
       .optional = true,
       .doc = "f32 [Hk] or [B, Hk], above 0: what k is divided by for a cache of e4m3; none: 1"},
      {.name = "scale_v", .optional = true, .doc = "f32 [Hk] or [B, Hk], the same of v"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "interleaved",
       .kind = Value::Kind::kBool,
       .standard = false,
       .doc = "pairs of neighbours turn; else of the halves of rotary_dim"}};
  // has: a sum of Has. pages: of a sequence.
  static constexpr std::string_view kExtentNames[] = {"B",  "S",    "Hk",    "D",
                                                      "Dv", "page", "pages", "has"};
  static constexpr int kOptionalExtents = 1;
  enum Has : uint8_t {
    kTable = 1,
    kTurned = 2,        // all columns, by tables of f32
    kPartlyTurned = 4,  // half of them, by tables of the dtype of k
    kHeadsFirst = 8,    // [pages, Hk, page, D] in memory
    // Of caches of e4m3, beside others without meaning. k and v are of f16 where nothing else is
    // said.
    kOfBf16 = 16,
    kOfF32 = 32,
    kScales = 64,
  };
  static constexpr DTypes kDTypes = {DType::kF32, DType::kF16, DType::kBf16, DType::kE4m3};
  static constexpr std::string_view kTorch = R"(
wide = lambda x: x if x.dtype == torch.float64 else x.float()

def stored(x, scale, cache):
    if scale is None and x.dtype == cache.dtype:
        return x
    x = wide(x) if scale is None else wide(x) / scale[..., None, :, None]
    return x.clamp(-448, 448).to(cache.dtype)

count, tokens = k.shape[:2]
place = seqlens.long()[:, None] + torch.arange(tokens, device=k.device)
if cos is not None:
    pairs = cos.shape[1]
    c, s = (wide(x)[place][:, :, None] for x in (cos, sin))
    pick = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if interleaved \
        else (slice(0, pairs), slice(pairs, 2 * pairs))
    first, second = (wide(k[..., x]) for x in pick)
    turned = (k if k.dtype == k_cache.dtype else wide(k)).clone()
    turned[..., pick[0]] = (first * c - second * s).to(turned.dtype)
    turned[..., pick[1]] = (second * c + first * s).to(turned.dtype)
    k = turned
size = k_cache.shape[1]
page = torch.arange(count, device=k.device)[:, None] if block_table is None \
    else block_table.long().gather(1, place // size)
row = place % size
new_k, new_v = k_cache.clone(), v_cache.clone()
new_k[page, row] = stored(k, scale_k, k_cache)
new_v[page, row] = stored(v, scale_v, v_cache)
return new_k, new_v
)";

  // Angles of positions, where keys turn.
  struct Table {
    const void* data = nullptr;
    int64_t row = 0;
    int64_t column = 1;
  };
  // Of heads the batch of a cache is a page.
  struct Call {
    DType dtype{};  // of k and v
    DType cache_dtype{};
    int64_t batch = 0;
    int64_t tokens = 0;
    int64_t kv_heads = 0;
    int64_t head_dim = 0;
    int64_t value_dim = 0;
    Heads k_cache, v_cache, k, v;
    int64_t page = 1;
    int64_t total_pages = 0;
    int64_t most_pages = 1;  // of a sequence
    Lengths seqlens;
    const int32_t* pages = nullptr;
    int64_t pages_batch = 0;
    int64_t pages_column = 1;
    bool turns = false;
    DType table_dtype = DType::kF32;
    Table cos, sin;
    int64_t table_rows = 0;
    int64_t pairs = 0;
    bool interleaved = false;
    PerHead scale_k, scale_v;

    constexpr int64_t items() const { return batch * tokens * kv_heads; }
  };
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
