#include "harness/random_cases.hpp"

#include <algorithm>

#include "catalogue/fill.hpp"

namespace ws::harness {
namespace {

// What a place of the list's cases holds.
struct Range {
  int64_t least;
  int64_t largest;
};

class Draw {
 public:
  Draw(std::span<const Case> list, uint64_t seed) : list_(list), seed_(seed) {}

  Case next(const Operation& operation) {
    Case drawn = any();
    drawn.dtypes = {};
    for (size_t i = 0; i < operation.extent_names.size(); ++i) {
      const auto here = [i](const Case& c) { return c.extents[i]; };
      drawn.extents[i] = place(drawn.extents[i], here);
    }
    for (size_t i = 0; i < operation.attributes.size(); ++i) {
      Value& value = drawn.attributes[i];
      if (below(4) == 0) value = any().attributes[i];
      if (value.kind() != Value::Kind::kInt || below(4) != 0) continue;
      const auto is_int = [&](const Case& c) {
        return c.attributes[i].kind() == Value::Kind::kInt;
      };
      const auto here = [&](const Case& c) {
        return is_int(c) ? c.attributes[i].as_int() : value.as_int();
      };
      value = moved(value.as_int(), range(here));
    }
    if (below(8) == 0) drawn.offset = any().offset;
    if (below(8) == 0) drawn.padding = any().padding;
    return drawn;
  }

 private:
  uint64_t below(uint64_t bound) { return random_bits(seed_, drawn_++) % bound; }
  const Case& any() { return list_[below(list_.size())]; }

  template <class Here>
  Range range(const Here& here) const {
    const auto [least, largest] = std::ranges::minmax_element(list_, {}, here);
    return {here(*least), here(*largest)};
  }
  template <class Here>
  int64_t place(int64_t value, const Here& here) {
    switch (below(3)) {
      case 0: return value;
      case 1: return here(any());
      default: return moved(value, range(here));
    }
  }
  // Within the range, so that what is a switch stays one.
  int64_t moved(int64_t value, Range range) {
    const auto span = static_cast<uint64_t>(range.largest - range.least) + 1;
    constexpr uint64_t kNear = 40;
    switch (below(6)) {
      case 0: ++value; break;
      case 1: --value; break;
      case 2: value *= 2; break;
      case 3: value /= 2; break;
      case 4: value = range.least + static_cast<int64_t>(below(std::min(span, kNear))); break;
      default: value = range.least + static_cast<int64_t>(below(span)); break;
    }
    return std::clamp(value, range.least, range.largest);
  }

  std::span<const Case> list_;
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

// Throws InvalidArgument for a case that is none of the operation's.
Cost cost_of(const Operation& operation, const Case& chosen, DType dtype) {
  return operation.cost(AnyCall(make_problem(operation, chosen, dtype)).problem());
}

}  // namespace

std::vector<Case> random_cases(const Operation& operation, DType dtype, std::span<const Case> list,
                               size_t count, uint64_t seed) {
  std::vector<Case> known;
  std::ranges::copy_if(list, std::back_inserter(known),
                       [&](const Case& c) { return c.is_of(dtype); });
  std::vector<Case> all;
  if (known.empty()) return all;
  Cost dearest;
  for (const Case& chosen : known) {
    const Cost cost = cost_of(operation, chosen, dtype);
    dearest.bytes = std::max(dearest.bytes, cost.bytes);
    dearest.flops = std::max(dearest.flops, cost.flops);
  }
  const auto costs_no_more = [&](const Case& drawn) {
    try {
      const Cost cost = cost_of(operation, drawn, dtype);
      return cost.bytes <= dearest.bytes && cost.flops <= dearest.flops;
    } catch (const InvalidArgument&) {
      return false;
    }
  };
  const auto is_new = [&](const Case& drawn) {
    return std::ranges::find(all, drawn) == all.end() &&
           std::ranges::find(known, drawn) == known.end();
  };
  Draw draw(known, seed);
  constexpr size_t kTries = 50;  // for each
  for (size_t i = 0; i < kTries * count && all.size() < count; ++i) {
    const Case drawn = draw.next(operation);
    if (is_new(drawn) && costs_no_more(drawn)) all.push_back(drawn);
  }
  return all;
}

}  // namespace ws::harness
