#include "harness/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

namespace ws::harness {
namespace {

// "a list", "the number -1", "null"
std::string description(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "a list";
    case Json::value_t::discarded: return "nothing";
    default: return json.dump(-1, ' ', true, Json::error_handler_t::replace);
  }
}

template <class T>
void read_integer(const Json& json, T& value) {
  using Limits = std::numeric_limits<T>;
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<T>(json.get<uint64_t>())
                        : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
  if (!fits) {
    throw_is_not(json, fmt::format("a whole number from {} to {}", Limits::min(), Limits::max()));
  }
  value = json.get<T>();
}

// What the library says, without its own names in front: "[json.exception.parse_error.101] ...".
std::string told(const Json::exception& error) {
  const std::string text = error.what();
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

void throw_is_not(const Json& json, std::string_view wanted) {
  throw InvalidArgument(concatenate(description(json), ", not ", wanted));
}

void read(const Json& json, bool& value) {
  if (!json.is_boolean()) throw_is_not(json, "true or false");
  value = json.get<bool>();
}
void read(const Json& json, std::string& value) {
  if (!json.is_string()) throw_is_not(json, "a text");
  value = json.get<std::string>();
}
void read(const Json& json, double& value) {
  if (!json.is_number()) throw_is_not(json, "a number");
  value = json.get<double>();
}
void read(const Json& json, int& value) { read_integer(json, value); }
void read(const Json& json, int64_t& value) { read_integer(json, value); }
void read(const Json& json, uint64_t& value) { read_integer(json, value); }
void read(const Json& json, std::map<std::string, std::string>& value) {
  if (!json.is_object()) throw_is_not(json, "an object");
  for (const auto& [key, text] : json.items()) read(text, value[key]);
}

Fields::Fields(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {
  if (json.is_object()) return;
  throw InvalidArgument(concatenate(where_, ": ", description(json), ", not an object"));
}

bool Fields::has(const std::string& key) const {
  asked_.push_back(key);
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

const Json& Fields::at(const std::string& key) const {
  asked_.push_back(key);
  const auto found = json_->find(key);
  require(found != json_->end(), where_, ": there is no '", key, "'");
  return *found;
}

Fields Fields::object(const std::string& key) const {
  return {at(key), concatenate(where_, ": '", key, "'")};
}

std::vector<Fields> Fields::objects(const std::string& key) const {
  const Json& list = at(key);
  if (!list.is_array()) {
    throw InvalidArgument(
        concatenate(where_, ": '", key, "' is ", description(list), ", not a list"));
  }
  std::vector<Fields> all;
  for (size_t i = 0; i < list.size(); ++i) {
    all.emplace_back(list[i], concatenate(where_, ": ", key, "[", i, "]"));
  }
  return all;
}

void Fields::refuse_others() const {
  for (const auto& [key, value] : json_->items()) {
    if (std::ranges::find(asked_, key) != asked_.end()) continue;
    std::vector<std::string> known = asked_;
    std::ranges::sort(known);
    known.erase(std::unique(known.begin(), known.end()), known.end());
    throw InvalidArgument(
        fmt::format("{}: there is no '{}'; there are {}", where_, key, fmt::join(known, ", ")));
  }
}

Json parse_json(const std::string& text, const std::string& what) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw InvalidArgument(concatenate(what, " is no JSON: ", told(error)));
  }
}

Json read_json_file(const std::string& path) {
  std::error_code ignored;
  require(!std::filesystem::is_directory(path, ignored), "cannot read ", path,
          ": it is a directory");
  std::ifstream file(path);
  require(file.good(), "cannot read ", path.empty() ? "''" : path);
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    throw InvalidArgument(concatenate(path, " is no JSON: ", told(error)));
  } catch (const std::ios_base::failure&) {
    throw InvalidArgument(concatenate("cannot read ", path));
  }
}

}  // namespace ws::harness
