// Idea: 16 bytes an access in both halves of a head: a thread's first vector lies in the one, its
// second at the same place in the other, and they turn each other.
// From tables: eight times fewer accesses of 16 bits, and a pair's halves are both at hand. What a
// warp reads at once are stretches of half a head.
// Traffic: each element once; a head of 16 bits reads as many bytes of tables in f32, from the L2.
// Limits: heads, and rows of tables, that are whole vectors of 16 bytes and aligned to them; of
// queries and keys, tables that all heads share.
#include "kernels/rope/heads.hpp"

namespace ws::rope {
namespace {

struct Halves {
  template <class OperationCall>
  static bool supports(const OperationCall& call, Why& why) {
    return heads_supported(call, why) && why.unless(call.has_tables, "takes tables") &&
           (std::is_same_v<OperationCall, RopeCall> || tables_shared(call, why));
  }
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    launch_tables<1>(
        call, std::is_same_v<OperationCall, RopeCall> ? "rope/halves" : "rope_qk/halves", context);
  }
};

}  // namespace

extern const Rung kHalves;
const Rung kHalves = rung_of<Halves, Rope, RopeQk>({
    .name = "halves",
    .from = "tables",
    .idea = "16 bytes an access in both halves of a head",
    .file = "06_halves.cu",
});

}  // namespace ws::rope
