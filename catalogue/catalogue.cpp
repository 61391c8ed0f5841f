#include "catalogue/catalogue.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "catalogue/overlap.hpp"
#include "warpsmith/call_memory.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws {
namespace {

// Edits (insert, delete, replace one character) that turn one text into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string expand(std::string_view pattern, std::string_view prefix) {
  std::string text(pattern);
  if (const size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, prefix);
  return text;
}

// Whether a seed belongs to the operation: it says so, or is made from the operation's prefix. A
// whole name without an operation belongs to the family's first.
bool applies(const Seed& seed, const Operation& operation, const Family* family) {
  if (!seed.operation.empty()) return seed.operation == operation.name;
  if (seed.name.find("{}") != std::string_view::npos) return !operation.seed_prefix.empty();
  return family == nullptr || &operation == &family->operations.front();
}

const Family* find_family(const Operation& operation) {
  for (const Family* family : families()) {
    const std::span<const Operation> all = family->operations;
    if (&operation >= all.data() && &operation < all.data() + all.size()) return family;
  }
  return nullptr;
}

const Operation* find_operation(const Family& family, std::string_view name) {
  const auto at = std::ranges::find(family.operations, name, &Operation::name);
  return at == family.operations.end() ? nullptr : &*at;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    names.emplace_back(family->name);
    for (const Operation& operation : family->operations) {
      if (operation.name != family->name) names.emplace_back(operation.name);
      for (const Rung* rung : family->rungs) {
        if (rung->of(operation) == nullptr) continue;
        names.push_back(concatenate(operation.name, "/", rung->name));
        for (std::string& seed : seeds_of(*rung, operation)) names.push_back(std::move(seed));
      }
      for (const Rung* peer : peer_rungs(operation)) {
        for (std::string& seed : seeds_of(*peer, operation)) names.push_back(std::move(seed));
      }
    }
  }
  return names;
}

// "softmax: output 'y'"
std::string tensor_text(const Operation& operation, int index) {
  const Parameter& parameter = operation.parameters[static_cast<size_t>(index)];
  return concatenate(operation.name, ": ", parameter.is_read() ? "input" : "output", " '",
                     parameter.name, "'");
}

// Extents whose product, and strides whose sum, any memory could hold.
void check_size(const Operation& operation, int index, const Tensor& tensor) {
  int64_t elements = 1;
  int64_t reach = 1;  // elements from the first to the last in memory
  bool fits = true;
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.extent(d) == 0) return;
    int64_t step = 0;
    fits = fits && tensor.extent(d) > 0 &&
           !__builtin_mul_overflow(elements, tensor.extent(d), &elements) &&
           tensor.stride(d) != std::numeric_limits<int64_t>::min() &&
           !__builtin_mul_overflow(tensor.extent(d) - 1, std::abs(tensor.stride(d)), &step) &&
           !__builtin_add_overflow(reach, step, &reach);
  }
  const int64_t most = kMostBytes / static_cast<int64_t>(size_of(tensor.dtype));
  if (fits && elements <= most && reach <= most) [[likely]]
    return;
  throw InvalidArgument(concatenate(tensor_text(operation, index), " is ", tensor,
                                    ", larger than any memory: at most ", kMostBytes, " bytes"));
}

// Memory that is written may be that of nothing else, unless the operation allows that it is
// exactly an input.
void check_overlap(const Problem& problem) {
  const Operation& operation = *problem.operation;
  const auto count = static_cast<int>(operation.parameters.size());
  for (int w = 0; w < count; ++w) {
    if (!operation.parameters[static_cast<size_t>(w)].is_written()) continue;
    const Tensor& written = problem.tensor(w);
    if (overlaps_itself(written)) [[unlikely]] {
      throw InvalidArgument(concatenate(tensor_text(operation, w), " is ", written,
                                        ": several elements share one address"));
    }
    for (int i = 0; i < count; ++i) {
      const Parameter& other = operation.parameters[static_cast<size_t>(i)];
      if (i == w || (other.is_written() && i > w)) continue;
      if (operation.parameters[static_cast<size_t>(w)].holds_others || other.holds_others) continue;
      const Tensor& tensor = problem.tensor(i);
      if (!overlap(written, tensor)) [[likely]]
        continue;
      if (operation.in_place && !other.is_written() && coincide(written, tensor)) continue;
      throw InvalidArgument(concatenate(
          tensor_text(operation, w), ", ", written, ", shares memory with '", other.name, "', ",
          tensor,
          operation.in_place ? ": it may be exactly that tensor, or none of its memory" : ""));
    }
  }
}

bool writes_elements(const AnyCall& call) {
  const std::span<const Parameter> parameters = call.operation().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].is_written() && call.problem().tensors[i].elements() != 0) return true;
  }
  return false;
}

}  // namespace

