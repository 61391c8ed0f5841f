#include "catalogue/catalogue.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#ifndef WS_EMULATED
#include <cuda_runtime.h>

#include <atomic>
#endif

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

template <class Row>
const Row* find(std::span<const Row> table, std::string_view name) {
  const auto at = std::ranges::find(table, name, &Row::name);
  return at == table.end() ? nullptr : &*at;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    names.emplace_back(family->name);
    for (const Operation& operation : family->operations) {
      if (operation.name != family->name) names.emplace_back(operation.name);
      for (const Rung& rung : family->rungs) {
        names.push_back(concatenate(operation.name, "/", rung.name));
        for (std::string& seed : seeds_of(rung, operation)) names.push_back(std::move(seed));
      }
    }
  }
  return names;
}

std::string tensor_text(const Operation& operation, int index) {
  return concatenate(operation.name, ": ",
                     operation.parameters[static_cast<size_t>(index)].output ? "output" : "input",
                     " '", operation.parameters[static_cast<size_t>(index)].name, "'");
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.rank == b.rank && std::equal(a.shape.begin(), a.shape.begin() + a.rank, b.shape.begin());
}

// Whether two logical elements may share memory, as in a broadcast: never in an output.
bool repeats_elements(const Tensor& tensor) {
  for (int d = 0; d < tensor.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    if (tensor.shape[i] > 1 && tensor.strides[i] == 0) return true;
  }
  return false;
}

void check_attributes(const Problem& problem) {
  const std::span<const Attribute> attributes = problem.operation->attributes;
  for (size_t i = 0; i < attributes.size(); ++i) {
    const Attribute& a = attributes[i];
    const double value = problem.attributes[i];
    const bool valid = a.kind == Attribute::Kind::kFloat ||
                       (value == std::floor(value) &&
                        (a.kind == Attribute::Kind::kInt ||
                         (value >= 0 && value < (a.kind == Attribute::Kind::kBool
                                                     ? 2
                                                     : static_cast<double>(a.choices.size())))));
    require(valid, problem.operation->name, ": attribute '", a.name, "' cannot be ", value);
  }
}

}  // namespace

// ---- Attributes -------------------------------------------------------------------------------

std::string describe_value(const Attribute& attribute, double value) {
  switch (attribute.kind) {
    case Attribute::Kind::kBool: return value != 0 ? "true" : "false";
    case Attribute::Kind::kChoice: {
      const auto index = static_cast<size_t>(value);
      return std::string(value >= 0 && index < attribute.choices.size() ? attribute.choices[index]
                                                                        : "?");
    }
    case Attribute::Kind::kFloat:
    case Attribute::Kind::kInt: break;
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

double parse_value(const Attribute& attribute, std::string_view text) {
  if (attribute.kind == Attribute::Kind::kChoice) {
    const auto at = std::ranges::find(attribute.choices, text);
    if (at != attribute.choices.end()) {
      return static_cast<double>(at - attribute.choices.begin());
    }
    std::string choices;
    for (const std::string_view choice : attribute.choices) {
      choices.append(choices.empty() ? "" : ", ").append(choice);
    }
    throw InvalidArgument(
        concatenate("attribute '", attribute.name, "' is one of ", choices, ", not '", text, "'"));
  }
  if (attribute.kind == Attribute::Kind::kBool) {
    if (text == "true" || text == "1") return 1;
    if (text == "false" || text == "0") return 0;
    throw InvalidArgument(
        concatenate("attribute '", attribute.name, "' is true or false, not '", text, "'"));
  }
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_int = attribute.kind == Attribute::Kind::kInt;
  require(failure == std::errc() && end == text.data() + text.size() &&
              (!is_int || value == std::floor(value)),
          "attribute '", attribute.name, "' is ", is_int ? "an integer" : "a number", ", not '",
          text, "'");
  return value;
}

// ---- Names ------------------------------------------------------------------------------------

std::vector<std::string> near_names(std::string_view text, std::span<const std::string> names) {
  std::vector<std::pair<size_t, std::string_view>> ranked;
  const size_t limit = std::max<size_t>(2, text.size() / 3);
  for (const std::string_view name : names) {
    size_t distance = edit_distance(text, name);
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
  for (const Seed& seed : rung.seeds) {
    if (applies(seed, operation, family)) seeds.push_back(expand(seed.name, operation.seed_prefix));
  }
  return seeds;
}

Address resolve(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view head = text.substr(0, slash);
  for (const Family* family : families()) {
    const Operation* operation = find(family->operations, head);
    if (operation == nullptr && family->name != head) continue;
    if (slash == std::string_view::npos) return {family, operation, nullptr, {}};
    if (const Rung* rung = find(family->rungs, text.substr(slash + 1))) {
      return {family, operation, rung, {}};
    }
  }
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      for (const Rung& rung : family->rungs) {
        for (const Seed& seed : rung.seeds) {
          if (applies(seed, operation, family) &&
              expand(seed.name, operation.seed_prefix) == text) {
            return {family, &operation, &rung, seed.dtypes};
          }
        }
      }
    }
  }
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
    if (const Operation* operation = find(family->operations, name)) return *operation;
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

// ---- Calls ------------------------------------------------------------------------------------

int device_capability() {
#ifdef WS_EMULATED
  return 90;
#else
  // Asking the runtime costs more than a small kernel: remembered per device.
  static std::array<std::atomic<int>, 64> known{};
  int device = 0;
  detail::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  std::atomic<int>& slot = known[static_cast<size_t>(device) % known.size()];
  int capability = slot.load(std::memory_order_relaxed);
  if (capability == 0) {
    int major = 0;
    int minor = 0;
    detail::check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                       "cudaDeviceGetAttribute");
    detail::check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                       "cudaDeviceGetAttribute");
    capability = major * 10 + minor;
    slot.store(capability, std::memory_order_relaxed);
  }
  return capability;
#endif
}

