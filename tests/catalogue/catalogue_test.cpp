#include "catalogue/catalogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "harness/embedded.hpp"

namespace ws {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

// ---- Names ------------------------------------------------------------------------------------

TEST(Resolve, FindsFamiliesOperationsAndRungs) {
  const Address family = resolve("elementwise");
  EXPECT_EQ(family.family->name, "elementwise");
  EXPECT_EQ(family.operation, nullptr);
  const Address operation = resolve("log_softmax");
  EXPECT_EQ(operation.family->name, "softmax");
  EXPECT_EQ(operation.operation->name, "log_softmax");
  EXPECT_EQ(operation.rung, nullptr);
  const Address rung = resolve("log_softmax/warp_per_row");
  EXPECT_EQ(rung.operation->name, "log_softmax");
  EXPECT_EQ(rung.rung->name, "warp_per_row");
  EXPECT_THROW(resolve("log_softmax/online"), InvalidArgument) << "computes softmax alone";
  // Of a family that is no operation: all its operations.
  EXPECT_EQ(resolve("elementwise/scalar").operation, nullptr);
}

TEST(Resolve, EveryRungAndSeedByItsName) {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      EXPECT_EQ(&family_of(operation), family);
      EXPECT_EQ(&operation_named(operation.name), &operation);
      for (const Rung* rung : family->rungs) {
        if (rung->of(operation) == nullptr) continue;
        const Address address = resolve(concatenate(operation.name, "/", rung->name));
        EXPECT_EQ(address.operation, &operation);
        EXPECT_EQ(address.rung, rung);
        for (const std::string& seed : seeds_of(*rung, operation)) {
          const Address answer = resolve_seed(seed);
          EXPECT_EQ(answer.rung, rung) << seed;
          EXPECT_EQ(answer.operation, &operation) << seed;
        }
      }
    }
  }
}

TEST(Resolve, SuggestsNearNames) {
  EXPECT_THAT(error_of([] { resolve("softmx"); }),
              AllOf(HasSubstr("'softmx'"), HasSubstr("did you mean 'softmax'")));
  EXPECT_THAT(error_of([] { resolve("softmax/warp_per_rwo"); }),
              HasSubstr("'softmax/warp_per_row'"));
  EXPECT_THAT(error_of([] { resolve("xyzzy_plugh_42"); }), HasSubstr("warpsmith list"));
  EXPECT_THAT(error_of([] { operation_named("gellu"); }), HasSubstr("'gelu'"));
}

TEST(Resolve, ANameIsNearToWhatItIsAPartOf) {
  const std::vector<std::string> names = {"softmax/warp_per_row", "gemm/naive", "warp"};
  EXPECT_THAT(near_names("per_row", names), ElementsAre("softmax/warp_per_row"));
  EXPECT_THAT(near_names("row", names), ElementsAre("softmax/warp_per_row"));
  EXPECT_THAT(near_names("ow", names), IsEmpty()) << "two letters are a part of too much";
  EXPECT_THAT(near_names("warq", names), ElementsAre("warp"));
  EXPECT_THAT(near_names("w", names), IsEmpty());
}

TEST(Names, NoneStandsForTwoThings) {
  std::set<std::string> names;
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      EXPECT_TRUE(names.insert(std::string(operation.name)).second) << operation.name;
      for (const Rung* rung : family->rungs) {
        for (const std::string& seed : seeds_of(*rung, operation)) {
          if (seed == operation.name) continue;  // the operation is what the seed is
          EXPECT_TRUE(names.insert(seed).second) << seed << " is claimed twice";
        }
      }
      for (const Rung* peer : peer_rungs(operation)) {
        EXPECT_EQ(rung_named(*family, peer->name), nullptr) << peer->name;
        for (const std::string& seed : seeds_of(*peer, operation)) {
          EXPECT_TRUE(names.insert(seed).second) << seed << " is claimed twice";
        }
      }
    }
  }
}

// ---- Seeds ------------------------------------------------------------------------------------

struct SeedLine {
  std::string family;
  std::string name;
  std::string dtypes;
};