int Operation::index_of(std::string_view parameter) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == parameter) return static_cast<int>(i);
  }
  return -1;
}

const Implementation* Rung::of(const Operation& operation) const {
  for (const Implementation& one : implementations) {
    if (one.operation == operation.name) return &one;
  }
  return nullptr;
}

// ---- Names ------------------------------------------------------------------------------------

std::vector<std::string> near_names(std::string_view text, std::span<const std::string> names) {
  std::vector<std::pair<size_t, std::string_view>> ranked;
  const size_t limit = std::max<size_t>(2, text.size() / 3);
  for (const std::string_view name : names) {
    // At least the difference of the lengths: a text of 100 KB is near nothing, at no cost.
    const size_t apart = std::max(text.size(), name.size()) - std::min(text.size(), name.size());
    size_t distance = apart > limit ? apart : edit_distance(text, name);
    // "warp_per_row" means ".../warp_per_row", "softmax_warp" some "softmax_warp...".
    if (text.size() >= 3 && name.find(text) != std::string_view::npos) {
      distance = std::min<size_t>(distance, 1);
    }
    if (distance <= limit) ranked.emplace_back(distance, name);
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<size_t, std::string_view>::first);
  std::vector<std::string> near;
  for (const auto& [distance, name] : ranked) {
    if (near.size() == 3) break;
    if (std::ranges::find(near, name) == near.end()) near.emplace_back(name);
  }
  return near;
}

std::vector<std::string> seeds_of(const Rung& rung, const Operation& operation) {
  std::vector<std::string> seeds;
  const Family* family = find_family(operation);
  if (rung.of(operation) == nullptr) return {};
  for (const Seed& seed : rung.seeds) {
    if (applies(seed, operation, family)) seeds.push_back(expand(seed.name, operation.seed_prefix));
  }
  return seeds;
}

Address resolve_seed(std::string_view text) {
  text = text.substr(0, text.find(" ("));  // the list's remark: " (bitsandbytes)"
  Address found;
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      const auto answers = [&](const Rung* rung) {
        if (rung->of(operation) == nullptr) return false;
        for (const Seed& seed : rung->seeds) {
          if (applies(seed, operation, family) &&
              expand(seed.name, operation.seed_prefix) == text) {
            found = {family, &operation, rung, seed.dtypes, seed.attributes};
            return true;
          }
        }
        return false;
      };
      if (std::ranges::any_of(family->rungs, answers)) return found;
      if (std::ranges::any_of(peer_rungs(operation), answers)) return found;
    }
  }
  return found;
}

namespace {

struct PeerRow {
  const Operation* operation;
  Implementation implementation;
  Rung rung;
};

// Made once: rungs are known by their addresses.
const std::vector<std::unique_ptr<PeerRow>>& peer_rows() {
  static const auto kRows = [] {
    std::vector<std::unique_ptr<PeerRow>> rows;
    for (const Family* family : families()) {
      for (const Operation& operation : family->operations) {
        if (operation.peers == nullptr) continue;
        for (const Peer& peer : operation.peers()) {
          PeerRow& row = *rows.emplace_back(std::make_unique<PeerRow>());
          row.operation = &operation;
          row.implementation = {.operation = operation.name, .dtypes = operation.dtypes};
          row.rung = {.name = peer.name,
                      .idea = "a library that the rungs are compared with",
                      .deterministic = false,  // nobody here knows
                      .seeds = peer.seeds,
                      .file = "peers.cpp",
                      .gpu_only = true,
                      .implementations = {&row.implementation, 1},
                      .peer = &peer};
        }
      }
    }
    return rows;
  }();
  return kRows;
}

}  // namespace

std::span<const Rung* const> peer_rungs(const Operation& operation) {
  static const auto kByOperation = [] {
    std::map<const Operation*, std::vector<const Rung*>> all;
    for (const auto& row : peer_rows()) all[row->operation].push_back(&row->rung);
    return all;
  }();
  const auto at = kByOperation.find(&operation);
  return at == kByOperation.end() ? std::span<const Rung* const>{} : at->second;
}

Address resolve(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view head = text.substr(0, slash);
  for (const Family* family : families()) {
    const Operation* operation = find_operation(*family, head);
    if (operation == nullptr && family->name != head) continue;
    if (slash == std::string_view::npos) return {family, operation, nullptr, {}};
    const std::string_view tail = text.substr(slash + 1);
    const Rung* rung = rung_named(*family, tail);
    if (rung == nullptr && operation != nullptr) {
      const auto peers = peer_rungs(*operation);
      const auto peer = std::ranges::find(peers, tail, &Rung::name);
      if (peer != peers.end()) rung = *peer;
    }
    if (rung == nullptr) continue;
    if (operation != nullptr && rung->of(*operation) == nullptr) continue;
    return {family, operation, rung, {}};
  }
  if (const Address seed = resolve_seed(text); seed.rung != nullptr) return seed;
  std::string hint;
  for (const std::string& name : near_names(text, all_names())) {
    hint.append(hint.empty() ? "; did you mean " : ", ").append("'" + name + "'");
  }
  throw InvalidArgument(
      concatenate("nothing in the catalogue is called '", text, "'",
                  hint.empty() ? "; `warpsmith list` shows all names" : hint + "?"));
}

