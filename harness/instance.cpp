#include "harness/instance.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "catalogue/fill.hpp"

namespace ws::harness {

Problem make_problem(const Operation& operation, const Case& chosen, DType dtype) {
  require(operation.dtypes.has(dtype), operation.name, " takes no ", to_string(dtype));
  const Case complete = with_attributes(operation, chosen);
  Problem problem = operation.make(operation, complete, dtype);
  problem.operation = &operation;
  problem.attributes = complete.attributes;
  // Outputs that make() laid out (with padding) are as if the caller had brought them.
  std::byte anywhere{};
  const int inputs = problem.input_count();
  for (int i = inputs; i < problem.tensor_count; ++i) problem.tensor(i).data = &anywhere;
  check(problem);
  for (int i = inputs; i < problem.tensor_count; ++i) problem.tensor(i).data = nullptr;
  return problem;
}

Case with_attributes(const Operation& operation, const Case& chosen) {
  Case complete = chosen;
  if (!complete.has_attributes) {
    for (size_t i = 0; i < operation.attributes.size(); ++i) {
      complete.attributes[i] = operation.attributes[i].standard;
    }
    complete.has_attributes = true;
  }
  return complete;
}

Instance::Instance(const Operation& operation, const Case& chosen, DType dtype, uint64_t seed,
                   const SampleLimits& limits)
    : chosen_(with_attributes(operation, chosen)),
      dtype_(dtype),
      seed_(seed),
      limits_(limits),
      problem_(make_problem(operation, chosen, dtype)) {
  const int count = problem_.input_count();
  for (int i = 0; i < count; ++i) {
    // The 0xFF between rows is a NaN that no kernel may take in.
    const HostTensor& input = inputs_.emplace_back(problem_.tensor(i));
    problem_.tensor(i).data = input.tensor().data;
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t input_seed = random_bits(seed, static_cast<uint64_t>(i));
    if (operation.fill != nullptr) {
      operation.fill(problem_, i, input_seed);
    } else {
      fill_normal(problem_.tensor(i), input_seed);
    }
  }
  items_ = operation.items(problem_);
}

int64_t Instance::elements_per_item(int output) const {
  return items_ == 0 ? 0 : problem_.outputs()[static_cast<size_t>(output)].elements() / items_;
}

// Everything, or pieces at both ends and at random places between that stay within the limits.
std::vector<Slice> Instance::sample() const {
  if (items_ == 0) return {};
  double elements = 0;
  for (const Tensor& output : problem_.outputs())
    elements += static_cast<double>(output.elements());
  const double excess = std::max(operation().cost(problem_).flops / limits_.flops,
                                 elements / static_cast<double>(limits_.elements));
  const int64_t wanted = std::clamp<int64_t>(
      static_cast<int64_t>(static_cast<double>(items_) / std::max(excess, 1.0)), 1, items_);
  const int64_t pieces =
      wanted == items_ ? std::min<int64_t>(items_, 256) : std::clamp<int64_t>(wanted, 3, 256);
  const int64_t length = std::max<int64_t>(1, wanted / pieces);
  std::vector<Slice> slices;
  for (int64_t p = 0; p < pieces; ++p) {
    // Piece p lies in the p-th stretch of the items; where all are wanted it is the stretch.
    const auto edge = [&](int64_t i) {
      return static_cast<int64_t>(static_cast<double>(items_) * static_cast<double>(i) /
                                  static_cast<double>(pieces));
    };
    Slice stretch{edge(p), p + 1 == pieces ? items_ : edge(p + 1)};
    if (wanted < items_) {
      const int64_t room = stretch.last - stretch.first - length;
      if (p + 1 == pieces) {
        stretch.first = std::max(stretch.first, items_ - length);
      } else if (p > 0 && room > 0) {
        stretch.first += static_cast<int64_t>(random_bits(seed_, static_cast<uint64_t>(p)) %
                                              static_cast<uint64_t>(room));
      }
      stretch.last = std::min(stretch.last, stretch.first + length);
    }
    if (stretch.last > stretch.first) slices.push_back(stretch);
  }
  return slices;
}

std::span<const Instance::Expected> Instance::expected() {
  if (!expected_.empty() || items_ == 0) return expected_;
  for (const Slice slice : sample()) {
    Expected& piece = expected_.emplace_back();
    piece.slice = slice;
    for (size_t k = 0; k < problem_.outputs().size(); ++k) {
      piece.outputs.emplace_back(
          static_cast<size_t>((slice.last - slice.first) * elements_per_item(static_cast<int>(k))));
    }
  }
  // Threads cost more than small references.
  const int64_t grain =
      problem_.outputs()[0].elements() < 4096 ? static_cast<int64_t>(expected_.size()) : int64_t{1};
  parallel_for(static_cast<int64_t>(expected_.size()), grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      Expected& piece = expected_[static_cast<size_t>(i)];
      std::array<double*, kMaxTensors> targets{};
      for (size_t k = 0; k < piece.outputs.size(); ++k) targets[k] = piece.outputs[k].data();
      operation().reference(problem_, piece.slice, {targets.data(), piece.outputs.size()});
    }
  });
  return expected_;
}

DeviceInstance::DeviceInstance(const Instance& instance, const DeviceInstance* like)
    : problem_(instance.problem()) {
  for (int i = 0; i < problem_.tensor_count; ++i) {
    Tensor& tensor = problem_.tensor(i);
    const size_t offset = static_cast<size_t>(instance.chosen().offset) * size_of(tensor.dtype);
    DeviceBuffer& buffer = buffers_.emplace_back(footprint(tensor), offset);
    tensor.data = buffer.data();
    if (i >= static_cast<int>(instance.inputs().size())) {
      buffer.fill(std::byte{0xFF});
    } else if (like != nullptr) {
      const DeviceBuffer& source = like->buffers_[static_cast<size_t>(i)];
      buffer.upload({source.data(), source.bytes()});
    } else {
      buffer.upload(instance.inputs()[static_cast<size_t>(i)].bytes());
    }
  }
}

void* DeviceInstance::workspace(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (!workspace_ || workspace_->bytes() != bytes) workspace_.emplace(bytes);
  return workspace_->data();
}

void DeviceInstance::poison_outputs(std::byte value) {
  for (int i = problem_.input_count(); i < problem_.tensor_count; ++i) buffer(i).fill(value);
  if (workspace_) workspace_->fill(value);
}

}  // namespace ws::harness