std::vector<SeedLine> seed_lines() {
  std::vector<SeedLine> lines;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path != "catalogue/seed-kernels.tsv") continue;
    std::istringstream text{std::string(file.text)};
    std::string line;
    std::getline(text, line);  // titles
    while (std::getline(text, line)) {
      std::istringstream cells(line);
      SeedLine& seed = lines.emplace_back();
      std::getline(cells, seed.family, '\t');
      std::getline(cells, seed.name, '\t');
      std::getline(cells, seed.dtypes, '\t');
      seed.name = seed.name.substr(0, seed.name.find(" ("));
    }
  }
  return lines;
}

TEST(Seeds, TheListIsInsideTheProgram) { EXPECT_THAT(seed_lines(), SizeIs(::testing::Ge(300U))); }

TEST(Seeds, OfCompleteFamiliesResolve) {
  constexpr std::array<std::string_view, 18> kComplete = {
      "softmax", "attention",          "norm", "reduce",    "dot",       "gemv",
      "gemm",    "histogram",          "scan", "transpose", "embedding", "index_add",
      "rope",    "upsample_nearest2d", "spmv", "nms",       "lessons",   "elementwise/"};
  for (const SeedLine& seed : seed_lines()) {
    if (std::ranges::none_of(kComplete, [&](std::string_view family) {
          return family.ends_with('/') ? seed.family.starts_with(family) : seed.family == family;
        })) {
      continue;
    }
    try {
      const Address address = resolve_seed(seed.name);
      ASSERT_NE(address.rung, nullptr) << seed.name;
      const DTypes taken = dtypes_of(*address.rung, *address.operation);
      std::istringstream dtypes(seed.dtypes);
      for (std::string dtype; std::getline(dtypes, dtype, ',');) {
        if (dtype == "all") continue;
        if (dtype == "tf32") {  // f32 in memory, and an attribute
          EXPECT_EQ(address.attributes, "precision=tf32") << seed.name;
          dtype = "f32";
        }
        const DType wanted = dtype_from(dtype.starts_with("fp8_") ? dtype.substr(4) : dtype);
        EXPECT_TRUE(taken.has(wanted)) << seed.name << " " << dtype;
        EXPECT_TRUE(address.dtypes.empty() || address.dtypes.has(wanted))
            << seed.name << " " << dtype;
      }
    } catch (const InvalidArgument& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Seeds, MayHaveTheRemarkOfTheList) {
  const Address address = resolve("int8/nf4 dequantize gemv (bitsandbytes)");
  ASSERT_NE(address.rung, nullptr);
  EXPECT_EQ(address.rung, resolve("int8/nf4 dequantize gemv").rung);
  EXPECT_EQ(address.operation->name, "quantized_linear");
}

TEST(Seeds, RungsClaimOnlySeedsOfTheList) {
  std::set<std::string> known;
  for (const SeedLine& seed : seed_lines()) known.insert(seed.name);
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      for (const Rung* rung : family->rungs) {
        for (const std::string& seed : seeds_of(*rung, operation)) {
          EXPECT_TRUE(known.contains(seed)) << family->name << "/" << rung->name << ": " << seed;
        }
      }
      for (const Rung* peer : peer_rungs(operation)) {
        for (const std::string& seed : seeds_of(*peer, operation)) {
          EXPECT_TRUE(known.contains(seed)) << operation.name << "/" << peer->name << ": " << seed;
        }
      }
    }
  }
}

// A peer answers as a rung does, to its own name and to theirs, with what those fix.
TEST(Seeds, AreOfTheOperationsThatTheRungComputes) {
  const Address address = resolve_seed("softmax_f32x4_per_token");
  EXPECT_THAT(seeds_of(*address.rung, *address.operation), Contains("softmax_f32x4_per_token"));
  EXPECT_THAT(seeds_of(*address.rung, operation_named("relu")), IsEmpty());
}

TEST(Seeds, PeersAnswer) {
  const Address peer = resolve("gemm/cublasLt");
  ASSERT_NE(peer.rung, nullptr);
  ASSERT_NE(peer.rung->peer, nullptr);
  EXPECT_EQ(peer.operation->name, "gemm");
  EXPECT_TRUE(peer.attributes.empty());
  const Address seed = resolve("hgemm_cublas_tensor_op_tn");
  EXPECT_EQ(seed.rung, peer.rung);
  EXPECT_EQ(seed.dtypes, DTypes{DType::kF16});
  EXPECT_EQ(seed.attributes, "layout=nt") << "BLAS counts in columns";
  const Problem problem = make_problem(*peer.operation, {.extents = {8, 8, 8}}, DType::kF16);
  EXPECT_THAT(why_not(*peer.rung, AnyCall(problem), 90), HasSubstr("emulated build"));
}

