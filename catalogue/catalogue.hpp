// The catalogue: what the families register, and all that CLI, tests, bench, Python and docs know.
//
// A family has operations (what a user calls: softmax, log_softmax) and rungs (how it is computed:
// warp_per_row). `<family>.cu` defines one constexpr table of each; `families.cpp` lists families.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/problem.hpp"
#include "warpsmith/arch.hpp"
#include "warpsmith/launch.hpp"

namespace ws {

// ---- Operations -------------------------------------------------------------------------------

struct Parameter {
  std::string_view name;  // as in Python
  bool output = false;
  std::string_view doc;  // shape and dtype
};

struct Attribute {
  enum class Kind { kFloat, kInt, kBool, kChoice };
  std::string_view name;
  Kind kind;
  double standard;                              // default value; of a choice, its index
  std::span<const std::string_view> choices{};  // of kChoice
  std::string_view doc;
};

// An attribute's value as text and back: "0.5", "true", a choice's name. Reading throws
// InvalidArgument that names the attribute and what it takes.
std::string describe_value(const Attribute& attribute, double value);
double parse_value(const Attribute& attribute, std::string_view text);

// A problem to verify or time, before its dtype is chosen.
struct Case {
  std::array<int64_t, 4> extents{};  // what they mean is Operation::extent_names
  int offset = 0;                    // every pointer this many elements past a 256-byte boundary
  int64_t padding = 0;               // elements between rows that the tensors do not own
  std::array<double, kMaxAttributes> attributes{};  // used where has_attributes
  bool has_attributes = false;
};

// What a call must at least do: every input byte read once, every output byte written once.
struct Cost {
  double bytes = 0;
  double flops = 0;
};

// How far an output may be from the reference. Both zero: equality, bit by bit.
struct Tolerance {
  double relative = 0;  // of ||out - ref|| / ||ref||
  double worst = 0;     // of |out - ref| / (|ref| + floor), for every element
  double floor = 0;     // in units of the output
};

// Outputs fall into `items` independent slices (rows, elements) that the reference computes one by
// one, so that a large problem can be checked on a sample and a small one on all cores.
struct Slice {
  int64_t first = 0;
  int64_t last = 0;  // exclusive
};

// Device and resources of one call.
struct Context {
  Stream stream = nullptr;
  void* workspace = nullptr;  // at least Rung::workspace(problem) bytes, 256-byte aligned
};

// Why something cannot be done; empty where it can.
using Reason = std::string;

// What a user would pick instead, in C++: a vendor library, loaded when it is first asked for.
struct Peer {
  std::string_view name;                // "cublasLt"
  Reason (*supports)(const Problem&);   // also says when the library is not there
  size_t (*workspace)(const Problem&);  // null: none
  void (*run)(const Problem&, const Context&);
};

struct Operation {
  std::string_view name;                  // "log_softmax"
  std::string_view summary;               // one line
  std::string_view source;                // paper or document
  std::string_view formula;               // "y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))"
  std::span<const Parameter> parameters;  // inputs first
  std::span<const Attribute> attributes{};
  std::span<const std::string_view> extent_names;  // of Case::extents: {"rows", "columns"}
  int optional_extents = 0;  // trailing ones that `--shape` may leave out: 0 then
  DTypes dtypes;
  std::string_view seed_prefix = {};  // replaces {} in Rung::seeds
  std::string_view torch;  // the peer as a Python expression over parameter and attribute names

  // Fills `problem`'s outputs (dtype, shape, dense strides) from its inputs and attributes; throws
  // InvalidArgument that names the values. Outputs a caller brought are compared by check().
  void (*infer)(Problem& problem);
  // The inputs of a case, without data; padding and layouts as the case says. chosen.attributes is
  // always set. Outputs may be laid out too; those left out are dense.
  Problem (*make)(const Operation& operation, const Case& chosen, DType dtype);
  Cost (*cost)(const Problem& problem);
  Tolerance (*tolerance)(const Problem& problem);
  int64_t (*items)(const Problem& problem);
  // Double precision on the host. expected[k] receives the slice's elements of output k, row-major.
  void (*reference)(const Problem& problem, Slice slice, std::span<double* const> expected);
  // Fills input `index` (host memory) from the seed; null: standard normal.
  void (*fill)(const Problem& problem, int index, uint64_t seed) = nullptr;

