// What the textbook rungs take: x [batch, channels, spatial], contiguous.
#pragma once

#include "kernels/batch_norm/values.hpp"

namespace ws::batch_norm {

inline bool is_contiguous(const Layout& layout, Why& why) {
  const bool one_run = layout.axes <= 1;
  const auto last = static_cast<size_t>(std::max(layout.axes - 1, 0));
  const int64_t spatial = layout.axes == 0 ? 1 : layout.extents[last];
  for (size_t k = 0; static_cast<int>(k) < layout.operands; ++k) {
    const bool right = layout.axes <= 2 && (layout.axes == 0 || layout.strides[k][last] == 1) &&
                       (layout.per == 1 || layout.set[k] == spatial) &&
                       (one_run || layout.strides[k][0] == layout.per * spatial);
    if (!why.unless(right, "takes contiguous tensors (NCHW)")) return false;
  }
  return why.unless(layout.sets <= kMostBlocks, "takes up to ", kMostBlocks, " channels");
}

// Element i of channel c of sample n is at (n * channels + c) * spatial + i.
struct Extents {
  int64_t batch;
  int64_t channels;
  int64_t spatial;
};
inline Extents extents_of(const Layout& layout) {
  const auto last = static_cast<size_t>(std::max(layout.axes - 1, 0));
  const int64_t spatial = layout.axes == 0 ? 1 : layout.extents[last];
  return {layout.axes == 2 ? layout.extents[0] : 1, layout.per, spatial};
}

#if WS_DEVICE_CODE

template <class T>
struct Plain {
  const T* x;
  T* y;
  Extents extents;
  Values weight;
  Values bias;
  Statistics statistics;
};
template <class T>
Plain<T> plain_of(const ForwardCall& call) {
  return {call.layout.as<const T>(kX),
          call.layout.as<T>(kY),
          extents_of(call.layout),
          call.weight,
          call.bias,
          statistics_of(call)};
}

template <class T>
struct PlainBackward {
  const T* grad;
  const T* x;
  T* dx;
  Extents extents;
  GradientRule rule;
};
template <class T>
PlainBackward<T> plain_of(const BackwardCall& call) {
  return {call.layout.as<const T>(kGrad), call.layout.as<const T>(kInput), call.layout.as<T>(kDx),
          extents_of(call.layout), rule_of(call)};
}

#endif

}  // namespace ws::batch_norm