// ---- Calls ------------------------------------------------------------------------------------

alignas(256) std::byte memory[1 << 12];

Problem softmax_problem() {
  Problem problem;
  problem.operation = &operation_named("softmax");
  problem["x"] = Tensor::dense(DType::kF16, {4, 8});
  return problem;
}
Tensor with_data(Tensor tensor, int64_t byte) {
  tensor.data = memory + byte;
  return tensor;
}

TEST(AnyCall, InfersOutputsAndAttributes) {
  const AnyCall call(softmax_problem());
  EXPECT_EQ(call.problem().tensor(1).describe(), "f16 [4, 8]");
  EXPECT_FALSE(call.problem().flag("bounded"));
  EXPECT_EQ(call.problem().describe(), "softmax f16 [4, 8]");
}

TEST(AnyCall, ComparesOutputsThatTheCallerBrings) {
  Problem problem = softmax_problem();
  Tensor& out = problem.tensor(1);
  out = with_data(Tensor::dense(DType::kF16, {4, 8}), 0);
  out.strides[0] = 9;
  EXPECT_EQ(AnyCall(problem).problem().tensor(1).strides[0], 9) << "the caller's layout stays";

  out.shape[1] = 7;
  EXPECT_THAT(error_of([&] { AnyCall{problem}; }), AllOf(HasSubstr("[4, 7]"), HasSubstr("[4, 8]")));
  out = with_data(Tensor::dense(DType::kF32, {4, 8}), 0);
  EXPECT_THAT(error_of([&] { AnyCall{problem}; }),
              AllOf(HasSubstr("f32"), HasSubstr("f16 [4, 8]")));
  out = with_data(Tensor::dense(DType::kF16, {4, 8}), 0);
  out.strides[0] = 0;
  EXPECT_THAT(error_of([&] { AnyCall{problem}; }), HasSubstr("share one address"));
}

TEST(AnyCall, ComparesTheShapesOfEmptyOutputs) {
  Problem problem = softmax_problem();
  problem["x"] = Tensor::dense(DType::kF16, {0, 8});
  problem.tensor(1) = Tensor::dense(DType::kF16, {8, 0});
  EXPECT_THAT(error_of([&] { AnyCall{problem}; }), AllOf(HasSubstr("[8, 0]"), HasSubstr("[0, 8]")));
}

TEST(AnyCall, RefusesOutputsThatShareMemoryWithInputs) {
  Problem gemm;
  gemm.operation = &operation_named("gemm");
  gemm["a"] = with_data(Tensor::dense(DType::kF16, {8, 8}), 0);
  gemm["b"] = with_data(Tensor::dense(DType::kF16, {8, 8}), 1024);
  gemm["c"] = gemm["a"];
  EXPECT_THAT(error_of([&] { AnyCall{gemm}; }),
              AllOf(HasSubstr("output 'c'"), HasSubstr("shares memory with 'a'")));
  gemm["c"] = with_data(Tensor::dense(DType::kF16, {8, 8}), 1024 + 126);
  EXPECT_THAT(error_of([&] { AnyCall{gemm}; }), HasSubstr("shares memory with 'b'"));
  gemm["c"] = with_data(Tensor::dense(DType::kF16, {8, 8}), 2048);
  EXPECT_EQ(error_of([&] { AnyCall{gemm}; }), "no error");

  Problem relu;
  relu.operation = &operation_named("relu");
  relu.tensor(0) = with_data(Tensor::dense(DType::kF32, {4, 4}), 0);
  relu.tensor(1) = relu.tensor(0);
  EXPECT_EQ(error_of([&] { AnyCall{relu}; }), "no error") << "in place";
  std::swap(relu.tensor(0).strides[0], relu.tensor(0).strides[1]);
  EXPECT_THAT(error_of([&] { AnyCall{relu}; }),
              HasSubstr("it may be exactly that tensor, or none of its memory"));
}

