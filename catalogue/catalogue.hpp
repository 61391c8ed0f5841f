// The catalogue: what the families register, and all that CLI, tests, bench, Python and docs know.
//
// A family has operations (what a user calls: softmax, log_softmax) and rungs (how it is computed:
// warp_per_row). An operation is a struct, whose row operation_of() makes; a rung's row stands at
// the end of its file (catalogue/row.hpp has both). `<family>.cu` lists them, `families.cpp` lists
// families.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "catalogue/problem.hpp"
#include "warpsmith/arch.hpp"
#include "warpsmith/launch.hpp"

namespace ws {

// ---- Operations -------------------------------------------------------------------------------

// A tensor of an operation. Inputs and in-out tensors stand before outputs.
struct Parameter {
  enum class Role : uint8_t {
    kIn,
    kOut,
    kInOut,  // read and written: the caller's own memory, Tensor(a!) in torch's schemas
  };
  std::string_view name;  // as in Python
  Role role = Role::kIn;
  // An input that may be left out; an output that infer() may leave out, as the attributes say.
  bool optional = false;
  // A stretch of memory in which other tensors of the call may lie: a call touches only those parts
  // of it that another tensor, a table, tells.
  bool holds_others = false;
  // What it has of the batch of an operation of rows.
  enum class Rows : uint8_t {
    kLeading,    // its first dimensions are the batch: rows, or a number of each
    kBroadcast,  // the same, what is missing or 1 being repeated: a mask
    kShared,     // nothing: a weight of all rows, an output that adds them up
  };
  Rows rows = Rows::kLeading;
  std::string_view doc;  // shape and dtype
  // Of an output, as Python expressions over the names of tensors and attributes, for who needs
  // them before or without data: torch.compile's symbolic shapes, the quick path's allocation. An
  // empty shape is that of the first tensor, an empty dtype its dtype. None where it is left out.
  std::string_view shape = {};
  std::string_view torch_dtype = {};

  constexpr bool is_read() const { return role != Role::kOut; }
  constexpr bool is_written() const { return role != Role::kIn; }
};

// What of a tensor is a batch: calls of a part each that know nothing of each other. torch.vmap
// makes one call of many by it, and DTensor spreads one over devices.
enum class Batch : uint8_t {
  kNone,      // nothing that would be told
  kElements,  // all dimensions, which are any: element by element, what is smaller is repeated
  kRows,      // those before the last, or, where there is an attribute `dim`, all that it leaves
};

// A problem to verify or time, before its dtype is chosen.
struct Case {
  std::array<int64_t, kMaxExtents> extents{};  // what they mean is Operation::extent_names
  int offset = 0;       // every pointer this many elements past a 256-byte boundary
  int64_t padding = 0;  // elements between rows that the tensors do not own
  std::array<Value, kMaxAttributes> attributes{};  // unset: the attribute's default
  DTypes dtypes = {};  // that it differs for from another of the list; empty: all

  bool is_of(DType dtype) const { return dtypes.empty() || dtypes.has(dtype); }
  bool operator==(const Case&) const = default;
};

// The lists of an operation.
struct Cases {
  std::span<const Case> smoke;   // tiny: every rung in the emulator in under a second
  std::span<const Case> verify;  // straddling every boundary
  std::span<const Case> bench;
};

// What a call must at least do: every input byte read once, every output byte written once.
struct Cost {
  double bytes = 0;
  double flops = 0;
  bool at_most = false;  // an upper bound: the true figure depends on data
};

// How far an output may be from the reference. Both zero: equality, bit by bit.
struct Tolerance {
  double relative = 0;  // of ||out - ref|| / ||ref||
  double worst = 0;     // of |out - ref| / (|ref| + floor), for every element
  double floor = 0;     // in units of the output
};

// An output falls into independent items (rows, elements) that the reference computes one by one,
// so that a large problem can be checked on a sample and a small one on all cores.
struct Slice {
  int64_t first = 0;
  int64_t last = 0;  // exclusive
};

// Scratch memory of a call. The first `zeroed` bytes are zero before the call, and the call leaves
// them zero: counters and flags cost no memset.
struct Workspace {
  size_t bytes = 0;
  size_t zeroed = 0;
};

// Device and resources of one call.
struct Context {
  Stream stream = nullptr;
  void* workspace = nullptr;  // at least Workspace::bytes, 256-byte aligned
};

// Why something cannot be done; empty where it can.
using Reason = std::string;

// Collects why a rung does not take a call, where somebody asks; costs nothing where nobody does.
//   return why.unless(call.columns <= 1024, "holds rows of up to 1024 elements, not ",
//   call.columns)
//          && rows_supported(call, why);
class Why {
 public:
  Why() = default;  // nobody asks
  explicit Why(Reason* reason) : reason_(reason) {}

  // `condition`; where it does not hold, the parts are the reason. Tensors are described.
  template <class... Parts>
  bool unless(bool condition, const Parts&... parts) {
    if (!condition && reason_ != nullptr) [[unlikely]]
      *reason_ = concatenate(parts...);
    return condition;
  }