void check(Problem& problem) {
  require(problem.operation != nullptr, "a problem without an operation");
  const Operation& operation = *problem.operation;
  const int expected = static_cast<int>(operation.parameters.size());
  const int inputs = problem.input_count();
  const int needed =
      static_cast<int>(std::ranges::count(operation.parameters, false, &Parameter::output));
  require(inputs == needed && problem.tensor_count <= expected, operation.name, " takes ", needed,
          " inputs and up to ", expected - needed, " outputs, got ", problem.tensor_count,
          " tensors");
  for (int i = 0; i < problem.tensor_count; ++i) {
    const Tensor& tensor = problem.tensor(i);
    if (tensor.rank < 0 || tensor.rank > kMaxRank) [[unlikely]] {
      throw InvalidArgument(concatenate(tensor_text(operation, i), " has rank ", tensor.rank,
                                        "; at most ", kMaxRank, " dimensions"));
    }
  }
  check_attributes(problem);

  std::array<Tensor, kMaxTensors> brought;
  std::copy(problem.tensors.begin() + inputs, problem.tensors.begin() + expected, brought.begin());
  const int given = problem.tensor_count - inputs;
  problem.tensor_count = expected;
  operation.infer(problem);
  for (int k = 0; k < given; ++k) {
    Tensor& inferred = problem.tensor(inputs + k);
    const Tensor& mine = brought[static_cast<size_t>(k)];
    if (mine.data == nullptr) continue;
    if (mine.dtype != inferred.dtype || !same_shape(mine, inferred)) [[unlikely]] {
      throw InvalidArgument(concatenate(tensor_text(operation, inputs + k), " is ", mine.describe(),
                                        ", but the result is ", inferred.describe()));
    }
    if (repeats_elements(mine)) [[unlikely]] {
      throw InvalidArgument(concatenate(tensor_text(operation, inputs + k), " is ", mine.describe(),
                                        ": several elements share one address"));
    }
    inferred = mine;
  }
}

Reason supports(const Rung& rung, const Problem& problem, int capability) {
  const DType dtype = problem.tensor(0).dtype;
  if (!rung.dtypes.has(dtype)) [[unlikely]] {
    return concatenate("takes no ", to_string(dtype));
  }
  if (!runs_on(rung.arch, capability)) [[unlikely]] {
    return concatenate("needs ", to_string(rung.arch), ", the device is sm_", capability);
  }
  return rung.supports(problem);
}

const Rung& best(const Problem& problem, int capability) {
  const Family& family = family_of(*problem.operation);
  if (family.best != nullptr) {
    if (const Rung* rung = family.best(problem, capability)) return *rung;
  } else {
    const DType dtype = problem.tensor(0).dtype;
    for (size_t i = family.rungs.size(); i-- > 0;) {
      const Rung& rung = family.rungs[i];
      // Not supports(): its words, which nobody would read, cost more than all the rest of a call.
      if (!rung.dtypes.has(dtype) || !runs_on(rung.arch, capability)) continue;
      if (rung.supports(problem).empty()) return rung;
    }
  }
  std::string reasons;
  for (const Rung& rung : family.rungs) {
    const Reason reason = supports(rung, problem, capability);
    reasons.append(
        concatenate("\n  ", rung.name, ": ", reason.empty() ? "was not chosen" : reason));
  }
  throw InvalidArgument(concatenate("no rung takes ", problem.describe(), reasons));
}

void run(const Rung& rung, const Problem& problem, const Context& context) {
  bool empty = true;
  for (const Tensor& output : problem.outputs()) empty = empty && output.elements() == 0;
  if (empty) return;
  try {
    for (int i = 0; i < problem.tensor_count; ++i) {
      const Tensor& tensor = problem.tensor(i);
      if (tensor.data == nullptr && tensor.elements() != 0) [[unlikely]] {
        throw InvalidArgument(concatenate(tensor_text(*problem.operation, i), " has no data"));
      }
    }
    rung.run(problem, context);
  } catch (Error& error) {
    ErrorContext outer;
    outer.rung = concatenate(problem.operation->name, "/", rung.name);
    outer.problem = problem.describe();
    error.add_context(outer);
    throw;
  }
}

}  // namespace ws