TEST(AnyCall, NamesWhatIsWrong) {
  EXPECT_THROW(AnyCall{Problem{}}, Error);
  Problem gemm;
  gemm.operation = &operation_named("gemm");
  gemm["a"] = Tensor::dense(DType::kF16, {4, 8});
  EXPECT_THAT(error_of([&] { AnyCall{gemm}; }), HasSubstr("gemm: input 'b' is missing"));
  gemm["b"] = Tensor::dense(DType::kF16, {9, 4});
  EXPECT_THAT(error_of([&] { AnyCall{gemm}; }), AllOf(HasSubstr("8"), HasSubstr("9")));
  gemm.attributes[0] = 7;
  EXPECT_THAT(error_of([&] { AnyCall{gemm}; }), HasSubstr("'layout' is one of nn, nt, tn, tt"));
  EXPECT_THROW((void)gemm["q"], Error);
  EXPECT_THROW((void)gemm.attribute("q"), Error);
}

TEST(AnyCall, RefusesWhatNoMemoryHolds) {
  Problem problem = softmax_problem();
  Tensor& x = problem.tensor(0);
  x.shape = {4294967296, 4294967296};
  EXPECT_THAT(error_of([&] { AnyCall{problem}; }),
              AllOf(HasSubstr("larger than any memory"), HasSubstr("4294967296")));
  x.shape = {4, 8};
  x.strides = {int64_t{1} << 60, 1};
  EXPECT_THAT(error_of([&] { AnyCall{problem}; }), HasSubstr("larger than any memory"));
  x.strides = {std::numeric_limits<int64_t>::min(), 1};
  EXPECT_THAT(error_of([&] { AnyCall{problem}; }), HasSubstr("larger than any memory"));
}

// ---- Rungs ------------------------------------------------------------------------------------

int runs = 0;
std::string failure;

// A rung of softmax that does what the test says.
struct Plain {
  Implementation implementation{
      .operation = "softmax",
      .dtypes = kFloats,
      .supports = [](const void*, Why& why) { return why.unless(true, "never"); },
      .workspace = [](const void*) { return Workspace{}; },
      .run =
          [](const void*, const Context&) {
            ++runs;
            if (!failure.empty()) throw Error(failure);
          }};
  Rung rung{.name = "plain", .idea = "none"};

  const Rung& row() {
    rung.implementations = {&implementation, 1};
    return rung;
  }
};

// Nothing runs of a call without elements, but every rung is asked whether it would: what an extent
// of 0 divides must not be divided.
TEST(WhyNot, IsAnsweredByEveryRungOfCallsWithoutElements) {
  const auto ask = [](const Family& family, const Operation& operation, const Case& chosen) {
    for (const DType dtype : kAllDTypes) {
      if (!operation.dtypes.has(dtype) || !chosen.is_of(dtype)) continue;
      try {
        const AnyCall call(make_problem(operation, chosen, dtype));
        for (const Rung* rung : family.rungs) why_not(*rung, call, 90);
        best(call, 90);
      } catch (const InvalidArgument&) {
        continue;  // no problem of the operation
      }
    }
  };
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      for (const Case& known : operation.cases().verify) {
        for (size_t i = 0; i < operation.extent_names.size(); ++i) {
          Case chosen = known;
          chosen.extents[i] = 0;
          ask(*family, operation, chosen);
        }
      }
    }
  }
}

TEST(WhyNot, TellsOperationDTypeArchitectureAndReason) {
  const AnyCall call(softmax_problem());
  Plain plain;
  EXPECT_THAT(why_not(plain.row(), call, 90), IsEmpty());
  EXPECT_TRUE(takes(plain.row(), call, 90));
  plain.implementation.dtypes = {DType::kF32};
  EXPECT_EQ(why_not(plain.row(), call, 90), "takes f32, not f16");
  EXPECT_FALSE(takes(plain.row(), call, 90));
  plain.implementation.dtypes = kFloats;
  plain.rung.arch = Arch::kSm90a;
  EXPECT_EQ(why_not(plain.row(), call, 100), "needs sm_90a, the device is sm_100");
  plain.implementation.supports = [](const void*, Why& why) {
    return why.unless(false, "rows of ", 8);
  };
  EXPECT_EQ(why_not(plain.row(), call, 90), "rows of 8");
  EXPECT_FALSE(takes(plain.row(), call, 90));
  plain.implementation.operation = "gemm";
  EXPECT_EQ(why_not(plain.row(), call, 90), "computes gemm, not softmax");
}

