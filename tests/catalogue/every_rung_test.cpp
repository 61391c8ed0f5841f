// Every rung of the catalogue, each dtype and operation: verified in the emulator. One test each
// for the smoke shapes (in every order of threads) and the verify shapes: smoke.softmax/online/f16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"

namespace ws {
namespace {

using emulator::Order;

bool takes(const Rung& rung, const Operation& operation, const Case& chosen, DType dtype) {
  return supports(rung, harness::make_problem(operation, chosen, dtype), device_capability())
      .empty();
}

// Puts the emulator's order back, whatever happens.
class OrderScope {
 public:
  explicit OrderScope(Order order) { emulator::options().order = order; }
  OrderScope(const OrderScope&) = delete;
  OrderScope& operator=(const OrderScope&) = delete;
  ~OrderScope() { emulator::options().order = Order::kForward; }
};

class RungTest : public ::testing::Test {
 public:
  RungTest(const Operation& operation, const Rung& rung, DType dtype, bool smoke)
      : operation_(operation), rung_(rung), dtype_(dtype), smoke_(smoke) {}

  void TestBody() override {
    if (!smoke_) return verify_all(operation_.verify, Order::kForward);
    for (const Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
      verify_all(operation_.smoke, order);
    }
  }

 private:
  void verify_all(std::span<const Case> cases, Order order) {
    const OrderScope scope(order);
    for (size_t c = 0; c < cases.size(); ++c) {
      if (!takes(rung_, operation_, cases[c], dtype_)) continue;
      harness::Instance instance(operation_, cases[c], dtype_, 100 + c);
      const harness::Verification result = harness::verify(rung_, instance);
      EXPECT_NE(result.verdict, harness::Verdict::kFailed)
          << result.rung << ": " << result.problem << ", order " << static_cast<int>(order) << "\n"
          << result.reason;
    }
  }

  const Operation& operation_;
  const Rung& rung_;
  DType dtype_;
  bool smoke_;
};

// A rung that takes no problem of an operation has no test for it; EveryRungIsTested sees to it
// that it has one for another.
bool register_all() {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      for (const Rung& rung : family->rungs) {
        for (const DType dtype : kAllDTypes) {
          if (!rung.dtypes.has(dtype) || !operation.dtypes.has(dtype)) continue;
          for (const bool smoke : {true, false}) {
            const std::span<const Case> cases = smoke ? operation.smoke : operation.verify;
            if (std::ranges::none_of(
                    cases, [&](const Case& c) { return takes(rung, operation, c, dtype); })) {
              continue;
            }
            ::testing::RegisterTest(
                smoke ? "smoke" : "verify",
                fmt::format("{}/{}/{}", operation.name, rung.name, to_string(dtype)).c_str(),
                nullptr, nullptr, __FILE__, __LINE__,
                [&operation, &rung, dtype, smoke]() -> RungTest* {
                  return new RungTest(operation, rung, dtype, smoke);
                });
          }
        }
      }
    }
  }
  return true;
}
[[maybe_unused]] const bool kRegistered = register_all();

TEST(Catalogue, EveryRungIsTested) {
  for (const Family* family : families()) {
    for (const Rung& rung : family->rungs) {
      for (const DType dtype : kAllDTypes) {
        if (!rung.dtypes.has(dtype)) continue;
        for (const bool smoke : {true, false}) {
          const bool taken =
              std::ranges::any_of(family->operations, [&](const Operation& operation) {
                return operation.dtypes.has(dtype) &&
                       std::ranges::any_of(
                           smoke ? operation.smoke : operation.verify,
                           [&](const Case& c) { return takes(rung, operation, c, dtype); });
              });
          EXPECT_TRUE(taken) << family->name << "/" << rung.name << " " << to_string(dtype)
                             << " takes no problem of any " << (smoke ? "smoke" : "verify")
                             << " list";
        }
      }
    }
  }
}

}  // namespace
}  // namespace ws
