/* Warpsmith's C ABI: every operation of the catalogue over DLPack tensors. No torch, no Python.
 *
 * There are two builds of this library with the same interface: the emulated one takes CPU tensors
 * and needs no GPU, the CUDA one takes CUDA tensors. A process may load both (RTLD_LOCAL).
 *
 * Every function returns a ws_status, also for pointers that are null and counts that are negative;
 * the text of the last failure on the calling thread is ws_last_error(). They are thread-safe, and
 * none but those that say so allocates device memory or waits for the device. */
#ifndef WARPSMITH_C_API_H_
#define WARPSMITH_C_API_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WS_API __attribute__((visibility("default")))

typedef enum {
  WS_OK = 0,
  WS_INVALID_ARGUMENT = 1, /* the caller's mistake: a shape, dtype, device, name or null pointer */
  WS_ERROR = 2             /* anything else: the device, a library, the kernel */
} ws_status;

/* A rung as calls name it: from ws_resolve or ws_choose, or WS_BEST for the fastest that takes the
 * problem. It knows its family: a call of another one refuses it. */
typedef int64_t ws_rung;
#define WS_BEST ((ws_rung) - 1)

typedef enum {
  WS_UNSET = 0,  /* the attribute's default */
  WS_ABSENT = 1, /* none, where the attribute may be */
  WS_BOOL = 2,   /* integer: 0 or 1 */
  WS_INT = 3,    /* integer */
  WS_FLOAT = 4,  /* number */
  WS_CHOICE = 5, /* integer: the index among the attribute's choices */
  WS_DIMS = 6    /* dims[0 .. count) */
} ws_kind;

/* The value of an attribute. An integer also stands for a bool, float, choice or one dimension. */
typedef struct {
  int32_t kind;  /* ws_kind */
  int32_t count; /* of dimensions: at most 8 */
  union {
    int64_t integer;
    double number;
    int64_t dims[8]; /* negative ones count from the end */
  };
} ws_value;

/* One call of one operation. */
typedef struct {
  int32_t operation; /* "id" in ws_catalogue */
  ws_rung rung;
  int32_t tensor_count; /* trailing ones may be left out */
  /* In the order of the catalogue's parameters; null: an optional one that is left out, or an
   * output that the call is only asked about. */
  const DLTensor* const* tensors;
  int32_t attribute_count;    /* trailing ones may be left out: they have their defaults */
  const ws_value* attributes; /* in the catalogue's order */
  void* stream;               /* cudaStream_t; not used by the emulated build */
  void* workspace;            /* as ws_workspace says, on the device, 256-byte aligned */
  size_t workspace_bytes;
} ws_call;

/* A name of the catalogue, taken apart. */
typedef struct {
  int32_t family;
  int32_t operation; /* -1 where the name is a family's alone */
  ws_rung rung;      /* WS_BEST where the name has no rung; a seed name also fixes the dtypes */
} ws_address;

/* Shape and dtype of an output. */
typedef struct {
  DLDataType dtype;
  int32_t ndim; /* -1: the call has no such output */
  int64_t shape[8];
} ws_output;

/* The last failure on this thread; "" before the first. Valid until the next failure. */
WS_API const char* ws_last_error(void);

/* The catalogue as JSON, as `warpsmith list --json`; valid for the life of the process.
 * catalogue/catalogue_json.hpp says what it has. */
WS_API ws_status ws_catalogue(const char** json);

/* "softmax", "softmax/warp_per_row" or a seed name; near names are suggested on failure. */
WS_API ws_status ws_resolve(const char* name, ws_address* address);

/* The calls below look at what is read; outputs may be left out, or brought without data. */

/* outputs[k]: what the call's output k has to be, of the parameters whose role is "out". */
WS_API ws_status ws_infer(const ws_call* call, ws_output* outputs);
/* *reason: why the rung does not take the problem, "" where it does; valid until the next call of
 * this function on this thread. */
WS_API ws_status ws_supports(const ws_call* call, const char** reason);
/* The rung that WS_BEST stands for. */
WS_API ws_status ws_choose(const ws_call* call, ws_rung* rung);
/* Scratch memory of the call. Its first *zeroed bytes are zero before ws_run, and it leaves them
 * zero: who keeps the memory for calls in the order of one stream clears them once. */
WS_API ws_status ws_workspace(const ws_call* call, size_t* bytes, size_t* zeroed);

/* Enqueues the call on its stream; all tensors on one device, which is made current meanwhile.
 * WS_INVALID_ARGUMENT also where a kernel has reported a bad index since: see ws_check. */
WS_API ws_status ws_run(const ws_call* call);

/* Waits for all that is enqueued on a stream. The emulated build has none and returns at once. */
WS_API ws_status ws_synchronize(int32_t device, void* stream);

/* Waits for the device, then WS_INVALID_ARGUMENT with the first bad value (an index out of range)
 * that a kernel found there since somebody asked; the next ws_run on the device says it too. */
WS_API ws_status ws_check(int32_t device);

/* Compares rungs with the double-precision reference, as `warpsmith verify --json`. `options` is
 * JSON:
 * {"names": [...], "dtypes": [...], "cases": "smoke" | "verify" | "bench", "shapes": [[extents],
 * ...], "attributes": {name: value}, "seed": n, "offset": elements, "memory": GB, "time": seconds},
 * all optional; others are refused, and so is what would take more memory or time. Allocates, and
 * waits. *json is valid until the next call of ws_verify or ws_bench on this thread. */
WS_API ws_status ws_verify(const char* options, const char** json);

/* A contender from outside: enqueues one call on call->stream, reading the call's inputs and
 * writing where it likes. Null where that went well, else what went wrong. */
typedef struct {
  const char* name;
  const char* (*enqueue)(void* user, const ws_call* call);
  void* user;
} ws_peer;

/* Times rungs beside their peers, in turns, as `warpsmith bench --json`. Further options:
 * "min_runs", "min_milliseconds", "warm_up", "peers" (false: only those brought here). Needs a GPU
 * and the CUDA build. Allocates, and waits. */
WS_API ws_status ws_bench(const char* options, const ws_peer* peers, int32_t peer_count,
                          void* stream, const char** json);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WARPSMITH_C_API_H_ */
