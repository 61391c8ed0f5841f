// The table of the elementwise family: operations, rungs, and what picks one.
#include "kernels/elementwise/01_scalar.cuh"
#include "kernels/elementwise/02_vector.cuh"
#include "kernels/elementwise/03_compact_front.cuh"
#include "kernels/elementwise/peers.hpp"
#include "kernels/elementwise/problem.hpp"

namespace ws::elementwise {
namespace {

// ---- Operations -------------------------------------------------------------------------------

constexpr Parameter kOne[] = {
    {"x", false, "any shape of rank 0 to 6, f32, f16 or bf16, any strides"},
    {"y", true, "shape and dtype of x"},
};
constexpr Parameter kTwo[] = {
    {"a", false, "any shape of rank 0 to 6, f32, f16 or bf16, any strides"},
    {"b", false, "dtype of a; broadcast against a"},
    {"y", true, "the broadcast shape, dtype of a"},
};

constexpr Attribute kAlpha[] = {
    {"alpha", Attribute::Kind::kFloat, 1.0, {}, "what x = -infinity gives, negated; any number"},
};
constexpr std::string_view kApproximations[] = {"none", "tanh"};
constexpr Attribute kApproximate[] = {
    {"approximate", Attribute::Kind::kChoice, 0, kApproximations,
     "none: the normal distribution itself; tanh: the paper's approximation of it"},
};
constexpr Attribute kLambd[] = {
    {"lambd", Attribute::Kind::kFloat, 0.5, {}, "largest magnitude that becomes 0"},
};

struct Description {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::string_view formula;
  std::string_view torch;
  std::string_view seed_prefix = {};
  std::span<const Attribute> attributes = {};
  std::span<const Case> verify = kVerify;
  std::span<const Case> smoke = kSmoke;
  std::span<const Case> bench = kBench;
};

template <class Formula>
constexpr Operation operation(const Description& text) {
  Operation op{};
  op.name = text.name;
  op.summary = text.summary;
  op.source = text.source;
  op.formula = text.formula;
  op.parameters = Formula::kInputs == 1 ? std::span<const Parameter>(kOne) : kTwo;
  op.attributes = text.attributes;
  op.extent_names = kExtentNames;
  op.optional_extents = 1;
  op.dtypes = kFloats;
  op.seed_prefix = text.seed_prefix;
  op.torch = text.torch;
  op.infer = infer<Formula>;
  op.make = make<Formula>;
  op.cost = cost<Formula>;
  op.tolerance = tolerance<Formula>;
  op.items = items;
  op.reference = reference<Formula>;
  op.fill = Formula::kInputs == 1 ? fill_with_corners : nullptr;
  op.smoke = text.smoke;
  op.verify = text.verify;
  op.bench = text.bench;
  op.peers = kPeers;
  return op;
}

constexpr std::array kOperations = {
    operation<AddFormula>({.name = "add",
                           .summary = "Sum of two tensors",
                           .source = "torch.add",
                           .formula = "y[i] = a[i] + b[i]",
                           .torch = "torch.add(a, b)",
                           .seed_prefix = "elementwise",
                           .verify = kVerifyBinary}),
    operation<MulFormula>({.name = "mul",
                           .summary = "Product of two tensors, element by element",
                           .source = "torch.mul",
                           .formula = "y[i] = a[i] * b[i]",
                           .torch = "torch.mul(a, b)",
                           .verify = kVerifyBinary}),
    operation<ReluFormula>({.name = "relu",
                            .summary = "Rectified linear unit",
                            .source = "Nair and Hinton, ICML 2010",
                            .formula = "y[i] = max(x[i], 0)",
                            .torch = "torch.relu(x)",
                            .seed_prefix = "relu"}),
    operation<EluFormula>({.name = "elu",
                           .summary = "Exponential linear unit",
                           .source = "Clevert et al., arXiv:1511.07289",
                           .formula = "y[i] = x[i] > 0 ? x[i] : alpha * (exp(x[i]) - 1)",
                           .torch = "torch.nn.functional.elu(x, alpha)",
                           .seed_prefix = "elu",
                           .attributes = kAlpha,
                           .verify = kVerifyElu}),
    operation<GeluFormula>({.name = "gelu",
                            .summary = "Gaussian error linear unit",
                            .source = "Hendrycks and Gimpel, arXiv:1606.08415",
                            .formula = "y[i] = x[i] / 2 * (1 + erf(x[i] / sqrt(2))), or "
                                       "x[i] / 2 * (1 + tanh(sqrt(2 / pi) * "
                                       "(x[i] + 0.044715 * x[i]^3)))",
                            .torch = "torch.nn.functional.gelu(x, approximate=approximate)",
                            .seed_prefix = "gelu",
                            .attributes = kApproximate,
                            .verify = kVerifyGelu,
                            .smoke = kSmokeGelu,
                            .bench = kBenchGelu}),
    operation<SwishFormula>({.name = "swish",
                             .summary = "x * sigmoid(x), also called SiLU",
                             .source = "Ramachandran et al., arXiv:1710.05941",
                             .formula = "y[i] = x[i] / (1 + exp(-x[i]))",
                             .torch = "torch.nn.functional.silu(x)",
                             .seed_prefix = "swish"}),
    operation<HardswishFormula>({.name = "hardswish",
                                 .summary = "Swish with straight lines for the sigmoid",
                                 .source = "Howard et al., arXiv:1905.02244",
                                 .formula = "y[i] = x[i] * min(max(x[i] + 3, 0), 6) / 6",
                                 .torch = "torch.nn.functional.hardswish(x)",
                                 .seed_prefix = "hardswish"}),
    operation<HardshrinkFormula>({.name = "hardshrink",
                                  .summary = "Zero where the magnitude is at most lambd",
                                  .source = "torch.nn.functional.hardshrink",
                                  .formula = "y[i] = |x[i]| <= lambd ? 0 : x[i]",
                                  .torch = "torch.nn.functional.hardshrink(x, lambd)",
                                  .seed_prefix = "hardshrink",
                                  .attributes = kLambd,
                                  .verify = kVerifyHardshrink}),
    operation<SigmoidFormula>({.name = "sigmoid",
                               .summary = "Logistic function",
                               .source = "torch.sigmoid",
                               .formula = "y[i] = 1 / (1 + exp(-x[i]))",
                               .torch = "torch.sigmoid(x)",
                               .seed_prefix = "sigmoid"}),
};
static_assert(well_formed(std::span<const Operation>(kOperations)));

// ---- Rungs ------------------------------------------------------------------------------------

constexpr DTypes kF32 = {DType::kF32};
constexpr DTypes kF16 = {DType::kF16};

constexpr Seed kScalarSeeds[] = {
    {"{}_f32", {}, kF32},
    {"{}_f16", {}, kF16},
    {"elementwise_mul_naive_f32", "mul", kF32},
    {"elementwise_mul_naive_f16", "mul", kF16},
};
constexpr Seed kX2Seeds[] = {{"{}_f16x2", {}, kF16}};
constexpr Seed kX4Seeds[] = {{"{}_f32x4", {}, kF32}};
constexpr Seed kX8Seeds[] = {{"{}_f16x8", {}, kF16}};
constexpr Seed kPackSeeds[] = {
    {"{}_f16x8_pack", {}, kF16},
    {"elementwise_template_mul_pack_f32", "mul", kF32},
    {"elementwise_template_mul_pack_f16", "mul", kF16},
};

constexpr Rung vector_rung(std::string_view name, std::string_view idea,
                           void (*run)(const Problem&, const Context&),
                           Reason (*supports)(const Problem&), std::span<const Seed> seeds) {
  Rung rung{};
  rung.name = name;
  rung.idea = idea;
  rung.dtypes = kFloats;
  rung.run = run;
  rung.supports = supports;
  rung.seeds = seeds;
  rung.file = "02_vector.cuh";
  return rung;
}

constexpr Rung kRungs[] = {
    {.name = "scalar",
     .idea = "a thread an element; any strides",
     .dtypes = kFloats,
     .run = run_scalar,
     .seeds = kScalarSeeds},
    vector_rung("vector_x2", "two elements a thread, one access", run_vector<VectorX2>,
                supports_vector<VectorX2>, kX2Seeds),
    vector_rung("vector_x4", "four elements a thread, one access", run_vector<VectorX4>,
                supports_vector<VectorX4>, kX4Seeds),
    vector_rung("vector_x8", "eight elements a thread, two accesses", run_vector<VectorX8>,
                supports_vector<VectorX8>, kX8Seeds),
    vector_rung("pack", "16 bytes a thread, one access, whatever the dtype", run_vector<Pack>,
                supports_vector<Pack>, kPackSeeds),
    {.name = "compact_front",
     .idea = "small one-shot blocks, so that addresses reach the memory in order",
     .dtypes = kFloats,
     .run = run_front<Front<128, 2>, Front<256, 1>>,
     .supports = needs_flat},
};
static_assert(well_formed(std::span<const Rung>(kRungs)));

}  // namespace

extern const Family kFamily;
const Family kFamily = {
    .name = "elementwise",
    .summary = "One result from one element of each input: the memory's speed is the limit",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::elementwise
