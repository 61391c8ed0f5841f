#include "own_kernel/signature.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace ws::own_kernel {
namespace {

// As CUDA's headers call it.
std::string_view type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "double";
    case DType::kF32: return "float";
    case DType::kF16: return "__half";
    case DType::kBf16: return "__nv_bfloat16";
    case DType::kI64: return "int64_t";
    case DType::kI32: return "int32_t";
    case DType::kI8: return "int8_t";
    case DType::kU8: return "uint8_t";
    case DType::kBool: return "bool";
    case DType::kE4m3: return "__nv_fp8_e4m3";
    case DType::kE5m2: return "__nv_fp8_e5m2";
  }
  return {};
}

std::string_view type_of(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::kBool: return "bool";
    case Value::Kind::kInt: return "int64_t";
    case Value::Kind::kFloat: return "float";
    case Value::Kind::kChoice: return "int";
    case Value::Kind::kDims: return "const int*";
    case Value::Kind::kUnset:
    case Value::Kind::kAbsent: break;
  }
  throw Error("the catalogue is wrong: an attribute without a kind");
}

std::string doc_of(const Attribute& attribute) {
  std::string doc(attribute.doc);
  for (size_t i = 0; i < attribute.choices.size(); ++i) {
    doc +=
        fmt::format("{}{} {}", i == 0 ? (doc.empty() ? "" : ": ") : ", ", i, attribute.choices[i]);
  }
  if (!attribute.choices.empty() && attribute.standard.is_absent()) doc += ", -1 none";
  return doc;
}

size_t wanted_extents(const Operation& operation) {
  return operation.extent_names.size() - static_cast<size_t>(operation.optional_extents);
}

// Whether every call has to say it: the short form has it, too.
bool is_required(const Attribute& attribute) { return attribute.standard.is_unset(); }

void copy_required(const Operation& operation, const Case& from, Case& to) {
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    if (is_required(operation.attributes[i])) to.attributes[i] = from.attributes[i];
  }
}

// The case without what makes tensors awkward, and without attributes that have a default.
Case stripped(const Operation& operation, const Case& chosen) {
  Case plain;
  copy_required(operation, chosen, plain);
  std::copy_n(chosen.extents.begin(), wanted_extents(operation), plain.extents.begin());
  return plain;
}

Problem problem_of(const Operation& operation, const Case& chosen, DType dtype) {
  return AnyCall(make_problem(operation, chosen, dtype)).problem();
}

// Of a case, what a kernel of one's own is told; nothing where that alone is no problem, as of a
// permutation of more dimensions than there are extents that every call has.
std::optional<Problem> plain_problem(const Operation& operation, const Case& chosen, DType dtype) {
  try {
    return problem_of(operation, stripped(operation, chosen), dtype);
  } catch (const InvalidArgument&) {
    return {};
  }
}

Case square(const Operation& operation) {
  Case chosen;
  copy_required(operation, operation.cases().smoke.front(), chosen);
  std::fill_n(chosen.extents.begin(), wanted_extents(operation), 8);
  return chosen;
}

// The dtype that a tensor has where it is there: in a plain call, else in the first of the lists.
std::optional<DType> dtype_of(const Operation& operation, const Problem& plain, size_t tensor) {
  if (plain.tensors[tensor].exists()) return plain.tensors[tensor].dtype;
  for (const Case& chosen : operation.cases().verify) {
    const Problem problem = problem_of(operation, chosen, plain.dtype());
    if (problem.tensors[tensor].exists()) return problem.tensors[tensor].dtype;
  }
  return {};
}

}  // namespace