 private:
  Reason* reason_ = nullptr;
};

// A name of the public collections, and what it fixes beyond who answers to it.
struct Seed {
  std::string_view name;            // "softmax_f32x4"; {} stands for Operation::seed_prefix
  std::string_view operation = {};  // empty: every operation of the family
  DTypes dtypes = {};               // empty: all of the rung
  // What the name says of an attribute, "precision=tf32"; several by commas; empty: nothing.
  std::string_view attributes = {};
};

// What a user would pick instead, in C++: a vendor library, loaded when it is first asked for.
struct Peer {
  std::string_view name;                          // "cublasLt"
  Reason (*supports)(const Problem&);             // also says when the library is not there
  size_t (*workspace)(const Problem&) = nullptr;  // null: none
  void (*run)(const Problem&, const Context&);    // as it would choose itself
  // Of one that has several ways of computing a problem: how many, its own choice first, and a call
  // of one of them. A bench takes the fastest, so that nobody is compared with less than the best.
  int (*variants)(const Problem&) = nullptr;  // null: one
  void (*run_variant)(const Problem&, const Context&, int variant) = nullptr;
  std::span<const Seed> seeds{};
};

// The same from a Python package, as an expression over the operation's names: {"quack",
// "quack.softmax.softmax_fwd(x)"}; its first word is imported. "torch": timed as Operation::torch.
struct PythonPeer {
  std::string_view name;
  std::string_view expression;
};

// Made by operation_of<Struct>() of catalogue/row.hpp, which says what the struct has.
struct Operation {
  std::string_view name;                  // "log_softmax"
  std::string_view summary;               // one line
  std::string_view source;                // paper or document
  std::string_view formula;               // "y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))"
  std::span<const Parameter> parameters;  // inputs and in-out tensors first
  std::span<const Attribute> attributes;
  std::span<const std::string_view> extent_names;  // of Case::extents: {"rows", "columns"}
  int optional_extents = 0;      // trailing ones that `--shape` may leave out: 0 then
  DTypes dtypes;                 // of the first tensor
  std::string_view seed_prefix;  // replaces {} in Rung::seeds
  std::string_view torch;        // the same as a Python expression over its names
  // The gradient of each input, a Python tuple over the operation's names, those of its outputs,
  // `g` (of several g_NAME, or None), `ops` (torch.ops.warpsmith) and `needs`, a bool an input: of
  // a tuple that it writes out the rest is not computed. Empty: it has none.
  std::string_view gradient;
  std::span<const PythonPeer> python_peers;
  std::span<const Peer> (*peers)() = nullptr;  // of C++; null: none
  bool in_place = false;  // an output may be exactly an input: address, shape and strides
  Batch batch = Batch::kNone;

  // Fills `problem`'s outputs (dtype, shape, dense strides) from its inputs and attributes; throws
  // InvalidArgument that names the values. Outputs a caller brought are compared by AnyCall.
  void (*infer)(Problem& problem);
  // Lays out the inputs of a case, without data; padding as the case says. Operation and attributes
  // of `problem` are set. Outputs may be laid out too; those left out are dense.
  void (*make)(const Case& chosen, DType dtype, Problem& problem);
  Cases (*cases)();
  Cost (*cost)(const Problem& problem);  // works without data
  // The true figure, where that of `cost` is at most: of a problem whose inputs lie on the host.
  Cost (*cost_of_data)(const Problem& problem) = nullptr;
  Tolerance (*tolerance)(const Problem& problem, const Parameter& output);
  // The same for a rung that adds up in `accumulate`, narrower than f32; null: no rung may.
  Tolerance (*tolerance_in)(const Problem& problem, const Parameter& output,
                            DType accumulate) = nullptr;
  int64_t (*items)(const Problem& problem, const Parameter& output);
  // Double precision on the host. For each parameter that is written and has as many items as the
  // slice is of, expected[i] receives the slice's elements of tensor i, row-major; null for others.
  void (*reference)(const Problem& problem, Slice slice, std::span<double* const> expected);
  // Fills tensor `index` (host memory), which is read, from the seed.
  void (*fill)(const Problem& problem, int index, uint64_t seed);

  // The struct's own view of a checked problem, made once a call, in call_bytes at `place`.
  size_t call_bytes;
  void (*make_call)(const Problem& problem, void* place);
  // Rungs in the order in which the first that takes the call is the fastest; null: the family's
  // table from its end.
  std::span<const struct Rung* const> (*by_worth)(const void* call) = nullptr;

