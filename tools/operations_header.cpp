// Writes warpsmith/operations.hpp, the catalogue as C++ functions, from a library's own list of it.
// Usage: operations_header LIBRARY OUT    a file that says so already is left alone
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "warpsmith/c_api.h"

namespace {

using Json = nlohmann::ordered_json;

Json catalogue_of(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto ask = reinterpret_cast<decltype(&ws_catalogue)>(dlsym(library, "ws_catalogue"));
  if (ask == nullptr) throw std::runtime_error(dlerror());
  const char* text = nullptr;
  if (ask(&text) != WS_OK) throw std::runtime_error(fmt::format("{}: no catalogue", path));
  return Json::parse(text);
}

// "log_softmax" as LogSoftmax.
std::string type_name(std::string_view name) {
  std::string result;
  bool starts = true;
  for (const char c : name) {
    if (c != '_') result += starts ? static_cast<char>(std::toupper(c)) : c;
    starts = c == '_';
  }
  return result;
}

// Text as `//` lines of at most 100 columns, the second one and on indented further.
std::string comment(std::string_view indent, std::string_view text) {
  constexpr size_t kColumns = 100;
  std::string result;
  std::string line = fmt::format("{}//", indent);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (line.size() + 1 + end - at > kColumns) {
      result += line + "\n";
      line = fmt::format("{}//  ", indent);
    }
    line.append(" ").append(text.substr(at, end - at));
    at = end + 1;
  }
  return result + line + "\n";
}

// What a caller writes of an operation: a tensor or an attribute, the optional ones as a member of
// its options.
struct Member {
  std::string declaration;
  std::string doc;
};

Member member_of(const Json& attribute) {
  const std::string kind = attribute["kind"];
  const Json& standard = attribute["default"];
  const bool required = attribute["required"];
  const bool may_be_absent = standard.is_null() && !required;
  std::string type;
  std::string value = standard.dump();
  if (kind == "choice") {
    std::vector<std::string> names;
    for (const Json& name : attribute["choices"]) names.push_back(name.dump());
    type = fmt::format("Choice<{}>", fmt::join(names, ", "));
  } else if (kind == "dims") {
    type = "Integers";
    if (standard.is_array()) value = fmt::format("{{{}}}", value.substr(1, value.size() - 2));
  } else {
    type = kind == "int" ? "int64_t" : kind == "float" ? "double" : "bool";
    if (required) type = fmt::format("Required<{}>", type);
    if (may_be_absent) type = fmt::format("std::optional<{}>", type);
  }
  if (may_be_absent) value = "std::nullopt";
  const std::string name = attribute["name"];
  return {
      required ? fmt::format("{} {};", type, name) : fmt::format("{} {} = {};", type, name, value),
      attribute["doc"]};
}

// "none" of an optional tensor is an empty Tensor, of an attribute its default.
std::vector<Member> members_of(const Json& operation) {
  std::vector<Member> members;
  for (const Json& p : operation["parameters"]) {
    if (!p["optional"]) continue;
    const std::string_view role = p["role"] == "out" ? "written: " : "";
    members.push_back({fmt::format("Tensor {} = {{}};", p["name"].get<std::string>()),
                       fmt::format("{}{}", role, p["doc"].get<std::string>())});
  }
  for (const Json& a : operation["attributes"]) members.push_back(member_of(a));
  return members;
}

std::string comments_of(const Json& operation) {
  std::string text = comment("", fmt::format("{}: {}", operation["name"].get<std::string>(),
                                             operation["summary"].get<std::string>()));
  text += comment("", fmt::format("  {}", operation["formula"].get<std::string>()));
  for (const Json& p : operation["parameters"]) {
    if (p["optional"]) continue;
    const std::string_view written = p["role"] == "out"     ? " (written)"
                                     : p["role"] == "inout" ? " (read and written)"
                                                            : "";
    std::string doc = p["doc"];
    if (doc.empty()) doc = "shape and dtype of the first tensor";
    text += comment("", fmt::format("{}{}: {}", p["name"].get<std::string>(), written, doc));
  }
  return text;
}