const Operation& operation_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    if (const Operation* operation = find_operation(*family, name)) return *operation;
    for (const Operation& operation : family->operations) names.emplace_back(operation.name);
  }
  std::string hint;
  for (const std::string& near : near_names(name, names)) {
    hint.append(hint.empty() ? "; did you mean " : ", ").append("'" + near + "'");
  }
  throw InvalidArgument(
      concatenate("no operation is called '", name, "'", hint.empty() ? "" : hint + "?"));
}

const Family& family_of(const Operation& operation) {
  if (const Family* family = find_family(operation)) return *family;
  throw Error(concatenate("operation '", operation.name, "' is not in the catalogue"));
}

const Rung* rung_named(const Family& family, std::string_view name) {
  const auto at = std::ranges::find(family.rungs, name, &Rung::name);
  return at == family.rungs.end() ? nullptr : *at;
}

DTypes dtypes_of(const Rung& rung, const Operation& operation) {
  const Implementation* implementation = rung.of(operation);
  return implementation == nullptr ? DTypes{} : implementation->dtypes;
}

// ---- Calls ------------------------------------------------------------------------------------

Problem make_problem(const Operation& operation, const Case& chosen, DType dtype) {
  if (!operation.dtypes.has(dtype)) {
    throw InvalidArgument(concatenate(operation.name, " takes ", to_string(operation.dtypes),
                                      ", not ", to_string(dtype)));
  }
  Problem problem;
  problem.operation = &operation;
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    problem.attributes[i] = checked_value(operation.attributes[i], chosen.attributes[i]);
  }
  operation.make(chosen, dtype, problem);
  return problem;
}

AnyCall::AnyCall(const Problem& given) : problem_(given) {
  if (given.operation == nullptr) [[unlikely]]
    throw Error("a problem without an operation");
  const Operation& operation = *given.operation;
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    try {
      problem_.attributes[i] = checked_value(operation.attributes[i], given.attributes[i]);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(concatenate(operation.name, ": ", error.message()));
    }
  }
  const auto count = static_cast<int>(operation.parameters.size());
  for (int i = 0; i < count; ++i) {
    const Parameter& parameter = operation.parameters[static_cast<size_t>(i)];
    Tensor& tensor = problem_.tensor(i);
    if (tensor.exists()) {
      check_size(operation, i, tensor);
      if (!parameter.is_read()) tensor = {};
    } else if (parameter.is_read() && !parameter.optional) [[unlikely]] {
      throw InvalidArgument(concatenate(tensor_text(operation, i), " is missing"));
    }
  }
  operation.infer(problem_);
  for (int i = 0; i < count; ++i) {
    const Parameter& parameter = operation.parameters[static_cast<size_t>(i)];
    if (parameter.is_read()) continue;
    Tensor& inferred = problem_.tensor(i);
    const Tensor& brought = given.tensor(i);
    if (inferred.exists()) check_size(operation, i, inferred);
    if (!brought.exists()) continue;
    if (!inferred.exists()) [[unlikely]] {
      throw InvalidArgument(concatenate(tensor_text(operation, i), " is ", brought,
                                        ", but the call has no such output"));
    }
    if (brought.dtype != inferred.dtype || !brought.same_shape(inferred)) [[unlikely]] {
      throw InvalidArgument(concatenate(tensor_text(operation, i), " is ", brought,
                                        ", but the result is ", inferred));
    }
    inferred = brought;
  }
  check_overlap(problem_);
  remake();
}

Tolerance tolerance_of(const Rung& rung, const Problem& problem, const Parameter& output) {
  const Operation& operation = *problem.operation;
  if (rung.accumulate == DType::kF32 || operation.tolerance_in == nullptr) {
    return operation.tolerance(problem, output);
  }
  return operation.tolerance_in(problem, output, rung.accumulate);
}

bool takes(const Rung& rung, const AnyCall& call, int capability) {
  const Implementation* implementation = rung.of(call.operation());
  Why nobody_asks;
  if (implementation == nullptr || !implementation->dtypes.has(call.dtype())) return false;
  if (rung.peer != nullptr) return rung.peer->supports(call.problem()).empty();
  return runs_on(rung.arch, capability) && !(rung.gpu_only && runtime::kEmulated) &&
         implementation->supports(call.typed(), nobody_asks);
}

