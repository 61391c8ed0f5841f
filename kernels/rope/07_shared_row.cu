// Idea: what a thread has read of the tables stays in registers for several heads of its position.
// From halves: the L2 gives a quarter of the tables' bytes; four heads a thread, eight loads of 16
// bytes under way before the first is needed. Queries and keys are heads of one list, so that one
// launch takes both.
// Traffic: each element once; a head of 16 bits reads a quarter as many bytes of tables in f32.
// Limits: as halves; tables that all heads share.
#include "kernels/rope/heads.hpp"

namespace ws::rope {
namespace {

struct SharedRow {
  static bool supports(const Call& call, Why& why) {
    return heads_supported(call, why) && why.unless(call.has_tables, "takes tables") &&
           tables_shared(call, why);
  }
  template <class OperationCall>
  static void run(const OperationCall& call, const Context& context) {
    launch_tables<4>(
        call, std::is_same_v<OperationCall, RopeCall> ? "rope/shared_row" : "rope_qk/shared_row",
        context);
  }
};

}  // namespace

extern const Rung kSharedRow;
const Rung kSharedRow = rung_of<SharedRow, Rope, RopeQk>({
    .name = "shared_row",
    .from = "halves",
    .idea = "a row of the tables stays in registers for four heads, of queries and keys",
    .file = "07_shared_row.cu",
});

}  // namespace ws::rope
