#include "own_kernel/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "harness/embedded.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::own_kernel {
namespace {

namespace fs = std::filesystem;
using harness::Instance;

std::string_view driver_text() {
  const auto files = embedded_files();
  const auto at = std::ranges::find(files, "own_kernel/driver.cuh", &EmbeddedFile::path);
  require(at != files.end(), "this build has no own_kernel/driver.cuh");
  return at->text;
}

// The file and the program around it. What its calls are is left to the compiler: an entry that the
// function does not take is not there.
std::string source_of(const fs::path& file, const Operation& operation,
                      std::span<const std::pair<DType, Form>> entries) {
  std::string calls;
  // Compiled where it is needed: a header costs time.
  std::string fp8;
  for (const auto& [dtype, form] : entries) {
    std::string types;
    const Signature signature(operation, dtype, form);
    for (const Argument& argument : signature.arguments()) {
      types += ", " + argument.type;
      if (argument.type.find("__nv_fp8") != std::string::npos) fp8 = "#include <cuda_fp8.h>\n";
    }
    calls += fmt::format("      warpsmith_driver::entry<WarpsmithTheirs{}>(),\n", types);
  }
  return fmt::format(
      "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n{}#include <cuda_runtime.h>\n"
      "#include <cstdint>\n"
      "#define main main_of_the_file\n"
      "#include \"{}\"\n"
      "#undef main\n"
      "{}\n"
      "struct WarpsmithTheirs {{\n"
      "  template <class... Types>\n"
      "  static auto call(Types... arguments) -> decltype({}(arguments...)) {{\n"
      "    return {}(arguments...);\n"
      "  }}\n"
      "}};\n\n"
      "int main(int, char** arguments) {{\n"
      "  return warpsmith_driver::make_calls({{\n{}  }}, arguments[1], arguments[2]);\n"
      "}}\n",
      fp8, file.string(), driver_text(), operation.name, operation.name, calls);
}

fs::path new_folder() {
  std::string name = fs::temp_directory_path() / "warpsmith_try_XXXXXX";
  require(mkdtemp(name.data()) != nullptr, "cannot make the folder ", name);
  return name;
}

template <class T>
void put(std::ostream& out, const T& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof(T));
}

// As driver.cuh reads it.
struct Word {
  enum class Kind : int64_t { kTensor, kInteger, kNumber, kDims };
  Kind kind = Kind::kInteger;
  int64_t bits = 0;
};

Word word_of(const Argument& argument, const Instance& instance) {
  using Kind = Word::Kind;
  const auto place = static_cast<int64_t>(argument.index);
  if (argument.kind == Argument::Kind::kTensor) return {Kind::kTensor, place};
  if (argument.kind == Argument::Kind::kExtent) {
    return {Kind::kInteger, instance.chosen().extents[argument.index]};
  }
  const Value& value = instance.problem().attributes[argument.index];
  if (argument.kind == Argument::Kind::kCountOfDims) {
    return {Kind::kInteger, value.is_absent() ? -1 : value.as_dims().count};
  }
  switch (value.kind()) {
    case Value::Kind::kBool: return {Kind::kInteger, value.as_bool() ? 1 : 0};
    case Value::Kind::kInt: return {Kind::kInteger, value.as_int()};
    case Value::Kind::kFloat: return {Kind::kNumber, std::bit_cast<int64_t>(value.as_float())};
    case Value::Kind::kChoice: return {Kind::kInteger, value.as_choice()};
    case Value::Kind::kDims: {
      int64_t bits = 0;
      const Dims dims = value.as_dims();
      for (size_t i = 0; i < dims.at.size(); ++i) {
        bits |= int64_t{static_cast<uint8_t>(dims.at[i])} << (8 * i);
      }
      return {Kind::kDims, bits};
    }
    case Value::Kind::kUnset:
    case Value::Kind::kAbsent: break;
  }
  // None of a choice, or of dimensions, whose count says so.
  const bool has_dims = instance.operation().attributes[argument.index].kind == Value::Kind::kDims;
  return has_dims ? Word{Kind::kDims, 0} : Word{Kind::kInteger, -1};
}

}  // namespace

size_t bytes_of(const Tensor& tensor) {
  return tensor.exists() ? static_cast<size_t>(tensor.elements()) * size_of(tensor.dtype) : 0;
}

Program::Program(const fs::path& source, const Operation& operation, const Limits& limits)
    : operation_(operation), limits_(limits), folder_(new_folder()) {
  require(fs::is_regular_file(source), "cannot read ", source.string());
  for (const DType dtype : kAllDTypes) {
    if (!dtypes_of(operation).has(dtype)) continue;
    for (const Form form : kForms) {
      if (form == Form::kFull && !has_full_form(operation)) continue;
      entries_.emplace_back(dtype, form);
    }
  }
  const fs::path driver = folder_ / "driver.cu";
  std::ofstream(driver) << source_of(fs::absolute(source), operation, entries_);
  cuda_file::BuildOptions options;
  options.include_folders.push_back(fs::absolute(source).parent_path());
  options.folder = folder_;
  options.with_nvcc = !runtime::kEmulated;
  options.seconds = std::max(options.seconds, limits.seconds);
  built_ = cuda_file::build(driver, options);
  for (cuda_file::Diagnostic& d : built_.diagnostics) {
    if (d.line == 0) d.file = source.string();  // of the file as a whole
  }
  is_there_.assign(entries_.size(), false);
  if (built_.ok()) run({}, {});
}

