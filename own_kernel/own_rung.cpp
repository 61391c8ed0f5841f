#include "own_kernel/own_rung.hpp"

#include <algorithm>
#include <memory>

#include "warpsmith/runtime.hpp"

namespace ws::own_kernel {
namespace {

using harness::Instance;

// The runs that harness::verify makes: two at least, from other poison, in each order of threads.
std::vector<Program::Run> runs_of_verify() {
  const std::vector<std::string_view> orders = runtime::orders_to_check();
  std::vector<Program::Run> runs;
  for (size_t i = 0; i < std::max<size_t>(orders.size(), 2); ++i) {
    runs.push_back({.order = std::string(orders[i % orders.size()]),
                    .poison = i == 1 ? harness::kSecondPoison : harness::kFirstPoison});
  }
  return runs;
}

}  // namespace

OwnRung* OwnRung::running_ = nullptr;

OwnRung::OwnRung(Program& program, const Operation& operation, bool deterministic)
    : program_(program),
      original_(operation),
      operation_(operation),
      implementation_{.operation = operation.name,
                      .dtypes = program.dtypes(),
                      .supports = [](const void*, Why&) { return true; },
                      .workspace = [](const void*) { return Workspace{}; },
                      .run = run},
      rung_{.name = "yours",
            .idea = "a kernel of your own",
            .deterministic = deterministic,
            .implementations = {&implementation_, 1}} {
  operation_.call_bytes = sizeof(Call);
  operation_.make_call = make_call;
  operation_.in_place = false;
  require(running_ == nullptr, "one kernel of one's own at a time");
  running_ = this;
}

OwnRung::~OwnRung() { running_ = nullptr; }

void OwnRung::make_call(const Problem& problem, void* place) {
  auto* call = new (place) Call;
  for (size_t i = 0; i < call->data.size(); ++i) call->data[i] = problem.tensors[i].data;
}

void OwnRung::run(const void* call, const Context& context) {
  OwnRung& me = *running_;
  const Left& left = *me.left_.at(me.next_++);
  if (!left.failure.empty()) throw Error(left.failure);
  const std::byte* from = left.bytes.data();
  for (size_t i = 0; i < me.operation_.parameters.size(); ++i) {
    const size_t bytes = bytes_of(me.problem_->tensors[i]);
    if (bytes == 0) continue;
    runtime::copy_async(static_cast<const Call*>(call)->data[i], from, bytes, context.stream);
    from += bytes;
  }
}

std::vector<std::pair<DType, Case>> OwnRung::problems(const harness::Selection& selection) const {
  constexpr double kMost = 5e6;  // flops
  std::vector<std::pair<DType, Case>> problems;
  Reason reason;
  for (const DType dtype : selection.chosen(program_.dtypes())) {
    const Signature signature = program_.signature(dtype);
    // The list that was named, as far as it can be called so; else the signature's own, of it in
    // the emulator what a kernel's every access can be followed through in seconds.
    std::vector<Case> own = signature.cases();
    std::erase_if(own, [&](const Case& chosen) {
      return runtime::kEmulated &&
             original_.cost(AnyCall(make_problem(original_, chosen, dtype)).problem()).flops >
                 kMost;
    });
    const std::span<const Case> standard = selection.cases.empty()
                                               ? std::span<const Case>(own)
                                               : selection.standard(original_, "verify");
    for (const Case& chosen : selection.of(original_, standard)) {
      const Reason why = signature.why_not(chosen);
      if (why.empty()) problems.emplace_back(dtype, chosen);
      if (reason.empty()) reason = why;
    }
  }
  require(!problems.empty(), "nothing to try: the function takes ", to_string(program_.dtypes()),
          reason.empty() ? "" : "; ", reason);
  return problems;
}

std::vector<harness::Verification> OwnRung::verify(std::span<const std::pair<DType, Case>> problems,
                                                   uint64_t seed,
                                                   const harness::SampleLimits& sample) {
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<const Instance*> all;
  for (const auto& [dtype, chosen] : problems) {
    instances.push_back(std::make_unique<Instance>(operation_, chosen, dtype, seed, sample));
    all.push_back(instances.back().get());
  }
  std::vector<std::vector<Left>> by_run;
  size_t told = all.size();
  for (const Program::Run& how : runs_of_verify()) {
    by_run.push_back(program_.run(all, how));
    told = std::min(told, by_run.back().size());
  }
  std::vector<harness::Verification> results;
  for (size_t i = 0; i < told; ++i) {
    problem_ = &all[i]->problem();
    left_.clear();
    next_ = 0;
    for (const std::vector<Left>& of_run : by_run) left_.push_back(&of_run[i]);
    results.push_back(harness::verify(rung_, *instances[i]));
  }
  return results;
}

OwnRung::Seen OwnRung::profile(DType dtype, const Case& chosen, uint64_t seed) {
  const Instance instance(operation_, chosen, dtype, seed);
  cuda_file::Outcome outcome;
  const std::vector<Left> left = program_.run(std::array{&instance}, {.profile = true}, &outcome);
  if (!left.front().failure.empty()) throw Error(left.front().failure);
  return {outcome.profile.value_or(Profile{}), outcome.counts};
}

std::vector<float> OwnRung::time(DType dtype, const Case& chosen, uint64_t seed, int runs) {
  const Instance instance(operation_, chosen, dtype, seed);
  const std::vector<Left> left = program_.run(std::array{&instance}, {.timed_runs = runs});
  if (!left.front().failure.empty()) throw Error(left.front().failure);
  std::vector<float> times = left.front().microseconds;
  std::ranges::sort(times);
  return times;
}

}  // namespace ws::own_kernel
