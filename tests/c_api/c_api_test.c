/* The C ABI from C, over the trial family: every call has a status, whatever it is given. */
#include <stdio.h>
#include <string.h>

#include "warpsmith/c_api.h"

static int failures = 0;

/* One line of what went wrong; the rest goes on. */
static void expect(int condition, const char* what, int line) {
  if (condition) return;
  ++failures;
  printf("c_api_test.c:%d: %s; the last error is '%s'\n", line, what, ws_last_error());
}
#define EXPECT(condition) expect((condition) != 0, #condition, __LINE__)
#define EXPECT_INVALID(call, text)                   \
  do {                                               \
    EXPECT((call) == WS_INVALID_ARGUMENT);           \
    EXPECT(strstr(ws_last_error(), (text)) != NULL); \
  } while (0)

static int32_t operation_of(const char* name) {
  ws_address address;
  EXPECT(ws_resolve(name, &address) == WS_OK);
  return address.operation;
}

static DLTensor tensor_of(void* data, int code, int bits, int32_t rank, int64_t* shape) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = rank;
  tensor.dtype.code = (uint8_t)code;
  tensor.dtype.bits = (uint8_t)bits;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static ws_call call_of(int32_t operation, int32_t count, const DLTensor* const* tensors) {
  ws_call call;
  memset(&call, 0, sizeof call);
  call.operation = operation;
  call.rung = WS_BEST;
  call.tensor_count = count;
  call.tensors = tensors;
  return call;
}

static void names(void) {
  ws_address address;
  const char* text = NULL;
  EXPECT(ws_catalogue(&text) == WS_OK);
  EXPECT(strstr(text, "\"row_max\"") != NULL);
  EXPECT_INVALID(ws_catalogue(NULL), "json is a null pointer");
  EXPECT(ws_resolve("clip/plain", &address) == WS_OK);
  EXPECT(address.rung == 0);
  EXPECT(ws_resolve("clip", &address) == WS_OK);
  EXPECT(address.rung == WS_BEST);
  EXPECT_INVALID(ws_resolve("clop", &address), "did you mean 'clip'");
  EXPECT_INVALID(ws_resolve(NULL, &address), "name is a null pointer");
  EXPECT_INVALID(ws_resolve("clip", NULL), "address is a null pointer");
}

/* Several outputs of different dtypes; what is only asked about is left out. */
static void several_outputs(void) {
  float x[6] = {1, 5, 2, 9, 7, 8};
  float value[2] = {0, 0};
  int64_t place[2] = {-1, -1};
  int64_t shape[2] = {2, 3};
  DLTensor in = tensor_of(x, kDLFloat, 32, 2, shape);
  DLTensor first = tensor_of(value, kDLFloat, 32, 1, shape);
  DLTensor second = tensor_of(place, kDLInt, 64, 1, shape);
  const DLTensor* tensors[3] = {&in, &first, &second};
  ws_output outputs[2];
  size_t bytes = 1;
  size_t zeroed = 1;
  ws_rung rung = 0;
  const char* reason = NULL;

  ws_call call = call_of(operation_of("row_max"), 1, tensors);
  EXPECT(ws_infer(&call, outputs) == WS_OK);
  EXPECT(outputs[0].ndim == 1 && outputs[0].shape[0] == 2 && outputs[0].dtype.code == kDLFloat);
  EXPECT(outputs[1].ndim == 1 && outputs[1].dtype.code == kDLInt && outputs[1].dtype.bits == 64);
  EXPECT(ws_workspace(&call, &bytes, &zeroed) == WS_OK);
  EXPECT(bytes == 0 && zeroed == 0);
  EXPECT(ws_choose(&call, &rung) == WS_OK);
  EXPECT(rung == 0);
  call.rung = rung;
  EXPECT(ws_supports(&call, &reason) == WS_OK);
  EXPECT(reason != NULL && reason[0] == '\0');
  EXPECT_INVALID(ws_run(&call), "has no data");

  call.tensor_count = 3;
  EXPECT(ws_run(&call) == WS_OK);
  EXPECT(value[0] == 5 && value[1] == 9 && place[0] == 1 && place[1] == 0);
  call.rung = 1;
  EXPECT(ws_supports(&call, &reason) == WS_OK);
  EXPECT(strstr(reason, "computes total") != NULL);
  EXPECT_INVALID(ws_run(&call), "does not take");
  call.rung = 999;
  EXPECT_INVALID(ws_run(&call), "999");
  call.rung = -2;
  EXPECT_INVALID(ws_run(&call), "no rung has the number -2");
  call.rung = INT64_C(5) << 48; /* what ws_resolve says has the family in it */
  EXPECT_INVALID(ws_run(&call), "no rung has the number");
  call.rung = WS_BEST;
  call.operation = 999;
  EXPECT_INVALID(ws_run(&call), "999");
}