Program::~Program() {
  std::error_code nobody_asks;
  fs::remove_all(folder_, nobody_asks);
}

std::optional<Form> Program::form(DType dtype) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first == dtype && is_there_[i]) return entries_[i].second;
  }
  return {};
}

DTypes Program::dtypes() const {
  DTypes dtypes;
  for (const DType dtype : kAllDTypes) {
    if (form(dtype)) dtypes = dtypes | DTypes{dtype};
  }
  return dtypes;
}

Signature Program::signature(DType dtype) const {
  const std::optional<Form> its = form(dtype);
  if (its) return {operation_, dtype, *its};
  throw InvalidArgument(
      concatenate("the file's ", operation_.name, "() takes no ", to_string(dtype)));
}

void Program::write_request(std::span<const Instance* const> instances, const Run& how) const {
  std::ofstream out(folder_ / "request", std::ios::binary);
  put(out, static_cast<uint32_t>(instances.size()));
  for (const Instance* instance : instances) {
    const Problem& problem = instance->problem();
    const Signature signature = this->signature(problem.dtype());
    const auto at = std::ranges::find(entries_, std::pair(problem.dtype(), signature.form()));
    const std::vector<Argument>& arguments = signature.arguments();
    put(out, static_cast<int32_t>(at - entries_.begin()));
    put(out, static_cast<uint32_t>(how.poison));
    put(out, static_cast<int32_t>(how.timed_runs));
    put(out, static_cast<int32_t>(operation_.parameters.size()));
    put(out, static_cast<int32_t>(arguments.size()));
    for (size_t i = 0; i < operation_.parameters.size(); ++i) {
      const Tensor& tensor = problem.tensors[i];
      const bool is_read = operation_.parameters[i].is_read();
      const auto size = static_cast<std::streamsize>(bytes_of(tensor));
      put(out, tensor.exists() ? static_cast<int64_t>(size) : int64_t{-1});
      put(out, static_cast<int32_t>(is_read));
      if (is_read && size > 0) out.write(tensor.as<const char>(), size);
    }
    for (const Argument& argument : arguments) {
      const Word word = word_of(argument, *instance);
      put(out, word.kind);
      put(out, word.bits);
    }
  }
  out.close();
  require(out.good(), "cannot write ", (folder_ / "request").string());
}

std::vector<Left> Program::read_response(std::span<const Instance* const> instances,
                                         int timed_runs) {
  std::ifstream file(folder_ / "response", std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  size_t at = 0;
  // Nothing where the rest is not there: the process has ended before.
  const auto take = [&](void* to, size_t bytes) {
    if (all.size() - at < bytes) return false;
    if (bytes > 0) std::memcpy(to, all.data() + at, bytes);
    at += bytes;
    return true;
  };
  uint32_t entries = 0;
  if (!take(&entries, sizeof(entries)) || entries != entries_.size()) return {};
  for (size_t i = 0; i < entries; ++i) {
    char how = 0;
    if (!take(&how, 1)) return {};
    is_there_[i] = how != 0;
  }
  std::vector<Left> all_left;
  for (const Instance* instance : instances) {
    Left left;
    int32_t length = 0;
    if (!take(&length, sizeof(length))) break;
    left.failure.resize(static_cast<size_t>(length));
    if (!take(left.failure.data(), left.failure.size())) break;
    if (left.failure.empty()) {
      size_t bytes = 0;
      for (const Tensor& tensor : instance->problem().tensors) bytes += bytes_of(tensor);
      left.bytes.resize(bytes);
      int32_t timed = 0;
      if (!take(left.bytes.data(), bytes)) break;
      if (timed_runs > 0 && !take(&timed, sizeof(timed))) break;
      left.microseconds.resize(static_cast<size_t>(timed));
      if (!take(left.microseconds.data(), sizeof(float) * left.microseconds.size())) break;
    }
    all_left.push_back(std::move(left));
  }
  return all_left;
}

std::vector<Left> Program::run(std::span<const Instance* const> instances, const Run& how,
                               cuda_file::Outcome* seen) {
  write_request(instances, how);
  fs::remove(folder_ / "response");
  cuda_file::RunOptions options;
  options.arguments = {folder_ / "request", folder_ / "response"};
  options.order = how.order;
  options.profile = how.profile;
  options.capture = true;
  options.seconds = limits_.seconds;
  options.memory_bytes = limits_.memory_bytes;
  cuda_file::Outcome outcome = cuda_file::run(built_, options);
  std::vector<Left> left = read_response(instances, how.timed_runs);
  // On a GPU a fault ends the calls, not the process, and is the last one's failure.
  const bool is_told = !left.empty() && !left.back().failure.empty() && !runtime::kEmulated;
  if (left.size() < instances.size() && !is_told) {
    Left last;
    if (outcome.faults.empty()) {
      last.failure = fmt::format("the program ended with {}{}{}", outcome.exit_code,
                                 outcome.output.empty() ? "" : ":\n", outcome.output);
    } else {
      last.failure = outcome.faults.front().text();
      last.defect_kind = outcome.faults.front().kind;
    }
    left.push_back(std::move(last));
  }
  if (seen != nullptr) *seen = std::move(outcome);
  return left;
}

}  // namespace ws::own_kernel
