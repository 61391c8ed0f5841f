// The runtime's API. Calls carry the place that asks, for what there may be to say.
#pragma once

#include "warpsmith_cuda/launch.hpp"

// NOLINTBEGIN
// ---- Errors ------------------------------------------------------------------------------------

#define WS_CUDA_ERRORS(X)                                                                          \
  X(Success, 0, "no error")                                                                        \
  X(ErrorInvalidValue, 1, "invalid argument")                                                      \
  X(ErrorMemoryAllocation, 2, "out of memory")                                                     \
  X(ErrorInitializationError, 3, "initialization error")                                           \
  X(ErrorCudartUnloading, 4, "driver shutting down")                                               \
  X(ErrorInvalidConfiguration, 9, "invalid configuration argument")                                \
  X(ErrorInvalidPitchValue, 12, "invalid pitch argument")                                          \
  X(ErrorInvalidSymbol, 13, "invalid device symbol")                                               \
  X(ErrorInvalidDevicePointer, 17, "invalid device pointer")                                       \
  X(ErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                          \
  X(ErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version")   \
  X(ErrorMissingConfiguration, 52, "__global__ function call is not configured")                   \
  X(ErrorInvalidDeviceFunction, 98, "invalid device function")                                     \
  X(ErrorNoDevice, 100, "no CUDA-capable device is detected")                                      \
  X(ErrorInvalidDevice, 101, "invalid device ordinal")                                             \
  X(ErrorInvalidResourceHandle, 400, "invalid resource handle")                                    \
  X(ErrorIllegalState, 401, "the operation cannot be performed in the present state")              \
  X(ErrorNotReady, 600, "device not ready")                                                        \
  X(ErrorIllegalAddress, 700, "an illegal memory access was encountered")                          \
  X(ErrorLaunchOutOfResources, 701, "too many resources requested for launch")                     \
  X(ErrorLaunchTimeout, 702, "the launch timed out and was terminated")                            \
  X(ErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                          \
  X(ErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                            \
  X(ErrorAssert, 710, "device-side assert triggered")                                              \
  X(ErrorHostMemoryAlreadyRegistered, 712,                                                         \
    "part or all of the requested memory range is already mapped")                                 \
  X(ErrorHostMemoryNotRegistered, 713,                                                             \
    "pointer does not correspond to a registered memory region")                                   \
  X(ErrorMisalignedAddress, 716, "misaligned address")                                             \
  X(ErrorLaunchFailure, 719, "unspecified launch failure")                                         \
  X(ErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")                  \
  X(ErrorNotPermitted, 800, "operation not permitted")                                             \
  X(ErrorNotSupported, 801, "operation not supported")                                             \
  X(ErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")        \
  X(ErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture") \
  X(ErrorStreamCaptureMerge, 902,                                                                  \
    "operation would result in a merge of separate capture sequences")                             \
  X(ErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")      \
  X(ErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                         \
  X(ErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")   \
  X(ErrorStreamCaptureImplicit, 906,                                                               \
    "operation would make the legacy stream depend on a capturing blocking stream")                \
  X(ErrorCapturedEvent, 907,                                                                       \
    "operation not permitted on an event last recorded in a capturing stream")                     \
  X(ErrorUnknown, 999, "unknown error")

enum cudaError : unsigned {
#define WS_ERROR(name, value, text) cuda##name = value,
  WS_CUDA_ERRORS(WS_ERROR)
#undef WS_ERROR
};
typedef cudaError cudaError_t;

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

// ---- Devices -----------------------------------------------------------------------------------

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  size_t totalConstMem;
  int major;
  int minor;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  size_t surfaceAlignment;
  int maxTexture1D;
  int maxTexture2D[2];
  int maxTexture3D[3];
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int singleToDoublePrecisionPerfRatio;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  int cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int maxBlocksPerMultiProcessor;
  size_t reservedSharedMemPerBlock;
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrIntegrated = 18,
  cudaDevAttrConcurrentKernels = 31,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrPageableMemoryAccess = 88,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrComputePreemptionSupported = 90,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMemoryPoolsSupported = 115,
};
enum cudaLimit {
  cudaLimitStackSize,
  cudaLimitPrintfFifoSize,
  cudaLimitMallocHeapSize,
  cudaLimitDevRuntimeSyncDepth,
  cudaLimitDevRuntimePendingLaunchCount,
  cudaLimitMaxL2FetchGranularity,
  cudaLimitPersistingL2CacheSize,
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault,
  cudaSharedMemBankSizeFourByte,
  cudaSharedMemBankSizeEightByte,
};
#define cudaDeviceScheduleAuto 0
#define cudaDeviceScheduleSpin 1
#define cudaDeviceScheduleYield 2
#define cudaDeviceScheduleBlockingSync 4
#define cudaDeviceMapHost 8

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device, WS_CUDA_PLACE);
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device, WS_CUDA_PLACE);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device, WS_CUDA_PLACE);
cudaError_t cudaDeviceSynchronize(WS_CUDA_PLACE);
cudaError_t cudaThreadSynchronize(WS_CUDA_PLACE);
cudaError_t cudaDeviceReset();
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value);
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit);
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* properties);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();