// The options, the call to ask about, and the call that runs.
std::string text_of(const Json& operation) {
  const std::string name = operation["name"];
  const std::string options = type_name(name) + "Options";
  std::vector<std::string> required;  // tensors
  std::vector<std::string> tensors;
  std::vector<std::string> values;
  size_t outputs = 0;
  for (const Json& p : operation["parameters"]) {
    const std::string parameter = p["name"];
    if (!p["optional"]) required.push_back(parameter);
    tensors.push_back(p["optional"] ? "options." + parameter : parameter);
    outputs += p["role"] == "out" ? 1 : 0;
  }
  bool all_have_defaults = true;
  for (const Json& a : operation["attributes"]) {
    values.push_back(fmt::format("detail::encode(options.{})", a["name"].get<std::string>()));
    all_have_defaults = all_have_defaults && !a["required"];
  }
  const std::vector<Member> members = members_of(operation);
  const std::string parameters = fmt::format("\n    const Tensor& {},\n    {}const {}& options{}",
                                             fmt::join(required, ",\n    const Tensor& "),
                                             members.empty() ? "[[maybe_unused]] " : "", options,
                                             all_have_defaults ? " = {}" : "");

  std::string text = fmt::format("struct {} {{\n", options);
  for (const Member& m : members) {
    text += fmt::format("  {}\n{}", m.declaration, m.doc.empty() ? "" : comment("    ", m.doc));
  }
  text += fmt::format(
      "}};\n"
      "namespace prepare {{\n"
      "inline Call<{}, {}, {}> {}({}) {{\n"
      "  static const int32_t kId = detail::id_of(\"{}\");\n"
      "  return {{\"{}\", kId, {{{}}}, {{{}}}}};\n"
      "}}\n"
      "}}  // namespace prepare\n",
      tensors.size(), outputs, values.size(), name, parameters, name, name,
      fmt::join(tensors, ", "), fmt::join(values, ", "));
  text += comments_of(operation);
  text += fmt::format(
      "inline void {}({},\n    void* stream = nullptr) {{\n"
      "  prepare::{}({}, options).run(stream);\n"
      "}}\n\n",
      name, parameters, name, fmt::join(required, ", "));
  return text;
}

std::string header_of(const Json& catalogue) {
  std::string text =
      "// Made from the catalogue by tools/operations_header.cpp: a function for each operation.\n"
      "//\n"
      "//   warpsmith::softmax(x, y, {.bounded = true}, stream);\n"
      "//\n"
      "// takes the tensors that every call has, then as options, in this order, those that may "
      "be\n"
      "// left out and the attributes. It enqueues the call; what is wrong is thrown, as\n"
      "// warpsmith::InvalidArgument or warpsmith::Error. warpsmith::prepare::softmax(x, y) is "
      "the\n"
      "// same call to ask about: workspace(), outputs(), with(\"warp_per_row\"), why_not(), "
      "run().\n"
      "#pragma once\n\n"
      "#include \"warpsmith/cpp_api.hpp\"\n\n"
      "namespace warpsmith {\n\n";
  for (const Json& dtype : catalogue["dtypes"]) {
    text += fmt::format("inline constexpr DLDataType k{} = {{{}, {}, 1}};\n",
                        type_name(dtype["name"].get<std::string>()), dtype["code"].get<int>(),
                        dtype["bits"].get<int>());
  }
  text += "\n";
  for (const Json& family : catalogue["families"]) {
    for (const Json& operation : family["operations"]) text += text_of(operation);
  }
  return text + "}  // namespace warpsmith\n";
}

void write_changed(const char* path, const std::string& text) {
  std::ifstream old(path, std::ios::binary);
  if (old && std::string(std::istreambuf_iterator<char>(old), {}) == text) return;
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) throw std::runtime_error(fmt::format("{} cannot be written", path));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: operations_header LIBRARY OUT\n");
    return 2;
  }
  try {
    write_changed(argv[2], header_of(catalogue_of(argv[1])));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "operations_header: {}\n", error.what());
    return 1;
  }
}
