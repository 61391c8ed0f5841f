// What the textbook rungs at the bottom of the ladder take: rows of floats, and a block a row.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/scan/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::scan {

// Sums of all elements up to each and with it, rows without gaps, in launches of Kernel<T>.
template <class T>
struct PlainRows {
  const T* x;
  T* y;
  int64_t rows;
  int64_t columns;
};
inline bool is_plain(const Scan& call, Why& why) {
  return why.unless(!call.exclusive && !call.reverse, "takes inclusive scans from the front") &&
         why.unless(
             call.has_rows() && call.lines < int64_t{1} << 31 &&
                 (call.lines == 1 || (call.pitch(0) == call.count && call.pitch(1) == call.count)),
             "takes rows without gaps");
}

#if WS_DEVICE_CODE
// The rung of a kernel that has kThreads threads and kRowsOfBlock rows a block.
template <template <class> class Kernel>
struct Plain {
  static bool supports(const Scan& call, Why& why) { return is_plain(call, why); }
  static void run(const Scan& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      launch<Kernel<T>>({.blocks = divide_up(call.lines, int64_t{Kernel<T>::kRowsOfBlock}),
                         .threads = Kernel<T>::kThreads},
                        context.stream,
                        {static_cast<const T*>(call.input), static_cast<T*>(call.output),
                         call.lines, call.count});
    });
  }
};
#endif

}  // namespace ws::scan
