// Idea: no tables at all: an angle is an integer of 2^-64 turns, and its multiple by the position
// loses whole turns by itself, exactly. A block computes its frequencies once, in f64.
// From shared_row: a multiplication and two short series for each pair of a position stand for two
// loads, and serve four heads; nobody has to make tables, and position a million is as right as 1.
// Traffic: each element once, and nothing else.
// Limits: heads that are whole vectors of 16 bytes and aligned to them, up to 512 pairs.
#include "kernels/rope/heads.hpp"

namespace ws::rope {
namespace {

struct OfAngles {
  static bool supports(const Call& call, Why& why) {
    return heads_supported(call, why) && why.unless(!call.has_tables, "takes no tables") &&
           why.unless(call.pairs <= Kept<Angles>::kMostPairs, "keeps up to ",
                      Kept<Angles>::kMostPairs, " frequencies, not ", call.pairs);
  }
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    constexpr const char* kName =
        std::is_same_v<OperationCall, RopeCall> ? "rope/angles" : "rope_qk/angles";
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const auto run =
          call.interleaved ? launch_heads<T, Angles, true, 4> : launch_heads<T, Angles, false, 4>;
      run(call, kName, context);
    });
  }
};

}  // namespace

extern const Rung kAngles;
const Rung kAngles = rung_of<OfAngles, Rope, RopeQk>({
    .name = "angles",
    .from = "shared_row",
    .idea = "no tables: angles are integers, whose multiples lose whole turns exactly",
    .file = "08_angles.cu",
});

}  // namespace ws::rope