Reason why_not(const Rung& rung, const AnyCall& call, int capability) {
  const Implementation* implementation = rung.of(call.operation());
  if (implementation == nullptr) {
    std::string names;
    for (const Implementation& one : rung.implementations) {
      names.append(names.empty() ? "" : ", ").append(one.operation);
    }
    return concatenate("computes ", names, ", not ", call.operation().name);
  }
  if (!implementation->dtypes.has(call.dtype())) {
    return concatenate("takes ", to_string(implementation->dtypes), ", not ",
                       to_string(call.dtype()));
  }
  if (!runs_on(rung.arch, capability)) {
    return concatenate("needs ", to_string(rung.arch), ", the device is sm_", capability);
  }
  if (rung.peer != nullptr) return rung.peer->supports(call.problem());
  if (rung.gpu_only && runtime::kEmulated) return "needs a GPU: this is the emulated build";
  Reason reason;
  Why why(&reason);
  if (implementation->supports(call.typed(), why)) return {};
  return reason.empty() ? "does not take this problem" : reason;
}

const Rung& best(const AnyCall& call, int capability) {
  const Operation& operation = call.operation();
  const Family& family = family_of(operation);
  const auto may_choose = [&](const Rung& rung) {
    return rung.accumulate == DType::kF32 && takes(rung, call, capability);
  };
  if (operation.by_worth != nullptr) {
    for (const Rung* rung : operation.by_worth(call.typed())) {
      if (may_choose(*rung)) return *rung;
    }
  } else {
    for (size_t i = family.rungs.size(); i-- > 0;) {
      if (may_choose(*family.rungs[i])) return *family.rungs[i];
    }
  }
  std::string reasons;
  for (const Rung* rung : family.rungs) {
    const Reason reason = why_not(*rung, call, capability);
    reasons.append(
        concatenate("\n  ", rung->name, ": ", reason.empty() ? "was not chosen" : reason));
  }
  throw InvalidArgument(concatenate("no rung takes ", call.problem().describe(), reasons));
}

Workspace workspace_of(const Rung& rung, const AnyCall& call) {
  const Implementation* implementation = rung.of(call.operation());
  if (implementation == nullptr || !writes_elements(call)) return {};
  if (rung.peer != nullptr) {
    return {.bytes = rung.peer->workspace == nullptr ? 0 : rung.peer->workspace(call.problem())};
  }
  return implementation->workspace(call.typed());
}

namespace {

// The bytes that a call gives its kernels: of each tensor to its last element, and the workspace.
std::vector<Extent> extents_of(const Rung& rung, const AnyCall& call, const Context& context) {
  std::vector<Extent> extents;
  for (size_t i = 0; i < call.operation().parameters.size(); ++i) {
    const Tensor& tensor = call.problem().tensors[i];
    if (!tensor.exists() || tensor.elements() == 0) continue;
    const auto size = static_cast<int64_t>(size_of(tensor.dtype));
    int64_t first = 0;  // elements from `data`: strides may be negative
    int64_t last = 0;
    for (int d = 0; d < tensor.rank; ++d) {
      const int64_t reach = (tensor.extent(d) - 1) * tensor.stride(d);
      (reach < 0 ? first : last) += reach;
    }
    extents.push_back({static_cast<const std::byte*>(tensor.data) + first * size,
                       static_cast<size_t>((last - first + 1) * size),
                       call.operation().parameters[i].is_written()});
  }
  if (context.workspace != nullptr) {
    extents.push_back({context.workspace, workspace_of(rung, call).bytes, true});
  }
  return extents;
}

}  // namespace

void run(const Rung& rung, const AnyCall& call, const Context& context) {
  raise_device_error();
  if (!writes_elements(call)) return;
  const Problem& problem = call.problem();
  const std::span<const Parameter> parameters = call.operation().parameters;
  try {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& tensor = problem.tensors[i];
      if (tensor.data == nullptr && tensor.elements() != 0) [[unlikely]] {
        throw InvalidArgument(
            concatenate(tensor_text(call.operation(), static_cast<int>(i)), " has no data"));
      }
    }
    const Implementation* implementation = rung.of(call.operation());
    if (implementation == nullptr) [[unlikely]]
      throw Error(why_not(rung, call, 0));
    if (rung.peer != nullptr) {
      rung.peer->run(problem, context);
      return;
    }
    std::optional<CallMemory> memory;
    if (runtime::kEmulated) memory.emplace(extents_of(rung, call, context));
    implementation->run(call.typed(), context);
    if (runtime::kEmulated) raise_device_error();  // the kernel is done
  } catch (Error& error) {
    ErrorContext outer;
    outer.rung = concatenate(call.operation().name, "/", rung.name);
    outer.problem = problem.describe();
    error.add_context(outer);
    throw;
  }
}

}  // namespace ws
