// How a kernel of somebody's own is called: made by one rule from the operation's row.
//
//   void softmax(const float* x, float* out, int64_t rows, int64_t columns, cudaStream_t stream)
//
// A pointer for each tensor, dense and row-major; the extents that `--shape` wants; the stream. The
// short form has the tensors that a plain call has, with every attribute at its default. The full
// one has all tensors, null where a call has none, and all attributes between extents and stream.
#pragma once

#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace ws::own_kernel {

enum class Form : uint8_t { kShort, kFull };
inline constexpr Form kForms[] = {Form::kFull, Form::kShort};

// A parameter of the function.
struct Argument {
  enum class Kind : uint8_t { kTensor, kExtent, kAttribute, kCountOfDims };
  Kind kind = Kind::kTensor;
  size_t index = 0;  // of the operation's tensors, extents or attributes
  std::string type;  // "const float*"
  std::string name;
  std::string doc;
};

class Signature {
 public:
  // Throws InvalidArgument for a dtype of the operation that has no type in CUDA's own headers.
  Signature(const Operation& operation, DType dtype, Form form);

  Form form() const { return form_; }
  const std::vector<Argument>& arguments() const { return arguments_; }  // without the stream
  // "void softmax(const float* x, float* out, ...)"
  std::string text() const;

  // Why a call with these arguments cannot be made of the case; empty where it can.
  Reason why_not(const Case& chosen) const;
  // The family's verify list, as far as it can be called so.
  std::vector<Case> cases() const;

 private:
  const Operation& operation_;
  DType dtype_;
  Form form_;
  Problem plain_;
  std::vector<Argument> arguments_;
};

// Whether the two forms differ.
bool has_full_form(const Operation& operation);
// dtypes that a signature can be written for.
DTypes dtypes_of(const Operation& operation);

}  // namespace ws::own_kernel
