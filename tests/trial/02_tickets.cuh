// Idea: threads draw the number of their element from a counter, in the workspace's zeroed prefix.
// From plain: what is drawn last puts the counter back to zero.
// Limits: sums only.
#pragma once

#include "tests/trial/01_plain.cuh"
#include "warpsmith/ptx/atomic.hpp"

#if WS_DEVICE_CODE
namespace ws::trial {

template <class T>
struct SumByTicket {
  SumOne<T> work;
  uint32_t* counter;
  uint32_t count;
  __device__ void operator()(int64_t /*i*/) const {
    const uint32_t ticket = ptx::atom_global_add(counter, 1U);
    if (ticket < count) work(ticket);
    if (ticket == count - 1) ptx::atom_global_exch(counter, 0U);
  }
};

struct Tickets {
  static bool supports(const Total::Call& call, Why& why) {
    return why.unless(call.y.elements() < int64_t{1} << 31, "counts to 2^31, not to ",
                      call.y.elements());
  }
  static Workspace workspace(const Total::Call& call) {
    return {.bytes = call.y.elements() == 0 ? size_t{0} : sizeof(uint32_t),
            .zeroed = call.y.elements() == 0 ? size_t{0} : sizeof(uint32_t)};
  }
  static void run(const Total::Call& call, const Context& context) {
    const int64_t count = call.y.elements();
    with_type<kFloats>(call.kept.dtype, [&]<class T>() {
      Each<SumByTicket<T>>::run({SumOne<T>{call}, static_cast<uint32_t*>(context.workspace),
                                 static_cast<uint32_t>(count)},
                                count, context);
    });
  }
};

inline constexpr Rung kTickets = rung_of<Tickets, Total>(
    {.name = "tickets", .from = "plain", .idea = "threads draw their element from a counter"});

}  // namespace ws::trial
#endif
