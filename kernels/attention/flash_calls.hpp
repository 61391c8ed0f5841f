// Which calls the rungs take whose scores stay in registers of mma.sync, and which of a rung's
// kernels one gets.
#pragma once

#include "kernels/attention/15_mma_flash.cuh"
#include "kernels/attention/plain.hpp"
#include "kernels/attention/shared_memory.hpp"

namespace ws::attention {

// A dense call as one of packed sequences that has none; windows as kernels take them.
inline VarlenCall flash_call(const VarlenCall& call) {
  VarlenCall narrow = call;
  narrow.window = {.left = narrow_side(call.window.left), .right = narrow_side(call.window.right)};
  return narrow;
}
inline VarlenCall flash_call(const Call& call) {
  VarlenCall every;
  static_cast<Call&>(every) = call;
  return flash_call(every);
}

// Whether D and Dv are up to most_dim and rows lie as they are copied.
template <class AnyCall>
bool takes_flash(const AnyCall& call, int64_t most_dim, Why& why) {
  const VarlenCall every = flash_call(call);
  const int64_t queries = std::max(every.queries, every.total_queries);
  const int64_t keys = std::max(every.keys, every.total_keys);
  const int64_t batches = every.paged ? every.total_pages : every.batch;
  const auto begins_well = [&](const char* name, const Heads& heads, int64_t batch, int64_t count,
                               int64_t rows, int64_t columns) {
    return why.unless(is_aligned(heads, call.dtype, batch, count, rows, columns), "needs rows of ",
                      name, " that begin at multiples of 16 bytes");
  };
  return has_kv_of_q(call, why) &&
         why.unless(call.head_dim <= most_dim && call.value_dim <= most_dim,
                    "takes D and Dv up to ", most_dim) &&
         why.unless(queries < kMostSeen && keys < kMostSeen, "takes up to 2^29 rows") &&
         begins_well("q", call.q, call.batch, call.heads, queries, call.head_dim) &&
         begins_well("k", call.k, batches, call.kv_heads, keys, call.head_dim) &&
         begins_well("v", call.v, batches, call.kv_heads, keys, call.value_dim);
}

// A rung's kernels: two of each of Shapes...', for D and Dv up to their kDim, the least first:
// ::Plain of scores that are only scaled, ::Every of all. ::Short, if there is one, is Plain's of
// calls whose queries are one tile of it.
template <class T, template <class, int> class ProductsOf, class... Shapes>
struct FlashKernels {
  template <class Policy, bool kPlain>
  using Kernel = MmaFlashKernel<T, Policy, kPlain, ProductsOf>;

  // f(Plain, Every) of the kernels for a call, up to the last one's D and Dv.
  template <class F>
  static void with_kernels(const Call& call, const F& f) {
    const int64_t dim = std::max(call.head_dim, call.value_dim);
    const auto is_run_by = [&]<class Each>() {
      if (dim > Each::Plain::kDim) return false;
      using Plain = Kernel<typename Each::Plain, true>;
      using Every = Kernel<typename Each::Every, false>;
      if constexpr (requires { typename Each::Short; }) {
        if (call.queries <= Each::Short::kQueries) {
          f.template operator()<Kernel<typename Each::Short, true>, Every>();
          return true;
        }
      }
      f.template operator()<Plain, Every>();
      return true;
    };
    static_cast<void>((is_run_by.template operator()<Shapes>() || ...));
  }
};

// `rung` is of static storage.
template <class Kernels, class AnyCall>
void run_flash(const AnyCall& call, const char* rung, Stream stream) {
  const Sequences sequences(call, rung);
  const VarlenCall narrow = flash_call(call);
  const bool out_aligned =
      is_aligned(call.out, call.dtype, call.batch, call.heads,
                 std::max(narrow.queries, narrow.total_queries), call.value_dim);
  const bool is_plain = call.scale > 0 && call.softcap == 0 && !call.bias.exists &&
                        !call.slopes.exists && !narrow.paged;
  Kernels::with_kernels(call, [&]<class Plain, class Every>() {
    if (is_plain && has_shared_memory<Plain>()) {
      Plain::run(narrow, sequences, out_aligned, stream);
    } else {
      Every::run(narrow, sequences, out_aligned, stream);
    }
  });
}

}  // namespace ws::attention