  std::span<const Case> smoke;   // tiny: every rung in the emulator in under a second
  std::span<const Case> verify;  // straddling every boundary
  std::span<const Case> bench;
  std::span<const Peer> peers{};
};

// ---- Rungs ------------------------------------------------------------------------------------

struct Seed {
  std::string_view name;            // "softmax_f32x4"; {} stands for Operation::seed_prefix
  std::string_view operation = {};  // empty: every operation of the family
  DTypes dtypes = {};               // empty: all of the rung
};

inline Reason supports_all(const Problem&) { return {}; }
inline size_t no_workspace(const Problem&) { return 0; }

struct Rung {
  std::string_view name;  // = file NN_name.cuh
  std::string_view idea;  // one line
  DTypes dtypes;
  Arch arch = Arch::kSm80;
  void (*run)(const Problem&, const Context&);  // after supports() said yes
  Reason (*supports)(const Problem&) =
      supports_all;  // looks at shapes, strides and pointers; names values
  size_t (*workspace)(const Problem&) = no_workspace;  // bytes
  std::span<const Seed> seeds{};
  std::string_view file = {};  // the rung's file where several rows share one template
  bool may_spill = false;
};

struct Family {
  std::string_view name;  // = folder under kernels/
  std::string_view summary;
  std::span<const Operation> operations;
  std::span<const Rung> rungs;  // in teaching order
  // The fastest rung that takes the problem; null: the last of the table that supports it.
  const Rung* (*best)(const Problem& problem, int capability) = nullptr;
};

// Whether a rung table keeps the house's rules: snake_case names, all different, an idea each of
// one line, dtypes, a run function. For static_assert beside the table.
constexpr bool well_formed(std::span<const Rung> rungs);
constexpr bool well_formed(std::span<const Operation> operations);

// ---- The catalogue ----------------------------------------------------------------------------

std::span<const Family* const> families();  // families.cpp: the one list

// A rung, an operation and what a seed name fixes beyond them.
struct Address {
  const Family* family = nullptr;
  const Operation* operation = nullptr;
  const Rung* rung = nullptr;  // null where the text names a family or an operation only
  DTypes dtypes = {};          // of a seed; empty: not fixed
};

// "softmax", "softmax/warp_per_row", "log_softmax/warp_per_row", "gelu", a seed name such as
// "gelu_f16x8_pack". Throws InvalidArgument that suggests near names.
Address resolve(std::string_view text);
const Operation& operation_named(std::string_view name);
const Family& family_of(const Operation& operation);

// Up to three of `names` that `text` may have meant, best first.
std::vector<std::string> near_names(std::string_view text, std::span<const std::string> names);

// All seed names of a rung for one operation, {} replaced.
std::vector<std::string> seeds_of(const Rung& rung, const Operation& operation);

// Compute capability of the current device (major * 10 + minor); the emulator is a 90.
int device_capability();

// Checks a call: parameters' shapes, dtypes and strides (infer), the outputs the caller brought,
// and fills outputs whose data is null. Throws InvalidArgument.
void check(Problem& problem);

// Why the rung does not take the problem on a device: dtype, architecture, supports().
Reason supports(const Rung& rung, const Problem& problem, int capability);
// The fastest rung for the problem. Throws where none takes it.
const Rung& best(const Problem& problem, int capability);
// Runs a checked problem; throws ws::Error that carries rung and problem. Empty problems (no output
// elements) return at once.
void run(const Rung& rung, const Problem& problem, const Context& context);

}  // namespace ws

#include "catalogue/well_formed.hpp"
