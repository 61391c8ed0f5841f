// Every rung of the catalogue, each dtype and operation: verified in the emulator, on smoke shapes
// in every order of threads, on verify shapes in one of the three. One test each for the smoke and
// the verify shapes: smoke.softmax/online/f16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "harness/verify.hpp"
#include "warpsmith/runtime.hpp"

namespace ws {
namespace {

bool taken(const Rung& rung, const Operation& operation, const Case& chosen, DType dtype) {
  if (!chosen.is_of(dtype)) return false;
  const AnyCall call(make_problem(operation, chosen, dtype));
  return takes(rung, call, runtime::capability());
}

// In which orders the shape of this number runs: a verify shape, where tests spend their time, in
// one, the next shape and the next dtype in another. What only one order shows is seen on a shape
// of three, and on the smoke shapes. `warpsmith verify` runs every shape in all.
std::vector<std::string_view> orders_of(bool smoke, size_t shape) {
  std::vector<std::string_view> orders = runtime::orders_to_check();
  if (smoke) return orders;
  return {orders[shape % orders.size()]};
}

// bf16 beside f16 is the same template with the same bounds: of the verify shapes it takes every
// other one.
bool has_twin(const Operation& operation, const Rung& rung, DType dtype) {
  return dtype == DType::kBf16 && dtypes_of(rung, operation).has(DType::kF16);
}

class RungTest : public ::testing::Test {
 public:
  RungTest(const Operation& operation, const Rung& rung, DType dtype, bool smoke)
      : operation_(operation), rung_(rung), dtype_(dtype), smoke_(smoke) {}

  void TestBody() override {
    const Cases all = operation_.cases();
    const std::span<const Case> cases = smoke_ ? all.smoke : all.verify;
    const bool thinned = !smoke_ && has_twin(operation_, rung_, dtype_);
    size_t count = 0;
    size_t passed = 0;
    size_t run = 0;
    for (size_t c = 0; c < cases.size(); ++c) {
      if (!taken(rung_, operation_, cases[c], dtype_)) continue;
      const size_t shape = count++;
      if (thinned && shape % 2 == 1) continue;
      harness::Instance instance(operation_, cases[c], dtype_, 100 + c);
      const harness::Verification result =
          harness::verify(rung_, instance, orders_of(smoke_, shape + static_cast<size_t>(dtype_)));
      EXPECT_NE(result.verdict, harness::Verdict::kFailed)
          << result.rung << ": " << result.problem << "\n"
          << result.reason;
      ++run;
      passed += result.verdict == harness::Verdict::kPassed ? 1 : 0;
    }
    // A problem without data does not tell where its tensors lie: a rung may take none that does.
    EXPECT_GT(passed, 0) << "each of the " << run << " problems it seems to take is skipped";
  }

 private:
  const Operation& operation_;
  const Rung& rung_;
  DType dtype_;
  bool smoke_;
};

// f(family, operation, rung, dtype) for what each rung computes, as far as this build has it.
template <class F>
void for_each_rung(const F& f) {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      for (const Rung* rung : family->rungs) {
        if (rung->gpu_only) continue;
        for (const DType dtype : kAllDTypes) {
          if (dtypes_of(*rung, operation).has(dtype)) f(*family, operation, *rung, dtype);
        }
      }
    }
  }
}

bool takes_any(const Operation& operation, const Rung& rung, DType dtype, bool smoke) {
  const Cases cases = operation.cases();
  return std::ranges::any_of(smoke ? cases.smoke : cases.verify, [&](const Case& chosen) {
    return taken(rung, operation, chosen, dtype);
  });
}

// Sanitized, tests of bf16 tell nothing that those of f16 do not. They took a third of the time.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Of the verify shapes, WARPSMITH_VERIFY=gemm;linear has those of these families alone, as CI does
// where a change reaches no others.
bool is_asked_for(std::string_view family) {
  const char* const listed = std::getenv("WARPSMITH_VERIFY");
  const std::string_view names = listed == nullptr ? "all" : listed;
  if (names == "all") return true;
  return fmt::format(";{};", names).find(fmt::format(";{};", family)) != std::string::npos;
}

bool register_all() {
  for_each_rung(
      [](const Family& family, const Operation& operation, const Rung& rung, DType dtype) {
        if (kSanitized && has_twin(operation, rung, dtype)) return;
        for (const bool smoke : {true, false}) {
          if (!smoke && !is_asked_for(family.name)) continue;
          if (!takes_any(operation, rung, dtype, smoke)) continue;
          ::testing::RegisterTest(
              smoke ? "smoke" : "verify",
              fmt::format("{}/{}/{}", operation.name, rung.name, to_string(dtype)).c_str(), nullptr,
              nullptr, __FILE__, __LINE__, [&operation, &rung, dtype, smoke]() -> RungTest* {
                return new RungTest(operation, rung, dtype, smoke);
              });
        }
      });
  return true;
}
[[maybe_unused]] const bool kRegistered = register_all();

TEST(Catalogue, EveryRungIsTested) {
  for_each_rung(
      [](const Family& /*family*/, const Operation& operation, const Rung& rung, DType dtype) {
        for (const bool smoke : {true, false}) {
          EXPECT_TRUE(takes_any(operation, rung, dtype, smoke))
              << operation.name << "/" << rung.name << " " << to_string(dtype)
              << " takes no problem of the " << (smoke ? "smoke" : "verify") << " list";
        }
      });
}

}  // namespace
}  // namespace ws