TEST(Run, ReturnsAtOnceWhereThereIsNothingToWrite) {
  Problem problem = softmax_problem();
  problem["x"] = Tensor::dense(DType::kF16, {0, 8});
  runs = 0;
  run(Plain{}.row(), AnyCall(problem), {});
  EXPECT_EQ(runs, 0);
}

TEST(Run, RefusesAnotherOperationsRung) {
  Problem problem = softmax_problem();
  problem.tensor(0).data = memory;
  problem.tensor(1) = with_data(Tensor::dense(DType::kF16, {4, 8}), 1024);
  Plain plain;
  plain.implementation.operation = "gemm";
  try {
    run(plain.row(), AnyCall(problem), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "computes gemm, not softmax");
  }
}

TEST(Run, AddsRungAndProblemToErrors) {
  Problem problem = softmax_problem();
  Plain plain;
  plain.rung.name = "broken";
  EXPECT_THAT(error_of([&] { run(plain.row(), AnyCall(problem), {}); }), HasSubstr("has no data"));
  problem.tensor(0).data = memory;
  problem.tensor(1) = with_data(Tensor::dense(DType::kF16, {4, 8}), 1024);
  failure = "it broke";
  try {
    run(plain.row(), AnyCall(problem), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "it broke");
    EXPECT_EQ(error.context().rung, "softmax/broken");
    EXPECT_EQ(error.context().problem, "softmax f16 [4, 8]");
    EXPECT_THAT(error.what(), HasSubstr("softmax/broken"));
  }
  failure.clear();
}

// ---- Tables -----------------------------------------------------------------------------------

TEST(Families, KeepTheRules) {
  for (const Family* family : families()) EXPECT_THAT(defects_of(*family), IsEmpty());
}

TEST(Families, BrokenRulesAreTold) {
  const Family& softmax = *resolve("softmax").family;
  Plain one;
  Plain two;
  two.rung.name = "second";
  const auto defects = [&] {
    const std::array<const Rung*, 2> rungs = {&one.row(), &two.row()};
    Family family = softmax;
    family.operations = softmax.operations.first(1);
    family.rungs = rungs;
    std::string text;
    for (const std::string& line : defects_of(family)) text += line + "\n";
    return text;
  };
  EXPECT_EQ(defects(), "");
  two.rung.name = "plain";
  EXPECT_THAT(defects(), HasSubstr("two rungs are called 'plain'"));
  for (const std::string_view name : {"Warp-row", "9rows", "row_", "_row", ""}) {
    two.rung.name = name;
    EXPECT_THAT(defects(), HasSubstr("not snake_case")) << name;
  }
  two.rung.name = "second";
  two.rung.idea = "two\nlines";
  EXPECT_THAT(defects(), HasSubstr("idea: one line"));
  two.rung.idea = "none";
  two.rung.from = "third";
  EXPECT_THAT(defects(), HasSubstr("grew from 'third', which does not stand before it"));
  two.rung.from = "plain";
  EXPECT_EQ(defects(), "");
  two.rung.accumulate = DType::kF16;
  EXPECT_THAT(defects(), HasSubstr("adds up in f16, and its name does not say acc_f16"));
  EXPECT_THAT(defects(), HasSubstr("adds up in f16, for which softmax has no tolerance"));
  two.rung.accumulate = DType::kF32;
  two.implementation.dtypes = {};
  EXPECT_THAT(defects(), HasSubstr("takes no dtype of softmax"));
  two.implementation.dtypes = kFloats;
  const Seed nameless{""};
  two.rung.seeds = {&nameless, 1};
  EXPECT_THAT(defects(), HasSubstr("a seed without a name"));
  two.rung.seeds = {};
  one.rung.from = "plain";
  EXPECT_THAT(defects(), HasSubstr("the first of the ladder grew from another"));
}

// What is wrong with a family of softmax alone and one rung, the operation changed by `change`.
template <class Change>
std::vector<std::string> defects_after(const Change& change) {
  Plain plain;
  const Rung* const rung = &plain.row();
  Family family = *resolve("softmax").family;
  family.rungs = {&rung, 1};
  Operation operation = family.operations.front();
  change(operation);
  family.operations = {&operation, 1};
  return defects_of(family);
}