// ---- Memory ------------------------------------------------------------------------------------

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
#define cudaHostAllocDefault 0
#define cudaHostAllocPortable 1
#define cudaHostAllocMapped 2
#define cudaHostAllocWriteCombined 4
#define cudaHostRegisterDefault 0
#define cudaHostRegisterPortable 1
#define cudaHostRegisterMapped 2
#define cudaMemAttachGlobal 1
#define cudaMemAttachHost 2
#define cudaCpuDeviceId (-1)
#define cudaInvalidDeviceId (-2)
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly = 2,
  cudaMemAdviseSetPreferredLocation = 3,
  cudaMemAdviseUnsetPreferredLocation = 4,
  cudaMemAdviseSetAccessedBy = 5,
  cudaMemAdviseUnsetAccessedBy = 6,
};
enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3,
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};
struct cudaExtent {
  size_t width, height, depth;
};
struct cudaPitchedPtr {
  void* ptr;
  size_t pitch, xsize, ysize;
};
inline cudaExtent make_cudaExtent(size_t w, size_t h, size_t d) { return {w, h, d}; }
inline cudaPitchedPtr make_cudaPitchedPtr(void* d, size_t p, size_t xsz, size_t ysz) {
  return {d, p, xsz, ysz};
}

struct cudaPos {
  size_t x, y, z;
};
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
struct cudaArray;  // of which there are none
struct cudaMemcpy3DParms {
  cudaArray* srcArray;
  cudaPos srcPos;
  cudaPitchedPtr srcPtr;
  cudaArray* dstArray;
  cudaPos dstPos;
  cudaPitchedPtr dstPtr;
  cudaExtent extent;
  cudaMemcpyKind kind;
};

namespace ws::cuda_file {
enum class MemoryKind { kDevice, kManaged, kPinned };
cudaError_t allocate(void** pointer, size_t bytes, MemoryKind kind, const char* function,
                     std::source_location place);
cudaError_t copy_symbol(const void* symbol, size_t symbol_bytes, size_t offset, void* memory,
                        size_t bytes, bool to_symbol, std::source_location place);
cudaError_t copy_symbol_in(cudaStream_t stream, const void* symbol, size_t symbol_bytes,
                           size_t offset, void* memory, size_t bytes, bool to_symbol,
                           std::source_location place);
void refuse_memory_node(cudaStream_t stream, const char* function, std::source_location place);
}  // namespace ws::cuda_file