/* Values of every kind; optional tensors; in-out ones. */
static void values(void) {
  float x[2] = {1, 2};
  int64_t shape[2] = {1, 2};
  int64_t large[1] = {INT64_C(1) << 60};
  int64_t shifted[1] = {0};
  int64_t one[1] = {1};
  float sum[1] = {0};
  float y[2] = {0, 0};
  ws_value attributes[2];
  memset(attributes, 0, sizeof attributes);

  DLTensor in = tensor_of(x, kDLFloat, 32, 2, shape);
  const DLTensor* in_out[1] = {&in};
  ws_call call = call_of(operation_of("scale_in_place"), 1, in_out);
  attributes[0].kind = WS_FLOAT;
  attributes[0].number = 0.5;
  call.attribute_count = 1;
  call.attributes = attributes;
  EXPECT(ws_run(&call) == WS_OK);
  EXPECT(x[0] == 0.5F && x[1] == 1);
  attributes[0].kind = WS_DIMS;
  EXPECT_INVALID(ws_run(&call), "factor");
  attributes[0].kind = 99;
  EXPECT_INVALID(ws_run(&call), "kind 99");
  call.attribute_count = 2;
  EXPECT_INVALID(ws_run(&call), "kind 99");
  attributes[0].kind = WS_UNSET;
  EXPECT_INVALID(ws_run(&call), "1 attributes, got 2");
  call.attribute_count = -1;
  EXPECT_INVALID(ws_run(&call), "attributes: -1");
  call.attribute_count = 1;
  call.attributes = NULL;
  EXPECT_INVALID(ws_run(&call), "attributes is a null pointer");

  DLTensor integers = tensor_of(large, kDLInt, 64, 1, one);
  DLTensor results = tensor_of(shifted, kDLInt, 64, 1, one);
  const DLTensor* both[2] = {&integers, &results};
  call = call_of(operation_of("shift"), 2, both);
  EXPECT_INVALID(ws_run(&call), "by");
  attributes[0].kind = WS_INT;
  attributes[0].integer = 1;
  call.attribute_count = 1;
  call.attributes = attributes;
  EXPECT(ws_run(&call) == WS_OK);
  EXPECT(shifted[0] == (INT64_C(1) << 60) + 1);

  DLTensor total = tensor_of(sum, kDLFloat, 32, 1, one);
  const DLTensor* reduced[2] = {&in, &total};
  call = call_of(operation_of("total"), 2, reduced);
  attributes[0].kind = WS_DIMS;
  attributes[0].count = 1;
  attributes[0].dims[0] = -1;
  call.attribute_count = 1;
  call.attributes = attributes;
  EXPECT(ws_run(&call) == WS_OK || strstr(ws_last_error(), "workspace") != NULL);
  attributes[0].count = 9;
  EXPECT_INVALID(ws_run(&call), "9 dimensions");
  attributes[0].count = 1;
  attributes[0].dims[0] = 1000;
  EXPECT_INVALID(ws_run(&call), "1000");

  /* y = x, without a weight and without sums. */
  DLTensor out = tensor_of(y, kDLFloat, 32, 2, shape);
  const DLTensor* sparse[4] = {&in, NULL, &out, NULL};
  ws_output outputs[2];
  call = call_of(operation_of("weigh"), 4, sparse);
  EXPECT(ws_run(&call) == WS_OK);
  EXPECT(y[0] == 0.5F && y[1] == 1);
  EXPECT(ws_infer(&call, outputs) == WS_OK);
  EXPECT(outputs[0].ndim == 2 && outputs[1].ndim == -1);
  sparse[0] = NULL;
  EXPECT_INVALID(ws_run(&call), "'x' is missing");
}