TEST(Families, BrokenRulesOfAttributesAreTold) {
  using Kind = Value::Kind;
  static std::vector<Attribute> attributes;
  const auto defects = [] {
    return defects_after([](Operation& operation) { operation.attributes = attributes; });
  };
  const auto defects_of_one = [&](const Attribute& attribute) {
    attributes = {attribute};
    return defects();
  };
  attributes.assign(2, {.name = "Scale", .kind = Kind::kBool, .doc = ""});
  EXPECT_THAT(defects(), Contains(HasSubstr("attribute 'Scale' is not snake_case")));
  EXPECT_THAT(defects(), Contains(HasSubstr("two attributes are called 'Scale'")));
  attributes.resize(kMaxAttributes);
  EXPECT_THAT(defects(), Not(Contains(HasSubstr("at most 16"))));
  attributes.resize(kMaxAttributes + 1);
  EXPECT_THAT(defects(), Contains(HasSubstr("has 17 attributes; at most 16")));
  static constexpr std::array<std::string_view, 1> kChoices = {"one"};
  const auto has_choices = Contains(HasSubstr("has choices where it is a choice"));
  EXPECT_THAT(defects_of_one({.name = "a", .kind = Kind::kChoice, .doc = ""}), has_choices);
  EXPECT_THAT(defects_of_one({.name = "a", .kind = Kind::kInt, .choices = kChoices, .doc = ""}),
              has_choices);
  EXPECT_THAT(defects_of_one({.name = "a", .kind = Kind::kInt, .standard = 1.5, .doc = ""}),
              Contains(HasSubstr("the default: attribute 'a' is an integer, not 1.5")));
  EXPECT_THAT(defects_of_one({.name = "a", .kind = Kind::kFloat, .standard = 1, .doc = ""}),
              Contains(HasSubstr("the default of 'a' is of another kind")));
}

TEST(Families, BrokenRulesOfParametersAreTold) {
  static std::vector<Parameter> parameters;
  const auto defects = [](std::vector<Parameter> all) {
    parameters = std::move(all);
    return defects_after([](Operation& operation) { operation.parameters = parameters; });
  };
  using Role = Parameter::Role;
  const Parameter in{.name = "x", .doc = ""};
  const Parameter optional{.name = "bias", .optional = true, .doc = ""};
  const Parameter inout{.name = "sum", .role = Role::kInOut, .doc = ""};
  const Parameter out{.name = "y", .role = Role::kOut, .doc = ""};
  EXPECT_THAT(defects({in, optional, inout, out}), IsEmpty());
  EXPECT_THAT(defects({}), Contains(HasSubstr("has 0 tensors; from 1 to 16")));
  EXPECT_THAT(defects(std::vector(17, in)), Contains(HasSubstr("has 17 tensors; from 1 to 16")));
  EXPECT_THAT(defects(std::vector(16, in)), Not(Contains(HasSubstr("from 1 to 16"))));
  EXPECT_THAT(defects({in, in, out}), ElementsAre(HasSubstr("two tensors are called 'x'")));
  const auto first = ElementsAre(HasSubstr("the first tensor is one that a call always has"));
  EXPECT_THAT(defects({optional, out}), first);
  EXPECT_THAT(defects({out}), first);
  EXPECT_THAT(defects({in}), ElementsAre(HasSubstr("writes nothing")));
  EXPECT_THAT(defects({in, out, inout}), ElementsAre(HasSubstr("stand before outputs")));
  EXPECT_THAT(defects({in, {.name = "Y", .role = Role::kOut, .doc = ""}}),
              ElementsAre(HasSubstr("tensor 'Y' is not snake_case")));
  EXPECT_THAT(defects({in, {.name = "y", .role = Role::kInOut, .optional = true, .doc = ""}}),
              ElementsAre(HasSubstr("in-out tensor 'y' is optional")));
}