Signature::Signature(const Operation& operation, DType dtype, Form form)
    : operation_(operation),
      dtype_(dtype),
      form_(form),
      plain_(problem_of(operation, square(operation), dtype)) {
  for (size_t i = 0; i < operation.parameters.size(); ++i) {
    const Parameter& parameter = operation.parameters[i];
    const std::optional<DType> its = dtype_of(operation, plain_, i);
    if (!its || (form == Form::kShort && !plain_.tensors[i].exists())) continue;
    require(!type_of(*its).empty(), operation.name, ": ", to_string(*its),
            " has no type that a signature could name");
    arguments_.push_back(
        {Argument::Kind::kTensor, i,
         fmt::format("{}{}*", parameter.is_written() ? "" : "const ", type_of(*its)),
         std::string(parameter.name), std::string(parameter.doc)});
  }
  for (size_t i = 0; i < wanted_extents(operation); ++i) {
    arguments_.push_back(
        {Argument::Kind::kExtent, i, "int64_t", std::string(operation.extent_names[i]), {}});
  }
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    const Attribute& attribute = operation.attributes[i];
    if (form == Form::kShort && !is_required(attribute)) continue;
    const std::string name(attribute.name);
    arguments_.push_back({Argument::Kind::kAttribute, i, std::string(type_of(attribute.kind)), name,
                          doc_of(attribute)});
    if (attribute.kind != Value::Kind::kDims) continue;
    arguments_.push_back({Argument::Kind::kCountOfDims, i, "int", name + "_count",
                          fmt::format("of {}; -1: none given", name)});
  }
}

std::string Signature::text() const {
  std::string text;
  for (const Argument& argument : arguments_) {
    text += fmt::format("{} {}, ", argument.type, argument.name);
  }
  return fmt::format("void {}({}cudaStream_t stream)", operation_.name, text);
}

Reason Signature::why_not(const Case& chosen) const {
  const std::optional<Problem> plain = plain_problem(operation_, chosen, dtype_);
  if (!plain) {
    return fmt::format("a kernel of one's own is told {}",
                       fmt::join(operation_.extent_names.first(wanted_extents(operation_)), ", "));
  }
  for (size_t i = 0; i < wanted_extents(operation_); ++i) {
    if (chosen.extents[i] < 1) return "a kernel of one's own is called with something to do";
  }
  if (chosen.offset != 0 || chosen.padding != 0) return "its tensors are dense and aligned";
  const Problem problem = problem_of(operation_, chosen, dtype_);
  for (size_t i = 0; i < operation_.parameters.size(); ++i) {
    const Tensor& tensor = problem.tensors[i];
    const std::string_view name = operation_.parameters[i].name;
    if (form_ == Form::kShort && tensor.exists() != plain_.tensors[i].exists()) {
      return fmt::format("the short form is called {} '{}'", tensor.exists() ? "without" : "with",
                         name);
    }
    if (!tensor.exists()) continue;
    if (!tensor.contiguous()) return fmt::format("'{}' is dense", name);
    if (plain->tensors[i].exists() && !tensor.same_shape(plain->tensors[i])) {
      return fmt::format(
          "'{}' has the extents {}", name,
          fmt::join(operation_.extent_names.first(wanted_extents(operation_)), ", "));
    }
    if (dtype_of(operation_, plain_, i) != tensor.dtype) {
      return fmt::format("'{}' is {} in the signature", name, to_string(tensor.dtype));
    }
  }
  if (form_ == Form::kFull) return {};
  for (size_t i = 0; i < operation_.attributes.size(); ++i) {
    const Attribute& attribute = operation_.attributes[i];
    if (is_required(attribute) || problem.attributes[i] == plain_.attributes[i]) continue;
    return fmt::format("the short form has no parameter {}", attribute.name);
  }
  return {};
}

std::vector<Case> Signature::cases() const {
  std::vector<Case> all;
  const auto add = [&](const Case& chosen) {
    const auto is_same = [&](const Case& other) {
      return other.extents == chosen.extents && other.attributes == chosen.attributes;
    };
    if (std::ranges::none_of(all, is_same) && why_not(chosen).empty()) all.push_back(chosen);
  };
  for (const Case& listed : operation_.cases().verify) {
    add(listed);
    add(stripped(operation_, listed));
  }
  return all;
}

bool has_full_form(const Operation& operation) {
  for (const DType dtype : kAllDTypes) {
    if (!dtypes_of(operation).has(dtype)) continue;
    return Signature(operation, dtype, Form::kFull).text() !=
           Signature(operation, dtype, Form::kShort).text();
  }
  return false;
}

DTypes dtypes_of(const Operation& operation) {
  // Those of fp8 take a header that few know: where there are others, they will do.
  constexpr DTypes kFp8 = {DType::kE4m3, DType::kE5m2};
  DTypes others;
  for (const DType dtype : kAllDTypes) {
    if (operation.dtypes.has(dtype) && !kFp8.has(dtype)) others = others | DTypes{dtype};
  }
  return others.empty() ? operation.dtypes : others;
}

}  // namespace ws::own_kernel
