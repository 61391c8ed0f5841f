// The rows of the catalogue, made from structs: operation_of<Softmax>(), rung_of<Online,
// Softmax>().
//
// An operation is a struct of static members:
//   kName, kSummary, kSource, kFormula, kTorch             std::string_view
//   kParameters, kExtentNames                              arrays
//   kAttributes, kPythonPeers                              arrays, optional
//   kDTypes                                                of the first tensor
//   kSeedPrefix, kGradient, kOptionalExtents, kInPlace, kBatch   optional
//   struct Call                                            what rungs take: trivially copyable
//   Call call(const Problem&)                              from a checked problem
//   infer, make, cases, cost, tolerance, items, reference, fill   as in Operation; fill optional
//   peers()                                                std::span<const Peer>, optional
//   by_worth(const Call&)                                  as in Operation, optional
//   tolerance_in, cost_of_data                             as in Operation, optional
// Those of the last three lines but `call` and `infer` belong into reference.cpp, which nvcc never
// reads.
//
// A rung is a struct of static functions; `Call` is the Call of each operation that its row names:
//   void run(const Call&, const Context&)
//   bool supports(const Call&, Why&)                       optional: it takes all
//   Workspace workspace(const Call&)                       optional: none
#pragma once

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"

namespace ws {
namespace detail {

template <class Op>
const typename Op::Call& typed(const void* call) {
  return *static_cast<const typename Op::Call*>(call);
}

template <class Op>
void make_call(const Problem& problem, void* place) {
  static_assert(std::is_trivially_copyable_v<typename Op::Call>);
  static_assert(sizeof(typename Op::Call) <= AnyCall::kMaxBytes);
  new (place) typename Op::Call(Op::call(problem));
}

template <class Op>
std::span<const Rung* const> by_worth(const void* call) {
  return Op::by_worth(typed<Op>(call));
}

template <class Struct, class Op>
bool supports(const void* call, Why& why) {
  if constexpr (requires { Struct::supports(typed<Op>(call), why); }) {
    return Struct::supports(typed<Op>(call), why);
  } else {
    return true;
  }
}

template <class Struct, class Op>
Workspace workspace(const void* call) {
  if constexpr (requires { Struct::workspace(typed<Op>(call)); }) {
    return Struct::workspace(typed<Op>(call));
  } else {
    return {};
  }
}

template <class Struct, class Op>
void run(const void* call, const Context& context) {
  Struct::run(typed<Op>(call), context);
}

template <class Struct, DTypes kTaken, class... Ops>
inline constexpr Implementation kImplementations[] = {{.operation = Ops::kName,
                                                       .dtypes = Ops::kDTypes & kTaken,
                                                       .supports = supports<Struct, Ops>,
                                                       .workspace = workspace<Struct, Ops>,
                                                       .run = run<Struct, Ops>}...};

}  // namespace detail

// The row of a rung: `text` completed by what Struct does for each of Ops, in the dtypes of kTaken.
template <class Struct, DTypes kTaken, class... Ops>
constexpr Rung rung_of(Rung text) {
  text.implementations = detail::kImplementations<Struct, kTaken, Ops...>;
  return text;
}
template <class Struct, class... Ops>
constexpr Rung rung_of(Rung text) {
  return rung_of<Struct, kEveryDType, Ops...>(text);
}

template <class Op>
constexpr Operation operation_of() {
  Operation row{};
  row.name = Op::kName;
  row.summary = Op::kSummary;
  row.source = Op::kSource;
  row.formula = Op::kFormula;
  row.torch = Op::kTorch;
  row.parameters = Op::kParameters;
  row.extent_names = Op::kExtentNames;
  row.dtypes = Op::kDTypes;
  if constexpr (requires { Op::kAttributes; }) row.attributes = Op::kAttributes;
  if constexpr (requires { Op::kPythonPeers; }) row.python_peers = Op::kPythonPeers;
  if constexpr (requires { Op::kSeedPrefix; }) row.seed_prefix = Op::kSeedPrefix;
  if constexpr (requires { Op::kGradient; }) row.gradient = Op::kGradient;
  if constexpr (requires { Op::kOptionalExtents; }) row.optional_extents = Op::kOptionalExtents;
  if constexpr (requires { Op::kInPlace; }) row.in_place = Op::kInPlace;
  if constexpr (requires { Op::kBatch; }) row.batch = Op::kBatch;
  row.infer = Op::infer;
  row.make = Op::make;
  row.cases = Op::cases;
  row.cost = Op::cost;
  if constexpr (requires { &Op::cost_of_data; }) row.cost_of_data = Op::cost_of_data;
  row.tolerance = Op::tolerance;
  if constexpr (requires { &Op::tolerance_in; }) row.tolerance_in = Op::tolerance_in;
  row.items = Op::items;
  row.reference = Op::reference;
  if constexpr (requires { &Op::fill; }) {
    row.fill = Op::fill;
  } else {
    row.fill = fill_normal_input;
  }
  if constexpr (requires { &Op::peers; }) row.peers = Op::peers;
  row.call_bytes = sizeof(typename Op::Call);
  row.make_call = detail::make_call<Op>;
  if constexpr (requires(const typename Op::Call& call) { Op::by_worth(call); }) {
    row.by_worth = detail::by_worth<Op>;
  }
  return row;
}

}  // namespace ws
