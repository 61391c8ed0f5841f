// Random calls of the C ABI, over the whole catalogue: each returns a status, and says why.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "warpsmith/c_api.h"

namespace {

using Json = nlohmann::json;
using ws::fuzz::Chance;

int failures = 0;
int ran = 0;  // to their end

struct Row {
  int32_t id = 0;
  std::string name;
  size_t parameters = 0;
  std::vector<bool> is_output;  // by parameter
  std::vector<std::string> rungs;
};

std::vector<Row> operations() {
  const char* text = nullptr;
  if (ws_catalogue(&text) != WS_OK) return {};
  std::vector<Row> rows;
  const Json catalogue = Json::parse(text);
  for (const Json& family : catalogue["families"]) {
    for (const Json& operation : family["operations"]) {
      Row& row = rows.emplace_back();
      row.id = operation["id"];
      row.name = operation["name"];
      row.parameters = operation["parameters"].size();
      for (const Json& parameter : operation["parameters"]) {
        row.is_output.push_back(parameter["role"] == "out");
      }
      for (const Json& rung : family["rungs"]) row.rungs.push_back(rung["name"]);
    }
  }
  return rows;
}

// A tensor and its own memory, which ends where the tensor does.
struct Owned {
  DLTensor tensor{};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::unique_ptr<char[]> memory;
  bool is_backed = true;
};

DLDataType dtype_of(Chance& chance) {
  static const std::vector<DLDataType> kKnown = {
      {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 64, 1},
      {kDLInt, 64, 1},   {kDLInt, 32, 1},   {kDLBool, 8, 1},    {kDLUInt, 8, 1}};
  if (!chance.one_in(12)) return chance.of(kKnown);
  return {static_cast<uint8_t>(chance.between(0, 255)),
          static_cast<uint8_t>(chance.between(0, 255)),
          static_cast<uint16_t>(chance.between(0, 3))};
}

int64_t extent_of(Chance& chance) {
  if (!chance.one_in(15)) return chance.between(0, 8);
  return chance.of<int64_t>({-1, INT64_MIN, INT64_MAX, int64_t{1} << 32, int64_t{1} << 62});
}

// The memory is that of the shape where it can be; a tensor without is only asked about.
void make(Chance& chance, DLDataType dtype, Owned& owned) {
  constexpr int64_t kMost = 1 << 20;
  const auto rank = static_cast<size_t>(chance.between(0, 4));
  for (size_t d = 0; d < rank; ++d) owned.shape.push_back(extent_of(chance));
  if (chance.one_in(4)) {
    for (size_t d = 0; d < rank; ++d) owned.strides.push_back(extent_of(chance));
  }
  int64_t reach = 1;
  int64_t dense = 1;
  for (size_t d = rank; d-- > 0;) {
    const int64_t extent = owned.shape[d];
    const int64_t stride = owned.strides.empty() ? dense : owned.strides[d];
    if (extent < 0 || extent > 8 || stride < 0 || stride > kMost) owned.is_backed = false;
    if (!owned.is_backed) break;
    reach += std::max<int64_t>(extent - 1, 0) * stride;
    dense *= extent;
  }
  const size_t bytes =
      owned.is_backed ? static_cast<size_t>(reach) * ((dtype.bits + 7U) / 8U) * dtype.lanes : 8;
  owned.memory = std::make_unique<char[]>(std::max<size_t>(bytes, 1));
  owned.tensor.data = chance.one_in(20) ? nullptr : owned.memory.get();
  owned.tensor.device = {kDLCPU, 0};
  if (chance.one_in(40)) {
    owned.tensor.device = {static_cast<DLDeviceType>(chance.between(0, 20)),
                           static_cast<int32_t>(chance.between(-1, 3))};
  }
  owned.tensor.ndim = static_cast<int32_t>(rank);
  if (chance.one_in(40)) owned.tensor.ndim = chance.of<int32_t>({-1, 7, INT32_MAX, INT32_MIN});
  owned.is_backed = owned.is_backed && owned.tensor.ndim == static_cast<int32_t>(rank);
  owned.tensor.dtype = dtype;
  owned.tensor.shape = chance.one_in(40) ? nullptr : owned.shape.data();
  owned.tensor.strides = owned.strides.empty() ? nullptr : owned.strides.data();
}

ws_value value_of(Chance& chance) {
  ws_value value{};
  value.kind = static_cast<int32_t>(chance.between(-1, 8));
  value.count = static_cast<int32_t>(chance.between(-2, 10));
  if (value.kind == WS_FLOAT) {
    value.number = chance.of<double>({0, 1, -1, 0.5, 1e308, INFINITY, NAN});
  } else {
    for (int64_t& dim : value.dims) {
      dim = chance.one_in(8) ? chance.of<int64_t>({INT64_MIN, INT64_MAX, 1 << 20})
                             : chance.between(-2, 4);
    }
  }
  return value;
}

std::string options_of(Chance& chance, const std::vector<Row>& rows) {
  static const std::vector<std::string> kWhole = {"null", "[]", "1", "\"x\"", "{", "", "{}x"};
  if (chance.one_in(6)) return chance.of(kWhole);
  // One rung on small shapes: verified whole, an operation may take minutes.
  const Row& row = chance.of(rows);
  const std::string name = row.name + "/" + chance.of(row.rungs);
  Json options = {{"time", 0.01}, {"names", {name}}, {"cases", "smoke"}};
  static const std::vector<std::string> kKeys = {"names",      "dtypes",        "cases",  "shapes",
                                                 "seed",       "time",          "memory", "offset",
                                                 "attributes", "no_such_option"};
  static const std::vector<Json> kValues = {
      nullptr, -1,       0,    1.5,      1e300,   UINT64_MAX,     "",        "smoke", true, "f7",
      {-1},    {{2, 3}}, {{}}, {{1e30}}, {"f32"}, Json::object(), {{"k", 1}}};
  for (int64_t i = chance.between(0, 3); i > 0; --i) options[chance.of(kKeys)] = chance.of(kValues);
  return options.dump();
}

void judge(ws_status status, const char* what, uint64_t seed, uint64_t number) {
  std::string fault;
  if (status < WS_OK || status > WS_ERROR) fault = "no status";
  if (status != WS_OK && *ws_last_error() == '\0') fault = "no message";
  if (status != WS_OK && fault.empty()) fault = ws::fuzz::fault_of_message(ws_last_error());
  if (fault.empty()) return;
  ++failures;
  std::printf("WARPSMITH_FUZZ_SEED=%llu, case %llu: %s: %s: '%s'\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(number), what,
              fault.c_str(), ws_last_error());
}

void run(ws_call call, size_t bytes, size_t told, uint64_t seed, uint64_t number) {
  std::vector<char> workspace(bytes + 256);
  const size_t past = reinterpret_cast<uintptr_t>(workspace.data()) % 256;
  call.workspace = workspace.data() + (past == 0 ? 0 : 256 - past);
  call.workspace_bytes = told;
  const ws_status status = ws_run(&call);
  judge(status, "ws_run", seed, number);
  if (status == WS_OK) ++ran;
}

// Every function on one call, and ws_run where the tensors are what they say.
void try_call(Chance& chance, const std::vector<Row>& rows, uint64_t seed, uint64_t number) {
  const Row& row = chance.of(rows);
  const DLDataType dtype = dtype_of(chance);
  std::vector<Owned> owned(row.parameters);
  std::vector<const DLTensor*> tensors;
  bool is_backed = true;
  for (Owned& one : owned) {
    make(chance, chance.one_in(4) ? dtype_of(chance) : dtype, one);
    is_backed = is_backed && one.is_backed;
    tensors.push_back(chance.one_in(10) ? nullptr : &one.tensor);
  }
  std::vector<ws_value> values;
  for (int64_t i = chance.between(0, 4); i > 0; --i) values.push_back(value_of(chance));
  ws_call call{};
  call.operation = chance.one_in(20) ? chance.of<int32_t>({-1, INT32_MIN, INT32_MAX}) : row.id;
  call.rung = WS_BEST;
  ws_address address{};
  if (chance.one_in(2)) {  // perhaps of another family
    const std::string name = row.name + "/" + chance.of(chance.of(rows).rungs);
    judge(ws_resolve(name.c_str(), &address), "ws_resolve", seed, number);
    call.rung = address.rung;
  }
  if (chance.one_in(10)) call.rung = chance.of<int64_t>({-2, 99, INT64_MIN, INT64_MAX, 1 << 16});
  call.tensor_count = static_cast<int32_t>(tensors.size());
  if (chance.one_in(15)) call.tensor_count = chance.of<int32_t>({-1, 0, 17, INT32_MAX, INT32_MIN});
  if (call.tensor_count > static_cast<int32_t>(tensors.size()) && call.tensor_count <= 16) return;
  call.tensors = chance.one_in(30) ? nullptr : tensors.data();
  call.attribute_count = static_cast<int32_t>(values.size());
  if (chance.one_in(15)) call.attribute_count = chance.of<int32_t>({-1, 0, 17, INT32_MIN});
  call.attributes = chance.one_in(30) ? nullptr : values.data();

  ws_output outputs[16];
  const char* reason = nullptr;
  ws_rung rung = 0;
  size_t bytes = 0;
  size_t zeroed = 0;
  judge(ws_infer(&call, chance.one_in(20) ? nullptr : outputs), "ws_infer", seed, number);
  judge(ws_supports(&call, chance.one_in(20) ? nullptr : &reason), "ws_supports", seed, number);
  judge(ws_choose(&call, chance.one_in(20) ? nullptr : &rung), "ws_choose", seed, number);
  const ws_status asked = ws_workspace(&call, &bytes, &zeroed);
  judge(asked, "ws_workspace", seed, number);
  if (asked != WS_OK || !is_backed || bytes > (size_t{1} << 24)) return;
  run(call, bytes, chance.one_in(10) ? bytes / 2 : bytes, seed, number);
}

// A dense tensor with memory of its own.
Owned dense(DLDataType dtype, std::vector<int64_t> shape) {
  Owned owned;
  owned.shape = std::move(shape);
  size_t bytes = (dtype.bits + 7U) / 8U;
  for (const int64_t extent : owned.shape) bytes *= static_cast<size_t>(extent);
  owned.memory = std::make_unique<char[]>(std::max<size_t>(bytes, 1));
  owned.tensor = {.data = owned.memory.get(),
                  .device = {kDLCPU, 0},
                  .ndim = static_cast<int32_t>(owned.shape.size()),
                  .dtype = dtype,
                  .shape = owned.shape.data(),
                  .strides = nullptr,
                  .byte_offset = 0};
  return owned;
}

// Inputs of one shape and outputs as they are asked for: many operations run these.
void try_plain_call(Chance& chance, const std::vector<Row>& rows, uint64_t seed, uint64_t number) {
  const Row& row = chance.of(rows);
  static const std::vector<DLDataType> kDTypes = {
      {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}};
  const DLDataType dtype = chance.of(kDTypes);
  const std::vector<int64_t> shape(static_cast<size_t>(chance.between(1, 3)),
                                   chance.between(0, 40));
  std::vector<Owned> owned(row.parameters);
  std::vector<const DLTensor*> tensors(row.parameters, nullptr);
  for (size_t i = 0; i < row.parameters; ++i) {
    if (row.is_output[i]) continue;
    owned[i] = dense(dtype, shape);
    tensors[i] = &owned[i].tensor;
  }
  ws_call call{};
  call.operation = row.id;
  call.rung = WS_BEST;
  call.tensor_count = static_cast<int32_t>(tensors.size());
  call.tensors = tensors.data();
  ws_output outputs[16];
  const ws_status inferred = ws_infer(&call, outputs);
  judge(inferred, "ws_infer", seed, number);
  if (inferred != WS_OK) return;
  size_t next = 0;
  for (size_t i = 0; i < row.parameters; ++i) {
    if (!row.is_output[i]) continue;
    const ws_output& output = outputs[next++];
    if (output.ndim < 0) continue;
    owned[i] = dense(output.dtype, {output.shape, output.shape + output.ndim});
    tensors[i] = &owned[i].tensor;
  }
  size_t bytes = 0;
  size_t zeroed = 0;
  const ws_status asked = ws_workspace(&call, &bytes, &zeroed);
  judge(asked, "ws_workspace", seed, number);
  if (asked != WS_OK || bytes > (size_t{1} << 24)) return;
  run(call, bytes, bytes, seed, number);
}

void try_text(Chance& chance, const std::vector<Row>& rows, uint64_t seed, uint64_t number) {
  ws_address address{};
  const char* json = nullptr;
  const std::string& name = chance.of(ws::fuzz::nasty_texts());
  judge(ws_resolve(name.c_str(), &address), "ws_resolve", seed, number);
  const std::string options = options_of(chance, rows);
  judge(ws_verify(options.c_str(), &json), "ws_verify", seed, number);
  judge(ws_bench(options.c_str(), nullptr, static_cast<int32_t>(chance.between(-1, 1)), nullptr,
                 &json),
        "ws_bench", seed, number);
}

}  // namespace

int main() {
  const std::vector<Row> rows = operations();
  if (rows.size() < 50) return 1;
  const uint64_t seed = ws::fuzz::seed_of_environment();
  const uint64_t calls =
      ws::fuzz::repeat_for(ws::fuzz::seconds_of_environment(8), [&](uint64_t number) {
        Chance chance(seed, number);
        if (chance.one_in(20)) return try_text(chance, rows, seed, number);
        if (chance.one_in(3)) return try_plain_call(chance, rows, seed, number);
        try_call(chance, rows, seed, number);
      });
  std::printf("%llu calls, of which %d ran; %d not as they should be\n",
              static_cast<unsigned long long>(calls), ran, failures);
  return failures == 0 && ran > 0 ? 0 : 1;
}
