// cuDNN as a peer of softmax, log_softmax and their gradients.
#include "catalogue/peers/cudnn.hpp"
#include "kernels/softmax/operations.hpp"

namespace ws::softmax {
namespace {

#ifdef WS_HAS_CUDNN
using peers::check_cudnn;
using peers::cudnn_function;

// Rows are images of `columns` channels of one pixel: softmax of an instance is softmax of a row.
cudnnTensorDescriptor_t descriptor_of(const Problem& problem) {
  const Tensor& first = problem.tensor(0);
  const int64_t columns = first.rank == 0 ? 1 : first.extent(first.rank - 1);
  return peers::cudnn_descriptor(first.dtype, first.elements() / columns, columns);
}

template <cudnnSoftmaxAlgorithm_t kAlgorithm>
void forward(const Problem& problem, const Context& context) {
  static const auto function = cudnn_function<decltype(cudnnSoftmaxForward)>("cudnnSoftmaxForward");
  const cudnnTensorDescriptor_t rows = descriptor_of(problem);
  const float one = 1;
  const float zero = 0;
  check_cudnn(function(peers::cudnn_handle(context.stream), kAlgorithm, CUDNN_SOFTMAX_MODE_INSTANCE,
                       &one, rows, problem.tensor(0).data, &zero, rows, problem.tensor(1).data),
              "cudnnSoftmaxForward");
}

template <cudnnSoftmaxAlgorithm_t kAlgorithm>
void backward(const Problem& problem, const Context& context) {
  static const auto function =
      cudnn_function<decltype(cudnnSoftmaxBackward)>("cudnnSoftmaxBackward");
  const cudnnTensorDescriptor_t rows = descriptor_of(problem);
  const float one = 1;
  const float zero = 0;
  check_cudnn(function(peers::cudnn_handle(context.stream), kAlgorithm, CUDNN_SOFTMAX_MODE_INSTANCE,
                       &one, rows, problem.tensor(1).data, rows, problem.tensor(0).data, &zero,
                       rows, problem.tensor(2).data),
              "cudnnSoftmaxBackward");
}

template <cudnnSoftmaxAlgorithm_t kAlgorithm>
constexpr Peer kForward = {"cudnn", peers::cudnn_supports, nullptr, forward<kAlgorithm>};
template <cudnnSoftmaxAlgorithm_t kAlgorithm>
constexpr Peer kBackward = {"cudnn", peers::cudnn_supports, nullptr, backward<kAlgorithm>};
constexpr Peer kSoftmax[] = {kForward<CUDNN_SOFTMAX_ACCURATE>};
constexpr Peer kLogSoftmax[] = {kForward<CUDNN_SOFTMAX_LOG>};
constexpr Peer kSoftmaxBackward[] = {kBackward<CUDNN_SOFTMAX_ACCURATE>};
constexpr Peer kLogSoftmaxBackward[] = {kBackward<CUDNN_SOFTMAX_LOG>};
#else
// Listed all the same, so that it is said why there are no figures.
constexpr Peer kAbsent[] = {{"cudnn", peers::cudnn_supports, nullptr,
                             [](const Problem& problem, const Context& /*context*/) {
                               throw Error(peers::cudnn_supports(problem));
                             }}};
constexpr std::span<const Peer> kSoftmax = kAbsent;
constexpr std::span<const Peer> kLogSoftmax = kAbsent;
constexpr std::span<const Peer> kSoftmaxBackward = kAbsent;
constexpr std::span<const Peer> kLogSoftmaxBackward = kAbsent;
#endif

}  // namespace

std::span<const Peer> Softmax::peers() { return kSoftmax; }
std::span<const Peer> LogSoftmax::peers() { return kLogSoftmax; }
std::span<const Peer> SoftmaxBackward::peers() { return kSoftmaxBackward; }
std::span<const Peer> LogSoftmaxBackward::peers() { return kLogSoftmaxBackward; }

}  // namespace ws::softmax