template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes, WS_CUDA_PLACE) {
  return ws::cuda_file::allocate(reinterpret_cast<void**>(pointer), bytes,
                                 ws::cuda_file::MemoryKind::kDevice, "cudaMalloc", place);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream, WS_CUDA_PLACE) {
  ws::cuda_file::refuse_memory_node(stream, "cudaMallocAsync", place);
  return ws::cuda_file::allocate(reinterpret_cast<void**>(pointer), bytes,
                                 ws::cuda_file::MemoryKind::kDevice, "cudaMallocAsync", place);
}
template <class T>
cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = cudaMemAttachGlobal,
                              WS_CUDA_PLACE) {
  return ws::cuda_file::allocate(reinterpret_cast<void**>(pointer), bytes,
                                 ws::cuda_file::MemoryKind::kManaged, "cudaMallocManaged", place);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned = 0, WS_CUDA_PLACE) {
  return ws::cuda_file::allocate(reinterpret_cast<void**>(pointer), bytes,
                                 ws::cuda_file::MemoryKind::kPinned, "cudaMallocHost", place);
}
template <class T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned = 0, WS_CUDA_PLACE) {
  return ws::cuda_file::allocate(reinterpret_cast<void**>(pointer), bytes,
                                 ws::cuda_file::MemoryKind::kPinned, "cudaHostAlloc", place);
}
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height,
                            WS_CUDA_PLACE);
template <class T>
cudaError_t cudaMallocPitch(T** pointer, size_t* pitch, size_t width, size_t height,
                            WS_CUDA_PLACE) {
  return cudaMallocPitch(reinterpret_cast<void**>(pointer), pitch, width, height, place);
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent, WS_CUDA_PLACE);
cudaError_t cudaFree(void* pointer, WS_CUDA_PLACE);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream, WS_CUDA_PLACE);
cudaError_t cudaFreeHost(void* pointer, WS_CUDA_PLACE);
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags, WS_CUDA_PLACE);
cudaError_t cudaHostUnregister(void* pointer, WS_CUDA_PLACE);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags, WS_CUDA_PLACE);
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned flags, WS_CUDA_PLACE) {
  return cudaHostGetDevicePointer(reinterpret_cast<void**>(device), host, flags, place);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
// A device by its number, as CUDA 12 and older have it, or a place, as CUDA 13 does.
enum cudaMemLocationType {
  cudaMemLocationTypeInvalid = 0,
  cudaMemLocationTypeDevice = 1,
  cudaMemLocationTypeHost = 2,
  cudaMemLocationTypeHostNuma = 3,
  cudaMemLocationTypeHostNumaCurrent = 4,
};
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device,
                          WS_CUDA_PLACE);
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                          cudaMemLocation location, WS_CUDA_PLACE);
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device,
                                 cudaStream_t stream = nullptr, WS_CUDA_PLACE);
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location,
                                 unsigned flags, cudaStream_t stream = nullptr, WS_CUDA_PLACE);

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       WS_CUDA_PLACE);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr, WS_CUDA_PLACE);
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind, WS_CUDA_PLACE);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream = nullptr, WS_CUDA_PLACE);
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters, WS_CUDA_PLACE);
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream = nullptr,
                              WS_CUDA_PLACE);
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes,
                           WS_CUDA_PLACE);
cudaError_t cudaMemset(void* pointer, int value, size_t bytes, WS_CUDA_PLACE);
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream = nullptr,
                            WS_CUDA_PLACE);
cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height,
                         WS_CUDA_PLACE);
cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream = nullptr, WS_CUDA_PLACE);
cudaError_t cudaMemset3D(cudaPitchedPtr volume, int value, cudaExtent extent, WS_CUDA_PLACE);

