// The rung sorted_lanes: told in its header, compiled here.
#include "kernels/topk/07_sorted_lanes.cuh"

namespace ws::topk {

bool SortedLanes::supports(const TopK::Call& call, Why& why) {
  constexpr int64_t kBytes = 16;
  const RowLayout<kOperands>& rows = call.rows;
  const int64_t pitch = rows.rows > 1 ? rows.stride(kX) * rows.size[kX] : 0;
  const bool aligned = reinterpret_cast<int64_t>(rows.data[kX]) % kBytes == 0 &&
                       pitch % kBytes == 0 && rows.row_bytes() % kBytes == 0;
  return has_rows(call, why) &&
         why.unless(call.k <= 8 && rows.row_bytes() <= kMostBytes,
                    "finds up to 8 in rows of up to ", kMostBytes, " bytes, not ", call.k, " in ",
                    rows.row_bytes()) &&
         why.unless(aligned,
                    "takes rows that start at multiples of 16 bytes and are whole vectors");
}

void SortedLanes::run(const TopK::Call& call, const Context& context) {
  with_type<kSelected>(call.dtype, [&]<class T>() {
    const auto with = [&]<int kLanes, int kVectors>() {
      using Kernel = SortedLanesKernel<T, kLanes, kVectors>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kRows), .threads = Kernel::kThreads},
          context.stream, Rows<T>(call));
    };
    if (call.rows.row_bytes() <= kShortBytes) return with.template operator()<4, 8>();
    with.template operator()<8, 16>();
  });
}

extern const Rung kSortedLanes;
const Rung kSortedLanes =
    rung_of<SortedLanes, TopK>({.name = "sorted_lanes",
                                .from = "packed_keys",
                                .idea = "the best vectors of a few lanes, then the best in them"});

}  // namespace ws::topk
