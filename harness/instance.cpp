#include "harness/instance.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "catalogue/fill.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {

Instance::Instance(const Operation& operation, const Case& chosen, DType dtype, uint64_t seed,
                   const SampleLimits& sample, const Limits& limits)
    : chosen_(chosen),
      dtype_(dtype),
      seed_(seed),
      limits_(sample),
      problem_(AnyCall(make_problem(operation, chosen, dtype)).problem()) {
  check_memory(problem_, chosen.offset, limits);
  const std::span<const Parameter> parameters = operation.parameters;
  before_.resize(parameters.size());
  const Problem without_data = problem_;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].is_read() || !problem_.tensors[i].exists()) continue;
    if (const size_t holder = holder_of(without_data, i); holder != i) {
      problem_.tensors[i].data = problem_.tensors[holder].data;
      continue;
    }
    // The 0xFF between rows is a NaN that no kernel may take in.
    before_[i] = std::make_unique<HostTensor>(problem_.tensors[i]);
    problem_.tensors[i].data = before_[i]->tensor().data;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (before_[i]) operation.fill(problem_, static_cast<int>(i), random_bits(seed, i));
  }
  count_items();
}

void Instance::count_items() {
  const Operation& op = operation();
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    const int64_t elements = problem_.tensors[i].elements();
    if (!op.parameters[i].is_written() || elements == 0) continue;
    items_[i] = op.items(problem_, op.parameters[i]);
    if (items_[i] <= 0 || elements % items_[i] != 0) {
      throw Error(concatenate(op.name, ": output '", op.parameters[i].name, "' of ",
                              problem_.describe(), " has ", elements, " elements, which ",
                              items_[i], " items do not divide: the catalogue is wrong"));
    }
  }
}

const HostTensor* Instance::before(int tensor) const {
  return before_[static_cast<size_t>(tensor)].get();
}

int64_t Instance::elements_per_item(int tensor) const {
  return items(tensor) == 0 ? 0 : problem_.tensor(tensor).elements() / items(tensor);
}

