// JSON that somebody else wrote, read strictly: what is missing or of another kind is an
// InvalidArgument that says where it stands and what it is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/json.hpp"

namespace ws::harness {

// A value as the type asked for. Throws InvalidArgument, "null, not a number", for the caller to
// say of what. Integers are whole and within their type's range.
void read(const Json& json, bool& value);
void read(const Json& json, std::string& value);
void read(const Json& json, double& value);
void read(const Json& json, int& value);
void read(const Json& json, int64_t& value);
void read(const Json& json, uint64_t& value);
void read(const Json& json, std::map<std::string, std::string>& value);
[[noreturn]] void throw_is_not(const Json& json, std::string_view wanted);

template <class T>
void read(const Json& json, std::vector<T>& value) {
  if (!json.is_array()) throw_is_not(json, "a list");
  value.clear();
  for (const Json& entry : json) read(entry, value.emplace_back());
}

// The fields of an object. It refers to the JSON that it is made of.
class Fields {
 public:
  // `where` begins every message: "mine.json: results[3]".
  Fields(const Json& json, std::string where);

  const std::string& where() const { return where_; }
  bool has(const std::string& key) const;  // null stands for nothing
  const Json& at(const std::string& key) const;
  template <class T>
  T get(const std::string& key) const {
    T value{};
    fill(at(key), key, value);
    return value;
  }
  template <class T>
  T get(const std::string& key, T otherwise) const {
    if (has(key)) fill(at(key), key, otherwise);
    return otherwise;
  }
  Fields object(const std::string& key) const;
  std::vector<Fields> objects(const std::string& key) const;  // of a list
  // Throws where there are fields that nobody has asked for.
  void refuse_others() const;

 private:
  template <class T>
  void fill(const Json& json, const std::string& key, T& value) const {
    try {
      read(json, value);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(concatenate(where_, ": '", key, "' is ", error.message()));
    }
  }

  const Json* json_;
  std::string where_;
  mutable std::vector<std::string> asked_;
};

// `what` begins messages. Throws InvalidArgument for a text that is no JSON.
Json parse_json(const std::string& text, const std::string& what);
// The same of a file; also for one that cannot be read.
Json read_json_file(const std::string& path);

}  // namespace ws::harness