/* A counter at the beginning of the workspace. */
static void workspace(void) {
  float x[6] = {1, 2, 3, 4, 5, 6};
  float y[2] = {0, 0};
  int64_t shape[2] = {2, 3};
  _Alignas(256) unsigned char memory[256] = {0};
  ws_value attribute;
  ws_address address;
  size_t bytes = 0;
  size_t zeroed = 0;
  memset(&attribute, 0, sizeof attribute);
  attribute.kind = WS_INT; /* a single dimension */
  attribute.integer = 1;
  EXPECT(ws_resolve("total/tickets", &address) == WS_OK);
  DLTensor in = tensor_of(x, kDLFloat, 32, 2, shape);
  DLTensor out = tensor_of(y, kDLFloat, 32, 1, shape);
  const DLTensor* tensors[2] = {&in, &out};
  ws_call call = call_of(address.operation, 2, tensors);
  call.rung = address.rung;
  call.attribute_count = 1;
  call.attributes = &attribute;
  EXPECT(ws_workspace(&call, &bytes, &zeroed) == WS_OK);
  EXPECT(bytes == 4 && zeroed == 4);
  EXPECT_INVALID(ws_run(&call), "workspace of 4 bytes, got 0");
  call.workspace_bytes = 4;
  EXPECT_INVALID(ws_run(&call), "workspace is a null pointer");
  call.workspace = memory + 4;
  EXPECT_INVALID(ws_run(&call), "256-byte aligned");
  call.workspace = memory;
  for (int i = 0; i < 3; ++i) {
    EXPECT(ws_run(&call) == WS_OK);
    EXPECT(y[0] == 6 && y[1] == 15);
    y[0] = y[1] = 0;
  }
  EXPECT_INVALID(ws_workspace(&call, NULL, &zeroed), "bytes is a null pointer");
  EXPECT_INVALID(ws_workspace(&call, &bytes, NULL), "zeroed is a null pointer");
}

static void null_pointers_and_counts(void) {
  const DLTensor* tensors[1] = {NULL};
  ws_call call = call_of(0, 1, NULL);
  ws_output outputs[2];
  ws_rung rung;
  size_t bytes;
  size_t zeroed;
  const char* text;
  ws_peer peer = {NULL, NULL, NULL};

  EXPECT_INVALID(ws_infer(NULL, outputs), "call is a null pointer");
  EXPECT_INVALID(ws_supports(NULL, &text), "call is a null pointer");
  EXPECT_INVALID(ws_choose(NULL, &rung), "call is a null pointer");
  EXPECT_INVALID(ws_workspace(NULL, &bytes, &zeroed), "call is a null pointer");
  EXPECT_INVALID(ws_run(NULL), "call is a null pointer");
  EXPECT_INVALID(ws_run(&call), "tensors is a null pointer");
  call.tensor_count = -1;
  EXPECT_INVALID(ws_run(&call), "tensors: -1");
  call.tensor_count = 1000;
  EXPECT_INVALID(ws_run(&call), "tensors: 1000");
  call.tensor_count = 0;
  EXPECT_INVALID(ws_run(&call), "no tensors");
  call.tensor_count = 1;
  call.tensors = tensors;
  EXPECT_INVALID(ws_run(&call), "no tensors");

  float x[1] = {0};
  int64_t shape[1] = {1};
  DLTensor tensor = tensor_of(x, kDLFloat, 32, 1, shape);
  tensors[0] = &tensor;
  EXPECT_INVALID(ws_infer(&call, NULL), "outputs is a null pointer");
  EXPECT_INVALID(ws_supports(&call, NULL), "reason is a null pointer");
  EXPECT_INVALID(ws_choose(&call, NULL), "rung is a null pointer");

  EXPECT_INVALID(ws_verify(NULL, &text), "options is a null pointer");
  EXPECT_INVALID(ws_verify("{}", NULL), "json is a null pointer");
  EXPECT_INVALID(ws_verify("{", &text), "JSON");
  EXPECT(strstr(ws_last_error(), "json.exception") == NULL);
  EXPECT_INVALID(ws_verify("null", &text), "the options: null, not an object");
  EXPECT_INVALID(ws_verify("[]", &text), "a list, not an object");
  EXPECT_INVALID(ws_verify("{\"name\": [\"clip\"]}", &text), "there is no 'name'; there are");
  EXPECT_INVALID(ws_verify("{\"seed\": -1}", &text), "'seed' is -1, not a whole number from 0");
  EXPECT_INVALID(ws_verify("{\"shapes\": [[1e30]]}", &text),
                 "'shapes' is 1e+30, not a whole number");
  EXPECT_INVALID(ws_verify("{\"names\": \"clip\"}", &text), "'names' is \"clip\", not a list");
  EXPECT_INVALID(
      ws_verify("{\"offset\": 2000000000, \"shapes\": [[2, 2]], \"names\": [\"clip\"]}", &text),
      "offset 2000000000: from 0 to 4096");
  EXPECT_INVALID(ws_verify("{\"time\": 1e-9, \"names\": [\"clip\"]}", &text), "takes about");
  EXPECT_INVALID(ws_bench("{\"window\": 3}", NULL, 0, NULL, &text), "there is no 'window'");
  EXPECT_INVALID(ws_bench(NULL, NULL, 0, NULL, &text), "options is a null pointer");
  EXPECT_INVALID(ws_bench("{}", NULL, 0, NULL, NULL), "json is a null pointer");
  EXPECT_INVALID(ws_bench("{}", NULL, 1, NULL, &text), "peers is a null pointer");
  EXPECT_INVALID(ws_bench("{}", &peer, -1, NULL, &text), "peers: -1");
  EXPECT_INVALID(ws_bench("{}", &peer, 1, NULL, &text), "name is a null pointer");
  peer.name = "one";
  EXPECT_INVALID(ws_bench("{}", &peer, 1, NULL, &text), "enqueue is a null pointer");
  EXPECT_INVALID(ws_synchronize(-1, NULL), "device -1");
  EXPECT_INVALID(ws_check(1000), "device 1000");
  EXPECT(ws_check(0) == WS_OK);
  EXPECT(ws_synchronize(0, NULL) == WS_OK);
}