// Everything, or pieces at both ends and at random places between that stay within the limits.
std::vector<Slice> Instance::sample(int64_t items) const {
  double elements = 0;
  for (int i = 0; i < kMaxTensors; ++i) {
    if (this->items(i) == items) elements += static_cast<double>(problem_.tensor(i).elements());
  }
  const double excess = std::max(operation().cost(problem_).flops / limits_.flops,
                                 elements / static_cast<double>(limits_.elements));
  const int64_t wanted = std::clamp<int64_t>(
      static_cast<int64_t>(static_cast<double>(items) / std::max(excess, 1.0)), 1, items);
  const int64_t pieces =
      wanted == items ? std::min<int64_t>(items, 256) : std::clamp<int64_t>(wanted, 3, 256);
  const int64_t length = std::max<int64_t>(1, wanted / pieces);
  std::vector<Slice> slices;
  for (int64_t p = 0; p < pieces; ++p) {
    // Piece p lies in the p-th stretch of the items; where all are wanted it is the stretch.
    const auto edge = [&](int64_t i) {
      return static_cast<int64_t>(static_cast<double>(items) * static_cast<double>(i) /
                                  static_cast<double>(pieces));
    };
    Slice stretch{edge(p), p + 1 == pieces ? items : edge(p + 1)};
    if (wanted < items) {
      const int64_t room = stretch.last - stretch.first - length;
      if (p + 1 == pieces) {
        stretch.first = std::max(stretch.first, items - length);
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
  if (!expected_.empty()) return expected_;
  std::vector<int64_t> counts;  // each number of items once
  for (const int64_t items : items_) {
    if (items > 0 && std::ranges::find(counts, items) == counts.end()) counts.push_back(items);
  }
  const size_t tensors = operation().parameters.size();
  int64_t largest = 0;
  for (const int64_t items : counts) {
    for (const Slice slice : sample(items)) {
      Expected& piece = expected_.emplace_back();
      piece.slice = slice;
      piece.tensors.resize(tensors);
      for (size_t i = 0; i < tensors; ++i) {
        if (items_[i] != items) continue;
        piece.tensors[i].resize(static_cast<size_t>((slice.last - slice.first) *
                                                    elements_per_item(static_cast<int>(i))));
        largest = std::max(largest, problem_.tensors[i].elements());
      }
    }
  }
  // Threads cost more than small references.
  const int64_t grain = largest < 4096 ? static_cast<int64_t>(expected_.size()) : int64_t{1};
  parallel_for(static_cast<int64_t>(expected_.size()), grain, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      Expected& piece = expected_[static_cast<size_t>(p)];
      std::array<double*, kMaxTensors> targets{};
      for (size_t i = 0; i < tensors; ++i) {
        if (!piece.tensors[i].empty()) targets[i] = piece.tensors[i].data();
      }
      operation().reference(problem_, piece.slice, {targets.data(), tensors});
    }
  });
  return expected_;
}

DeviceInstance::DeviceInstance(const Instance& instance, const DeviceInstance* like) {
  Problem problem = instance.problem();
  const std::span<const Parameter> parameters = instance.operation().parameters;
  buffers_.resize(parameters.size());
  pristine_.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor& tensor = problem.tensors[i];
    if (!tensor.exists()) continue;
    if (const size_t holder = holder_of(instance.problem(), i); holder != i) {
      tensor.data = problem.tensors[holder].data;
      continue;
    }
    const size_t offset = static_cast<size_t>(instance.chosen().offset) * size_of(tensor.dtype);
    DeviceBuffer& buffer =
        *(buffers_[i] = std::make_unique<DeviceBuffer>(footprint(tensor), offset));
    tensor.data = buffer.data();
    if (!parameters[i].is_read()) {
      buffer.fill(std::byte{0xFF});
      continue;
    }
    if (like != nullptr) {
      const DeviceBuffer& source = like->pristine_[i] ? *like->pristine_[i] : *like->buffers_[i];
      buffer.upload({source.data(), source.bytes()});
    } else {
      buffer.upload(instance.before(static_cast<int>(i))->bytes());
    }
    if (parameters[i].is_written()) {
      pristine_[i] = std::make_unique<DeviceBuffer>(buffer.bytes());
      pristine_[i]->upload({buffer.data(), buffer.bytes()});
    }
  }
  call_ = std::make_unique<AnyCall>(problem);
}

void* DeviceInstance::workspace(const Workspace& wanted) {
  zeroed_ = wanted.zeroed;
  if (wanted.bytes == 0) {
    workspace_.reset();
    return nullptr;
  }
  if (!workspace_ || workspace_->bytes() != wanted.bytes) {
    workspace_ = std::make_unique<DeviceBuffer>(wanted.bytes);
  }
  workspace_->fill(std::byte{0});
  return workspace_->data();
}

void DeviceInstance::reset(std::byte value) {
  const std::span<const Parameter> parameters = call().operation().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (buffers_[i] && parameters[i].role == Parameter::Role::kOut) buffers_[i]->fill(value);
  }
  if (workspace_) workspace_->fill(value, zeroed_);
  restore(nullptr);
  runtime::synchronize(nullptr);
}

void DeviceInstance::restore(Stream stream) {
  for (size_t i = 0; i < pristine_.size(); ++i) {
    if (!pristine_[i]) continue;
    runtime::copy_async(buffers_[i]->data(), pristine_[i]->data(), pristine_[i]->bytes(), stream);
  }
}

void run_on(std::byte poison, const Rung& rung, const AnyCall& call, DeviceInstance& device,
            const Context& context) {
  device.reset(poison);
  run(rung, call, context);
  runtime::synchronize(context.stream);
  raise_device_error();
}

SingleRun::SingleRun(const Rung& rung, const Instance& instance) : rung_(rung), device_(instance) {
  const Reason reason = why_not(rung, device_.call(), runtime::capability());
  require(reason.empty(), instance.operation().name, "/", rung.name, " does not take ",
          instance.problem().describe(), ": ", reason);
  context_.workspace = device_.workspace(workspace_of(rung, device_.call()));
}

void SingleRun::operator()() { run_on(kFirstPoison, rung_, device_.call(), device_, context_); }

}  // namespace ws::harness
