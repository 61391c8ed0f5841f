// The peer "cublasLt": the vendor's library, loaded when it is first asked for.
#include "catalogue/peers/library.hpp"
#include "kernels/gemm/operations.hpp"
#include "warpsmith/runtime.hpp"

#if !defined(WS_EMULATED) && __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>
#define WS_HAS_CUBLASLT
#endif

namespace ws::gemm {
namespace {

#ifdef WS_HAS_CUBLASLT
using peers::Library;
#endif
using peers::LibraryStatus;

#ifndef WS_HAS_CUBLASLT

constexpr std::string_view kWhy = runtime::kEmulated
                                      ? "needs a GPU: this is the emulated build"
                                      : "was not built: the toolkit had no cublasLt.h";

LibraryStatus cublaslt_status() { return {"cuBLASLt", false, std::string(kWhy)}; }
Reason cublaslt_supports(const Problem& /*problem*/) { return std::string(kWhy); }
size_t cublaslt_workspace(const Problem& /*problem*/) { return 0; }
void cublaslt_run(const Problem& /*problem*/, const Context& /*context*/) {
  throw Error(std::string(kWhy));
}
int cublaslt_variants(const Problem& /*problem*/) { return 1; }
void cublaslt_run_variant(const Problem& problem, const Context& context, int /*variant*/) {
  cublaslt_run(problem, context);
}
Reason cublaslt_supports_batch(const Problem& problem) { return cublaslt_supports(problem); }
size_t cublaslt_workspace_batch(const Problem& problem) { return cublaslt_workspace(problem); }
void cublaslt_run_batch(const Problem& problem, const Context& context) {
  cublaslt_run(problem, context);
}
int cublaslt_variants_batch(const Problem& problem) { return cublaslt_variants(problem); }
void cublaslt_run_variant_batch(const Problem& problem, const Context& context, int variant) {
  cublaslt_run_variant(problem, context, variant);
}

#else

constexpr size_t kWorkspace = size_t{32} << 20;  // what the vendor advises for Hopper
constexpr int kHeuristics = 8;                   // algorithms that its heuristic is asked for

struct Functions {
  Library library{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;

  Functions() {
    if (!library.found()) return;
    const auto load = [&](auto& target, const char* name) {
      target =
          library.function<std::remove_pointer_t<std::remove_reference_t<decltype(target)>>>(name);
    };
    load(create, "cublasLtCreate");
    load(version, "cublasLtGetVersion");
    load(matmul, "cublasLtMatmul");
    load(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    load(desc_create, "cublasLtMatmulDescCreate");
    load(desc_destroy, "cublasLtMatmulDescDestroy");
    load(desc_set, "cublasLtMatmulDescSetAttribute");
    load(layout_create, "cublasLtMatrixLayoutCreate");
    load(layout_destroy, "cublasLtMatrixLayoutDestroy");
    load(layout_set, "cublasLtMatrixLayoutSetAttribute");
    load(preference_create, "cublasLtMatmulPreferenceCreate");
    load(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    load(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  }
};

const Functions& functions() {
  static const Functions kFunctions;
  return kFunctions;
}

void check_status(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(concatenate(what, " failed with cublasStatus_t ", static_cast<int>(status)));
  }
}

cublasLtHandle_t handle() {
  // One per device, for the life of the process.
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  int device = 0;
  ws::detail::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& mine = handles[device];
  if (mine == nullptr) check_status(functions().create(&mine), "cublasLtCreate");
  return mine;
}

// What a plan depends on. cuBLAS counts in columns, so it computes C^T = op(B)^T op(A)^T.
struct Key {
  DType dtype;
  Gemm::Layout layout;
  bool tf32 = false;
  int64_t m, n, k;
  std::array<int64_t, 3> leading;
  std::array<uint32_t, 3> alignment;
  DType out_dtype;
  int64_t products = 1;
  std::array<int64_t, 3> batch{};  // strides from product to product
  auto operator<=>(const Key&) const = default;
};

uint32_t pointer_alignment(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | 256;
  return static_cast<uint32_t>(address & -address);
}

Key key_of(const Problem& problem) {
  Key key{};
  key.dtype = key.out_dtype = problem.tensor(0).dtype;
  key.layout = problem.choice<Gemm::Layout>("layout");
  key.tf32 = Gemm::call(problem).tf32;
  key.m = problem.tensor(2).shape[0];
  key.n = problem.tensor(2).shape[1];
  key.k = problem.tensor(0).extent(Gemm::is_a_transposed(key.layout) ? 0 : 1);
  for (int i = 0; i < 3; ++i) {
    const Tensor& t = problem.tensor(i);
    // A single row has no next one; torch leaves any number there.
    key.leading[static_cast<size_t>(i)] = t.shape[0] > 1 ? t.strides[0] : t.shape[1];
    key.alignment[static_cast<size_t>(i)] = pointer_alignment(t.data);
  }
  return key;
}

// Of a batch, as the rungs see it: C row by row, A and B in either direction.
Key key_of(const Bmm::Call& call) {
  const bool a_transposed = call.a.contiguous == Contiguous::kRows;
  const bool b_transposed = call.b.contiguous == Contiguous::kRows;
  Key key{};
  key.dtype = call.dtype;
  key.out_dtype = call.out_dtype;
  key.tf32 = call.tf32;
  key.layout = a_transposed ? (b_transposed ? Gemm::Layout::kTt : Gemm::Layout::kTn)
                            : (b_transposed ? Gemm::Layout::kNt : Gemm::Layout::kNn);
  key.m = call.m;
  key.n = call.n;
  key.k = call.k;
  key.products = call.batch;
  const std::array<const Matrix*, 3> matrices = {&call.a, &call.b, &call.c};
  for (size_t i = 0; i < 3; ++i) {
    const Matrix& matrix = *matrices[i];
    key.leading[i] = matrix.runs > 1 ? matrix.leading : matrix.length;
    key.alignment[i] = pointer_alignment(matrix.data);
    key.batch[i] = matrix.batch;
  }
  return key;
}

struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> layouts{};
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms;  // the heuristic's first choice first
  size_t workspace = 0;                                     // enough for each
  std::string missing;                                      // why there is none

  explicit Plan(const Key& key) {
    const Functions& f = functions();
    const auto type_of = [](DType dtype) {
      return dtype == DType::kF32 ? CUDA_R_32F : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
    };
    // In f32 this multiplies in f32, on the CUDA cores: TF32 is a compute type of its own.
    const cublasComputeType_t compute =
        key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_status(f.desc_create(&operation, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
      const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      check_status(f.desc_set(operation, attribute, &value, sizeof(value)),
                   "cublasLtMatmulDescSetAttribute");
    };
    const bool a_transposed = Gemm::is_a_transposed(key.layout);
    const bool b_transposed = Gemm::is_b_transposed(key.layout);
    set(CUBLASLT_MATMUL_DESC_TRANSA, b_transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, a_transposed);
    const auto layout = [&](size_t i, int64_t rows, int64_t columns) {
      const cudaDataType_t type = type_of(i == 2 ? key.out_dtype : key.dtype);
      check_status(f.layout_create(&layouts[i], type, static_cast<uint64_t>(columns),
                                   static_cast<uint64_t>(rows), key.leading[i]),
                   "cublasLtMatrixLayoutCreate");
    };
    layout(0, a_transposed ? key.k : key.m, a_transposed ? key.m : key.k);
    layout(1, b_transposed ? key.n : key.k, b_transposed ? key.k : key.n);
    layout(2, key.m, key.n);
    for (size_t i = 0; i < 3 && key.products != 1; ++i) {
      const auto set_batch = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
        check_status(f.layout_set(layouts[i], attribute, &value, sizeof(value)),
                     "cublasLtMatrixLayoutSetAttribute");
      };
      set_batch(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(key.products));
      set_batch(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, key.batch[i]);
    }

    cublasLtMatmulPreference_t preference = nullptr;
    check_status(f.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check_status(f.preference_set(preference, attribute, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment[1]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment[0]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment[2]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment[2]);
    algorithms.resize(kHeuristics);
    int found = 0;
    const cublasStatus_t status =
        f.heuristic(handle(), operation, layouts[1], layouts[0], layouts[2], layouts[2], preference,
                    kHeuristics, algorithms.data(), &found);
    f.preference_destroy(preference);
    algorithms.resize(static_cast<size_t>(found));
    std::erase_if(algorithms, [](const cublasLtMatmulHeuristicResult_t& result) {
      return result.state != CUBLAS_STATUS_SUCCESS;
    });
    if (status != CUBLAS_STATUS_SUCCESS || algorithms.empty()) {
      missing = concatenate("its heuristic has no algorithm (cublasStatus_t ",
                            static_cast<int>(status), ")");
      return;
    }
    for (const cublasLtMatmulHeuristicResult_t& result : algorithms) {
      workspace = std::max(workspace, result.workspaceSize);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : layouts) {
      if (layout != nullptr) functions().layout_destroy(layout);
    }
    if (operation != nullptr) functions().desc_destroy(operation);
  }
};

const Plan& plan_of(const Key& key) {
  static thread_local std::map<Key, std::unique_ptr<Plan>> plans;
  std::unique_ptr<Plan>& plan = plans[key];
  if (plan == nullptr) plan = std::make_unique<Plan>(key);
  return *plan;
}

LibraryStatus cublaslt_status() {
  const Library& library = functions().library;
  if (!library.found()) return {"cuBLASLt", false, library.missing()};
  return {"cuBLASLt", true, concatenate(library.path(), ", version ", functions().version())};
}

Reason cublaslt_supports(const Problem& problem) {
  if (!functions().library.found()) return functions().library.missing();
  if (!kFloats.has(problem.tensor(0).dtype)) {
    return concatenate("takes f32, f16 and bf16, not ", to_string(problem.tensor(0).dtype));
  }
  const Key key = key_of(problem);
  if (key.k == 0) return "K is 0";
  for (int i = 0; i < 3; ++i) {
    const Tensor& t = problem.tensor(i);
    if (t.shape[1] > 1 && t.strides[1] != 1) {
      return concatenate("takes contiguous rows, not ", t.describe());
    }
  }
  return plan_of(key).missing;
}

size_t cublaslt_workspace(const Problem& problem) { return plan_of(key_of(problem)).workspace; }

void run_plan(const Plan& plan, int variant, const void* a, const void* b, void* c,
              const Context& context) {
  const float one = 1;
  const float zero = 0;
  const cublasLtMatmulHeuristicResult_t& chosen = plan.algorithms[static_cast<size_t>(variant)];
  check_status(
      functions().matmul(handle(), plan.operation, &one, b, plan.layouts[1], a, plan.layouts[0],
                         &zero, c, plan.layouts[2], c, plan.layouts[2], &chosen.algo,
                         context.workspace, chosen.workspaceSize, context.stream),
      "cublasLtMatmul");
}

int cublaslt_variants(const Problem& problem) {
  return static_cast<int>(plan_of(key_of(problem)).algorithms.size());
}

void cublaslt_run_variant(const Problem& problem, const Context& context, int variant) {
  run_plan(plan_of(key_of(problem)), variant, problem.tensor(0).data, problem.tensor(1).data,
           problem.tensor(2).data, context);
}

void cublaslt_run(const Problem& problem, const Context& context) {
  cublaslt_run_variant(problem, context, 0);
}

Reason cublaslt_supports_batch(const Problem& problem) {
  if (!functions().library.found()) return functions().library.missing();
  const Bmm::Call call = Bmm::call(problem);
  if (call.k == 0) return "K is 0";
  if (call.batch > std::numeric_limits<int32_t>::max()) return "the batch is over 2^31 - 1";
  for (const Matrix* matrix : {&call.a, &call.b, &call.c}) {
    if (matrix->contiguous == Contiguous::kNeither) return "takes a stride of 1 in each matrix";
    if (matrix->runs > 1 && matrix->leading < matrix->length) return "rows overlap";
  }
  return plan_of(key_of(call)).missing;
}

size_t cublaslt_workspace_batch(const Problem& problem) {
  return plan_of(key_of(Bmm::call(problem))).workspace;
}

int cublaslt_variants_batch(const Problem& problem) {
  return static_cast<int>(plan_of(key_of(Bmm::call(problem))).algorithms.size());
}

void cublaslt_run_variant_batch(const Problem& problem, const Context& context, int variant) {
  const Bmm::Call call = Bmm::call(problem);
  run_plan(plan_of(key_of(call)), variant, call.a.data, call.b.data, call.c.data, context);
}

void cublaslt_run_batch(const Problem& problem, const Context& context) {
  cublaslt_run_variant_batch(problem, context, 0);
}

#endif

const peers::LibraryReport kReport(cublaslt_status);

constexpr Seed kSeeds[] = {
    {.name = "hgemm_mma_cublas", .dtypes = {DType::kF16}},
    {.name = "hgemm_cublas_tensor_op_nn", .dtypes = {DType::kF16}, .attributes = "layout=nn"},
    {.name = "hgemm_cublas_tensor_op_tn", .dtypes = {DType::kF16}, .attributes = "layout=nt"},
    {.name = "sgemm_cublas", .dtypes = {DType::kF32}, .attributes = "precision=ieee"},
    {.name = "sgemm_cublas_tf32", .dtypes = {DType::kF32}, .attributes = "precision=tf32"},
};
// A call takes the heuristic's first algorithm, as in torch; a bench the fastest of the first few.
// A plan is made once per shape, alignment and thread.
constexpr Peer kPeers[] = {{.name = "cublasLt",
                            .supports = cublaslt_supports,
                            .workspace = cublaslt_workspace,
                            .run = cublaslt_run,
                            .variants = cublaslt_variants,
                            .run_variant = cublaslt_run_variant,
                            .seeds = kSeeds}};
constexpr Peer kBatchedPeers[] = {{.name = "cublasLt",
                                   .supports = cublaslt_supports_batch,
                                   .workspace = cublaslt_workspace_batch,
                                   .run = cublaslt_run_batch,
                                   .variants = cublaslt_variants_batch,
                                   .run_variant = cublaslt_run_variant_batch}};

}  // namespace

std::span<const Peer> Gemm::peers() { return kPeers; }
std::span<const Peer> Bmm::peers() { return kBatchedPeers; }

}  // namespace ws::gemm