TEST(Families, BrokenRulesOfOperationsAreTold) {
  EXPECT_THAT(defects_after([](Operation&) {}), IsEmpty());
  const auto lines = ElementsAre(HasSubstr("summary, formula: one line"));
  EXPECT_THAT(defects_after([](Operation& operation) { operation.summary = "two\nlines"; }), lines);
  EXPECT_THAT(defects_after([](Operation& operation) { operation.formula = ""; }), lines);
  EXPECT_THAT(defects_after([](Operation& operation) { operation.dtypes = {}; }),
              ElementsAre(HasSubstr("takes no dtype")));
  EXPECT_THAT(defects_after([](Operation& operation) { operation.name = "Softmax"; }),
              AllOf(Contains("Softmax: the name is not snake_case"),
                    Contains("Softmax: no rung computes it"),
                    Contains(HasSubstr("computes softmax, which the family does not have"))));
  static std::vector<std::string_view> extents;
  const auto with_extents = [](size_t count) {
    extents.assign(count, "n");
    return defects_after([](Operation& operation) { operation.extent_names = extents; });
  };
  EXPECT_THAT(with_extents(0), ElementsAre(HasSubstr("has 0 extents; from 1 to 8")));
  EXPECT_THAT(with_extents(8), IsEmpty());
  EXPECT_THAT(with_extents(9), ElementsAre(HasSubstr("has 9 extents; from 1 to 8")));
  static Cases cases;
  const Cases all = operation_named("softmax").cases();
  for (std::span<const Case> Cases::* list : {&Cases::smoke, &Cases::verify, &Cases::bench}) {
    cases = all;
    cases.*list = {};
    EXPECT_THAT(defects_after([](Operation& op) { op.cases = [] { return cases; }; }),
                ElementsAre(HasSubstr("cases are missing")));
  }
}

TEST(Families, BrokenRulesOfTheFamilyAreTold) {
  const Family& softmax = *resolve("softmax").family;
  Family family = softmax;
  family.summary = "two\nlines";
  EXPECT_THAT(defects_of(family), ElementsAre("softmax: name and summary"));
  family = softmax;
  family.name = "Softmax";
  EXPECT_THAT(defects_of(family), Contains("Softmax: name and summary"));
  family = softmax;
  family.operations = {};
  EXPECT_THAT(defects_of(family), Contains("softmax: operations and rungs"));
  family = softmax;
  family.rungs = {};
  EXPECT_THAT(defects_of(family), Contains("softmax: operations and rungs"));
  const std::array twice = {softmax.operations.front(), softmax.operations.front()};
  family = softmax;
  family.operations = twice;
  EXPECT_THAT(defects_of(family), Contains("softmax: two operations are called 'softmax'"));
}

// f(operation, case, dtype) for every case of every list.
template <class F>
void for_each_case(const F& f) {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      const Cases cases = operation.cases();
      for (const std::span<const Case> list : {cases.smoke, cases.verify, cases.bench}) {
        for (const Case& chosen : list) {
          for (const DType dtype : kAllDTypes) {
            if (operation.dtypes.has(dtype)) f(operation, chosen, dtype);
          }
        }
      }
    }
  }
}

// In each family some rung takes every valid problem, and best() finds it.
TEST(Families, TakeEveryProblemOfTheirLists) {
  for_each_case([](const Operation& operation, const Case& chosen, DType dtype) {
    const AnyCall call(make_problem(operation, chosen, dtype));
    for (const int capability : {80, 90, 100}) {
      const Rung& rung = best(call, capability);
      EXPECT_THAT(why_not(rung, call, capability), IsEmpty())
          << rung.name << " was chosen for " << call.problem().describe();
      EXPECT_EQ(rung.accumulate, DType::kF32) << rung.name;
    }
  });
}

TEST(Families, ItemsDivideEveryOutputOfTheirLists) {
  for_each_case([](const Operation& operation, const Case& chosen, DType dtype) {
    const AnyCall call(make_problem(operation, chosen, dtype));
    for (size_t i = 0; i < operation.parameters.size(); ++i) {
      const int64_t elements = call.problem().tensors[i].elements();
      if (!operation.parameters[i].is_written() || elements == 0) continue;
      const int64_t items = operation.items(call.problem(), operation.parameters[i]);
      EXPECT_TRUE(items > 0 && elements % items == 0)
          << operation.parameters[i].name << " of " << call.problem().describe();
    }
    const Cost cost = operation.cost(call.problem());
    EXPECT_TRUE(std::isfinite(cost.bytes) && std::isfinite(cost.flops));
  });
}

}  // namespace
}  // namespace ws