template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice, WS_CUDA_PLACE) {
  return ws::cuda_file::copy_symbol(&symbol, sizeof(T), offset, const_cast<void*>(from), bytes,
                                    true, place);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes,
                                    size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice,
                                    cudaStream_t stream = nullptr, WS_CUDA_PLACE) {
  return ws::cuda_file::copy_symbol_in(stream, &symbol, sizeof(T), offset, const_cast<void*>(from),
                                       bytes, true, place);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind = cudaMemcpyDeviceToHost, WS_CUDA_PLACE) {
  return ws::cuda_file::copy_symbol(&symbol, sizeof(T), offset, to, bytes, false, place);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind = cudaMemcpyDeviceToHost,
                                      cudaStream_t stream = nullptr, WS_CUDA_PLACE) {
  return ws::cuda_file::copy_symbol_in(stream, &symbol, sizeof(T), offset, to, bytes, false, place);
}
template <class P, class T>
cudaError_t cudaGetSymbolAddress(P** pointer, const T& symbol) {
  *pointer = reinterpret_cast<P*>(const_cast<std::remove_cv_t<T>*>(&symbol));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
  *bytes = sizeof(T);
  return cudaSuccess;
}

// ---- Streams and events ------------------------------------------------------------------------

struct CUevent_st;
typedef CUevent_st* cudaEvent_t;
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void* data);
typedef void (*cudaHostFn_t)(void* data);
#define cudaStreamDefault 0
#define cudaStreamNonBlocking 1
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(2))
#define cudaEventDefault 0
#define cudaEventBlockingSync 1
#define cudaEventDisableTiming 2
#define cudaEventInterprocess 4

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream, WS_CUDA_PLACE);
cudaError_t cudaStreamSynchronize(cudaStream_t stream, WS_CUDA_PLACE);
cudaError_t cudaStreamQuery(cudaStream_t stream, WS_CUDA_PLACE);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0,
                                WS_CUDA_PLACE);
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags, WS_CUDA_PLACE);
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t bytes = 0,
                                     unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data,
                               WS_CUDA_PLACE);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event, WS_CUDA_PLACE);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr, WS_CUDA_PLACE);
cudaError_t cudaEventSynchronize(cudaEvent_t event, WS_CUDA_PLACE);
cudaError_t cudaEventQuery(cudaEvent_t event, WS_CUDA_PLACE);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end,
                                 WS_CUDA_PLACE);

// ---- Graphs: what a stream has recorded --------------------------------------------------------

struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
typedef CUgraph_st* cudaGraph_t;
typedef CUgraphNode_st* cudaGraphNode_t;
typedef CUgraphExec_st* cudaGraphExec_t;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode, WS_CUDA_PLACE);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph, WS_CUDA_PLACE);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
// As CUDA 12 has it and CUDA 11 had it.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long flags = 0, WS_CUDA_PLACE);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, cudaGraphNode_t* error,
                                 char* log, size_t log_bytes, WS_CUDA_PLACE);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long flags, WS_CUDA_PLACE);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream, WS_CUDA_PLACE);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

// ---- Kernels -----------------------------------------------------------------------------------

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 13,
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual,
};
enum cudaSharedCarveout {
  cudaSharedmemCarveoutDefault = -1,
  cudaSharedmemCarveoutMaxShared = 100,
  cudaSharedmemCarveoutMaxL1 = 0,
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  size_t constSizeBytes;
  size_t localSizeBytes;
  int maxThreadsPerBlock;
  int numRegs;
  int ptxVersion;
  int binaryVersion;
  int cacheModeCA;
  int maxDynamicSharedSizeBytes;
  int preferredShmemCarveout;
};

namespace ws::cuda_file {
cudaError_t set_attribute(const void* entry, cudaFuncAttribute attribute, int value,
                          std::source_location place);
cudaError_t get_attributes(cudaFuncAttributes* attributes, const void* entry, int most_threads);
int resident_blocks(int most_threads, int threads, size_t shared);
cudaError_t launch_pointer(const void* entry, const KernelCall& kernel,
                           const LaunchExtents& extents, std::source_location place);
}  // namespace ws::cuda_file

