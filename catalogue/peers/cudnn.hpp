// cuDNN as a peer of softmax.
#pragma once

#include "catalogue/catalogue.hpp"
#include "catalogue/peers/library.hpp"

namespace ws::peers {

LibraryStatus cudnn_status();

// softmax, log_softmax (tensors x, y) and their _backward (tensors grad, output, dx) over the last
// dimension of contiguous tensors of f32, f16 or bf16; told apart by the operation's name.
Reason cudnn_softmax_supports(const Problem& problem);
void cudnn_softmax_run(const Problem& problem, const Context& context);

inline constexpr Peer kCudnnSoftmax = {"cudnn", cudnn_softmax_supports, nullptr, cudnn_softmax_run};

}  // namespace ws::peers
