// Every probe computes what it must, and says so where it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "microbench/steps.hpp"

namespace ws::microbench {
namespace {

TEST(Microbench, NamesDiffer) {
  std::set<std::string_view> names;
  for (const Probe& probe : probes()) {
    EXPECT_TRUE(names.insert(probe.name).second) << probe.name;
    EXPECT_FALSE(probe.what.empty() || probe.unit.empty()) << probe.name;
  }
}

TEST(Microbench, ComputesWhatItMustInEveryOrder) {
  const harness::Machine machine = harness::machine();
  for (const std::string_view order : runtime::orders_to_check()) {
    const runtime::ThreadOrderScope scope(order);
    for (const Probe& probe : probes()) {
      EXPECT_EQ(measure(probe, machine).value, std::nullopt) << probe.name << " " << order;
    }
  }
}

// Counts its steps, but for one of them.
struct Forgetful {
  static constexpr int kThreads = 32;
  struct Input {
    int64_t forgotten;
  };
  using Shared = Nothing;
  __device__ Forgetful(Shared&, const Input& input) : input(input) {}
  __device__ void next() { count += steps++ != input.forgotten; }
  __device__ uint64_t state() const { return count; }
  const Input& input;
  int64_t steps = 0;
  uint64_t count = 0;
};

TEST(Microbench, AStepThatIsMissingIsTold) {
  const Steps steps;
  const int64_t all = steps.here().all();
  const auto count = [&](int64_t forgotten, uint64_t expected) {
    return clocks_of_step<Forgetful>({forgotten}, 2, steps, expected);
  };
  EXPECT_NO_THROW(count(all, static_cast<uint64_t>(all)));
  try {
    count(all - 1, static_cast<uint64_t>(all));
    FAIL() << "nobody missed it";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              concatenate("after ", all, " steps block 0 has ", all - 1, ", not ", all));
  }
}

TEST(Microbench, FailuresNameTheProbe) {
  const Probe probe{"broken", "nothing", "clocks", Arch::kSm80,
                    [](const harness::Machine&) -> Measurement { throw Error("it broke"); }};
  try {
    measure(probe, harness::machine());
    FAIL() << "it did not";
  } catch (const Error& error) {
    EXPECT_EQ(error.context().rung, "microbench/broken");
  }
}

}  // namespace
}  // namespace ws::microbench