  int index_of(std::string_view parameter) const;  // -1: none
};

// ---- Calls ------------------------------------------------------------------------------------

// A checked problem and its operation's own Call, made once.
class AnyCall {
 public:
  // Checks parameters' shapes, dtypes and strides (infer), the outputs the caller brought, overlap
  // and attributes; fills in outputs and attributes that are left out. Throws InvalidArgument.
  explicit AnyCall(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const Operation& operation() const { return *problem_.operation; }
  DType dtype() const { return problem_.dtype(); }
  const void* typed() const { return call_; }
  // Another address for tensor i, as aligned as the old one.
  void move(int i, void* data) { problem_.tensor(i).data = data; }
  // After move().
  void remake() { problem_.operation->make_call(problem_, call_); }

  static constexpr size_t kMaxBytes = 1024;

 private:
  Problem problem_;
  alignas(16) std::byte call_[kMaxBytes];
};

// ---- Rungs ------------------------------------------------------------------------------------

// What a rung does for one operation; made by rung_of() of catalogue/row.hpp.
struct Implementation {
  std::string_view operation;
  DTypes dtypes;
  // Null where Rung::peer has them.
  bool (*supports)(const void* call, Why& why) = nullptr;
  Workspace (*workspace)(const void* call) = nullptr;
  void (*run)(const void* call, const Context& context) = nullptr;  // after supports() said yes
};

struct Rung {
  std::string_view name;       // = file NN_name.cuh or NN_name.cu
  std::string_view from = {};  // the rung it grew from; empty: the bottom of a ladder
  std::string_view idea;       // one line
  Arch arch = Arch::kSm80;
  bool deterministic = true;  // two runs give the same bits
  // What it adds up in where that is narrower than f32, as its name says (acc_f16). Such a rung is
  // held against Operation::tolerance_in, and runs only where somebody asks for it.
  DType accumulate = DType::kF32;
  bool may_spill = false;
  std::span<const Seed> seeds{};
  std::string_view file = {};  // the rung's file where several rows share one template
  bool gpu_only = false;       // built on what the emulator has no model of
  std::span<const Implementation> implementations{};  // by operation
  const Peer* peer = nullptr;                         // of peer_rungs(): who computes it

  const Implementation* of(const Operation& operation) const;  // null: computes something else
};

struct Family {
  std::string_view name;  // = folder under kernels/
  std::string_view summary;
  std::span<const Operation> operations;
  std::span<const Rung* const> rungs;  // in teaching order
};

// ---- The catalogue ----------------------------------------------------------------------------

std::span<const Family* const> families();  // families.cpp: the one list

// The peers of an operation in C++ as rows that stand in no ladder: whatever takes a rung by its
// name takes them so too, to verify and to time (gemm/cublasLt).
std::span<const Rung* const> peer_rungs(const Operation& operation);

// What is wrong with a family's tables by the house's rules, a line each; empty: nothing.
std::vector<std::string> defects_of(const Family& family);

// A rung, or a peer as one, an operation and what a seed name fixes beyond them.
struct Address {
  const Family* family = nullptr;
  const Operation* operation = nullptr;
  const Rung* rung = nullptr;        // null where the text names a family or an operation only
  DTypes dtypes = {};                // of a seed; empty: not fixed
  std::string_view attributes = {};  // of a seed, as there
};

// "softmax", "softmax/warp_per_row", "log_softmax/warp_per_row", "gelu", a seed name such as
// "gelu_f16x8_pack". Throws InvalidArgument that suggests near names.
Address resolve(std::string_view text);
// A seed name, also where an operation is called so too (layer_norm_backward), which resolve()
// takes it for. Nothing found: an address without rung.
Address resolve_seed(std::string_view name);
const Operation& operation_named(std::string_view name);
const Family& family_of(const Operation& operation);
const Rung* rung_named(const Family& family, std::string_view name);  // null: none

// Up to three of `names` that `text` may have meant, best first.
std::vector<std::string> near_names(std::string_view text, std::span<const std::string> names);

// All seed names of a rung for one operation, {} replaced.
std::vector<std::string> seeds_of(const Rung& rung, const Operation& operation);

// dtypes that a rung takes of an operation.
DTypes dtypes_of(const Rung& rung, const Operation& operation);

// The case's problem, attributes complete, without data; outputs as make() laid them out. AnyCall
// checks it. Throws InvalidArgument.
Problem make_problem(const Operation& operation, const Case& chosen, DType dtype);

// How far the rung's output may be from the reference: the one place that asks what it adds up in.
Tolerance tolerance_of(const Rung& rung, const Problem& problem, const Parameter& output);

// Whether the rung takes the call on a device: operation, dtype, architecture, supports().
bool takes(const Rung& rung, const AnyCall& call, int capability);
// Why it does not, with the values; "" where it does.
Reason why_not(const Rung& rung, const AnyCall& call, int capability);
// The fastest rung for the call, of those that add up in f32 or wider. Throws where none takes it.
const Rung& best(const AnyCall& call, int capability);
Workspace workspace_of(const Rung& rung, const AnyCall& call);  // none where nothing is written
// Runs a call that the rung takes; throws ws::Error that carries rung and problem, also where the
// device has reported an error since (see warpsmith/device_error.hpp). Calls without elements to
// write return at once.
void run(const Rung& rung, const AnyCall& call, const Context& context);

}  // namespace ws
