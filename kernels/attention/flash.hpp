// What the Hopper rungs take, and how one is made of a policy.
#pragma once

#include "kernels/attention/flash_kernel.hpp"
#include "kernels/attention/plain.hpp"

namespace ws::attention {

inline bool has_no_pages(const Call& /*call*/, Why& /*why*/) { return true; }
inline bool has_no_pages(const VarlenCall& call, Why& why) {
  return why.unless(!call.paged, "takes no pages");
}

// Whether a call can be cut into tiles of the copy engine, for head dims up to `most_dim`.
template <class AnyCall>
bool flash_supports(const AnyCall& call, int64_t most_dim, Why& why) {
  const Sequences sequences(call, "");
  const bool packed = sequences.packed;
  const int64_t batches = packed ? 1 : call.batch;
  const auto [queries, keys] = std::pair(sequences.queries, sequences.keys);
  constexpr int64_t kMost = int64_t{1} << 30;
  return has_kv_of_q(call, why) && has_no_pages(call, why) && has_bare_scores(call, why) &&
         why.unless(call.scale > 0, "takes a scale above 0, not ", call.scale) &&
         why.unless(keys > 0, "without keys there is nothing to copy") &&
         why.unless(call.head_dim <= most_dim && call.value_dim <= most_dim,
                    "takes D and Dv up to ", most_dim, ", not ", call.head_dim, " and ",
                    call.value_dim) &&
         why.unless(call.value_dim % 8 == 0, "needs a Dv that 8 divides, not ", call.value_dim) &&
         why.unless(call.window.left < kMost && call.window.right < kMost, "takes windows below ",
                    kMost) &&
         why.unless(
             queries < kMost && keys < kMost && call.heads * (call.batch + queries / 64) < kMost,
             "takes less than ", kMost, " rows and tiles") &&
         can_be_copied("q", call.q, queries, call.heads, batches, packed, call.dtype, why) &&
         can_be_copied("k", call.k, keys, call.kv_heads, batches, packed, call.dtype, why) &&
         can_be_copied("v", call.v, keys, call.kv_heads, batches, packed, call.dtype, why) &&
         can_be_copied("out", call.out, queries, call.heads, batches, packed, out_dtype_of(call),
                       why);
}

// The columns that a policy must have.
constexpr int64_t columns_of(const Call& call) { return std::max(call.head_dim, call.value_dim); }

// Rule: kMostDim, kName, and with(call, f), which calls f.template operator()<Policy>().
template <class Rule>
struct Flash {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return flash_supports(call, Rule::kMostDim, why);
  }
  static Workspace workspace(const Call& /*call*/) {
    return {.bytes = sizeof(uint32_t), .zeroed = sizeof(uint32_t)};
  }
  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      Rule::with(call,
                 [&]<class Policy>() { FlashKernel<T, Policy>::run(call, Rule::kName, context); });
    });
  }
};

// The rule of the lower rungs, which are told for head dims up to 128.
template <int kIdeas>
struct FlashRule {
  static constexpr int64_t kMostDim = 128;
  template <class F>
  static void with(const Call& call, F&& f) {
    columns_of(call) <= 64 ? f.template operator()<Flash64<kIdeas>>()
                           : f.template operator()<Flash128<kIdeas>>();
  }
};

// The rule of wgmma_speculative and of what is built on it: kEveryIdea, but turns where they pay.
struct SpeculativeRule {
  static constexpr int64_t kMostDim = 256;
  static constexpr int kNoTurns = kEveryIdea - kTakesTurns;

  template <class F>
  static void with(const Call& call, F&& f) {
    const int64_t columns = columns_of(call);
    if (columns > 192) {
      f.template operator()<Flash256<kNoTurns>>();
    } else if (columns > 128) {
      f.template operator()<Flash192<kNoTurns>>();
    } else if (columns > 64) {
      f.template operator()<Flash128<kNoTurns>>();
    } else if (call.window.right < 0) {
      f.template operator()<Flash64<kEveryIdea>>();
    } else if (call.keys > kMostShortKeys) {
      f.template operator()<Flash64<kNoTurns>>();
    } else {
      f.template operator()<FlashShort64<kNoTurns>>();
    }
  }
};

}  // namespace ws::attention
