// The house's rules for the tables of a family, checked while it compiles.
#pragma once

#include "catalogue/catalogue.hpp"

namespace ws {
namespace detail {

constexpr bool is_snake_case(std::string_view name) {
  if (name.empty() || name.front() < 'a' || name.front() > 'z' || name.back() == '_') return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

constexpr bool is_one_line(std::string_view text) {
  return !text.empty() && text.find('\n') == std::string_view::npos;
}

template <class Row>
constexpr bool has_unique_names(std::span<const Row> table) {
  for (size_t i = 0; i < table.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (table[i].name == table[k].name) return false;
    }
  }
  return true;
}

// Inputs first, then at least one output: Problem::inputs() counts on it.
constexpr bool has_inputs_then_outputs(std::span<const Parameter> parameters) {
  if (parameters.size() < 2 || parameters.size() > static_cast<size_t>(kMaxTensors)) return false;
  if (parameters.front().output || !parameters.back().output) return false;
  for (size_t i = 1; i < parameters.size(); ++i) {
    if (parameters[i - 1].output && !parameters[i].output) return false;
  }
  return true;
}

constexpr bool has_valid_attributes(std::span<const Attribute> attributes) {
  if (attributes.size() > static_cast<size_t>(kMaxAttributes)) return false;
  for (const Attribute& a : attributes) {
    if (!is_snake_case(a.name)) return false;
    const bool is_choice = a.kind == Attribute::Kind::kChoice;
    if (is_choice == a.choices.empty()) return false;
    if (is_choice && !(a.standard >= 0 && a.standard < static_cast<double>(a.choices.size()))) {
      return false;
    }
  }
  return has_unique_names(attributes);
}

}  // namespace detail

constexpr bool well_formed(std::span<const Rung> rungs) {
  for (const Rung& rung : rungs) {
    if (!detail::is_snake_case(rung.name) || !detail::is_one_line(rung.idea)) return false;
    if (rung.dtypes.empty() || rung.run == nullptr || rung.supports == nullptr ||
        rung.workspace == nullptr) {
      return false;
    }
    for (const Seed& seed : rung.seeds) {
      if (seed.name.empty()) return false;
    }
  }
  return !rungs.empty() && detail::has_unique_names(rungs);
}

constexpr bool well_formed(std::span<const Operation> operations) {
  for (const Operation& op : operations) {
    if (!detail::is_snake_case(op.name) || !detail::is_one_line(op.summary)) return false;
    if (!detail::has_inputs_then_outputs(op.parameters)) return false;
    if (!detail::has_valid_attributes(op.attributes)) return false;
    if (op.extent_names.empty() || op.extent_names.size() > Case{}.extents.size()) return false;
    if (op.dtypes.empty() || op.smoke.empty() || op.verify.empty() || op.bench.empty())
      return false;
    if (op.infer == nullptr || op.make == nullptr || op.cost == nullptr ||
        op.tolerance == nullptr || op.items == nullptr || op.reference == nullptr) {
      return false;
    }
    for (const Peer& peer : op.peers) {
      if (peer.name.empty() || peer.supports == nullptr || peer.run == nullptr) return false;
    }
  }
  return !operations.empty() && detail::has_unique_names(operations);
}

}  // namespace ws