template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value, WS_CUDA_PLACE) {
  return ws::cuda_file::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value,
                                      place);
}
template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* kernel) {
  return ws::cuda_file::get_attributes(attributes, reinterpret_cast<const void*>(kernel),
                                       ws::cuda_file::most_threads_of(kernel));
}
template <class T>
cudaError_t cudaFuncSetCacheConfig(T*, cudaFuncCache) {
  return cudaSuccess;
}
template <class T>
cudaError_t cudaFuncSetSharedMemConfig(T*, cudaSharedMemConfig) {
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }

template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T* kernel, int threads,
                                                          size_t shared) {
  *blocks = ws::cuda_file::resident_blocks(ws::cuda_file::most_threads_of(kernel), threads, shared);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T* kernel,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}
template <class T>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* least_grid, int* block, T* kernel,
                                               size_t shared = 0, int limit = 0) {
  const int bound = ws::cuda_file::most_threads_of(kernel);
  const int most = bound > 0 && bound < 1024 ? bound : 1024;
  *block = limit > 0 && limit < most ? limit : most;
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, *block, shared);
  int multiprocessors = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  *least_grid = blocks * multiprocessors;
  return cudaSuccess;
}

namespace ws::cuda_file {
// Arguments as cudaLaunchKernel has them: an address for each.
template <class... Parameters, size_t... kPlaces>
cudaError_t launch_addresses(void (*kernel)(Parameters...), std::index_sequence<kPlaces...>,
                             void** arguments, const LaunchExtents& extents,
                             std::source_location place) {
  struct Bound {
    void (*kernel)(Parameters...);
    std::tuple<Kept<Parameters>...> arguments;
  } const bound{kernel, {*static_cast<std::decay_t<Parameters>*>(arguments[kPlaces])...}};
  return static_cast<cudaError_t>(
      launch({"the kernel", reinterpret_cast<const void*>(kernel), &bound, sizeof(bound),
              [](const void* object) {
                const auto& of = *static_cast<const Bound*>(object);
                std::apply(of.kernel, of.arguments);
              }},
             extents, place));
}
}  // namespace ws::cuda_file

template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             size_t shared = 0, cudaStream_t stream = nullptr, WS_CUDA_PLACE) {
  return ws::cuda_file::launch_addresses(kernel, std::index_sequence_for<Parameters...>(),
                                         arguments, {grid, block, shared, stream}, place);
}
template <class... Parameters>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                        void** arguments, size_t shared = 0,
                                        cudaStream_t stream = nullptr, WS_CUDA_PLACE) {
  return ws::cuda_file::launch_addresses(kernel, std::index_sequence_for<Parameters...>(),
                                         arguments,
                                         {grid, block, shared, stream, dim3(1, 1, 1), true}, place);
}
enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8,
};
union cudaLaunchAttributeValue {
  int cooperative;
  int priority;
  int programmaticStreamSerializationAllowed;
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
namespace ws::cuda_file {
LaunchExtents extents_of(const cudaLaunchConfig_t& config);
}
// As if any blocks of the device could be a cluster.
template <class T>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, T* kernel,
                                           const cudaLaunchConfig_t* config) {
  const dim3& of = config->blockDim;
  const ws::cuda_file::LaunchExtents extents = ws::cuda_file::extents_of(*config);
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, kernel, static_cast<int>(of.x * of.y * of.z), config->dynamicSmemBytes);
  int multiprocessors = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  const dim3& cluster = extents.cluster;
  *clusters = blocks * multiprocessors / static_cast<int>(cluster.x * cluster.y * cluster.z);
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               std::type_identity_t<Parameters>... arguments) {
  return ws::cuda_file::launch_of("the kernel", kernel)
      .launch_as(ws::cuda_file::extents_of(*config), arguments...);
}

// Through a void*, as older samples have it: what the file's kernels are is known by address.
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t shared = 0, cudaStream_t stream = nullptr, WS_CUDA_PLACE);
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                        size_t shared = 0, cudaStream_t stream = nullptr,
                                        WS_CUDA_PLACE);
// NOLINTEND