/* Tensors that cannot be what they say. */
static void absurd_tensors(void) {
  float x[4] = {0};
  int64_t shape[2] = {2, 2};
  int64_t strides[2] = {2, 1};
  DLTensor in = tensor_of(x, kDLFloat, 32, 2, shape);
  const DLTensor* tensors[2] = {&in, &in};
  ws_call call = call_of(operation_of("weigh"), 1, tensors);
  const int64_t extents[][2] = {{INT64_C(4294967296), INT64_C(4294967296)},
                                {INT64_C(4611686018427387904), 4},
                                {INT64_C(3037000500), INT64_C(3037000500)},
                                {INT64_C(9223372036854775807), 1},
                                {-1, 2}};
  for (int with_strides = 0; with_strides < 2; ++with_strides) {
    in.strides = with_strides ? strides : NULL;
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; ++i) {
      shape[0] = extents[i][0];
      shape[1] = extents[i][1];
      EXPECT(ws_run(&call) == WS_INVALID_ARGUMENT);
      EXPECT(strstr(ws_last_error(), "any memory") != NULL ||
             strstr(ws_last_error(), "negative") != NULL);
    }
  }
  shape[0] = shape[1] = 2;
  strides[0] = INT64_C(9223372036854775807);
  EXPECT_INVALID(ws_run(&call), "any memory");
  in.strides = NULL;
  in.ndim = -1;
  EXPECT_INVALID(ws_run(&call), "-1 dimensions");
  in.ndim = 7;
  EXPECT_INVALID(ws_run(&call), "7 dimensions");
  in.ndim = 2;
  in.shape = NULL;
  EXPECT_INVALID(ws_run(&call), "without a shape");
  in.shape = shape;
  in.dtype.bits = 24;
  EXPECT_INVALID(ws_run(&call), "float24");
  in.dtype.bits = 32;
  in.byte_offset = 2;
  EXPECT_INVALID(ws_run(&call), "multiple of the 4 bytes");
  in.byte_offset = 0;
  in.device.device_type = kDLCUDA;
  EXPECT_INVALID(ws_run(&call), "CUDA device 0");
  in.device.device_type = kDLCPU;
  in.data = NULL;
  call.tensor_count = 1;
  EXPECT_INVALID(ws_run(&call), "no data");
}

/* An index that only the kernel can find wrong. */
static void device_errors(void) {
  float x[2] = {1, 2};
  int64_t index[2] = {1, 5};
  float y[2] = {-1, -1};
  int64_t shape[1] = {2};
  DLTensor in = tensor_of(x, kDLFloat, 32, 1, shape);
  DLTensor where = tensor_of(index, kDLInt, 64, 1, shape);
  DLTensor out = tensor_of(y, kDLFloat, 32, 1, shape);
  const DLTensor* tensors[3] = {&in, &where, &out};
  ws_call call = call_of(operation_of("take"), 3, tensors);
  EXPECT_INVALID(ws_run(&call), "index 5 at position 1");
  EXPECT(y[0] == 2 && y[1] == -1);
  EXPECT(ws_check(0) == WS_OK); /* told once */
  out.data = x;
  EXPECT_INVALID(ws_run(&call), "shares memory with 'x'");
}

int main(void) {
  names();
  several_outputs();
  values();
  workspace();
  null_pointers_and_counts();
  absurd_tensors();
  device_errors();
  printf(failures == 0 ? "all is as it should be\n" : "%d expectations failed\n", failures);
  return failures != 0;
}
