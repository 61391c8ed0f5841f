// ws::Error and require(): every failure names what was asked for, the values, and where.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace ws {

// What was going on when something failed. Empty parts are left out of the message.
struct ErrorContext {
  std::string rung;     // "softmax/warp_per_row"
  std::string problem;  // "f16 [16384, 4096]"
  std::string launch;   // "blocks=132 threads=384 cluster=2 shared=213120"
  std::string place;    // "kernels/gemm/gemm.cu:31", or "block 3, thread 17" from the emulator
};

// The one exception type of Warpsmith. `what()` is complete; the parts are there for programs.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string message, ErrorContext context = {})
      : std::runtime_error(message),
        message_(std::move(message)),
        context_(std::move(context)),
        text_(compose(message_, context_)) {}

  const char* what() const noexcept override { return text_.c_str(); }
  const std::string& message() const { return message_; }
  const ErrorContext& context() const { return context_; }

  // Says what a caller further out knows: fills the parts that are still empty.
  void add_context(const ErrorContext& outer) {
    const auto fill = [](std::string& part, const std::string& value) {
      if (part.empty()) part = value;
    };
    fill(context_.rung, outer.rung);
    fill(context_.problem, outer.problem);
    fill(context_.launch, outer.launch);
    fill(context_.place, outer.place);
    text_ = compose(message_, context_);
  }

 private:
  static std::string compose(const std::string& message, const ErrorContext& context) {
    std::string text = message;
    const auto add = [&text](std::string_view label, const std::string& value) {
      if (!value.empty()) text.append("\n  ").append(label).append(value);
    };
    add("rung:    ", context.rung);
    add("problem: ", context.problem);
    add("launch:  ", context.launch);
    add("place:   ", context.place);
    return text;
  }

  std::string message_;
  ErrorContext context_;
  std::string text_;
};

// Bad input of a caller (wrong shape, dtype, device, name): Python sees a ValueError.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

template <class... Values>
std::string concatenate(const Values&... values) {
  std::ostringstream out;
  (out << ... << values);
  return out.str();
}

// Throws InvalidArgument unless `condition` holds; the remaining arguments are concatenated to the
// message, so that it names the values: require(n > 0, "N must be positive, got ", n).
template <class... Values>
void require(bool condition, const Values&... values) {
  if (!condition) [[unlikely]]
    throw InvalidArgument(concatenate(values...));
}

}  // namespace ws
