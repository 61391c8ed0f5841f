#include "cuda_file/runtime/streams.hpp"

#include <algorithm>

#include "cuda_file/runtime/process.hpp"
#include "warpsmith/error.hpp"

namespace ws::cuda_file {
namespace {

cudaError_t refuse(cudaError_t error, const std::string& why, emulator::Place place) {
  remember_error(error, why, place);
  return error;
}

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto& instance = *new std::vector<std::shared_ptr<Capture>>;
  return instance;
}

// Null: the legacy stream, which never records.
CUstream_st* state_of(cudaStream_t stream) {
  static CUstream_st per_thread;
  if (stream == nullptr || stream == cudaStreamLegacy) return nullptr;
  return stream == cudaStreamPerThread ? &per_thread : stream;
}

cudaError_t break_off(Capture& capture, cudaError_t error, const char* function, const char* why,
                      emulator::Place place) {
  if (capture.failure.empty()) {
    capture.failure = concatenate(function, " at ", emulator::to_string(place));
  }
  return refuse(error, concatenate(function, why), place);
}

cudaError_t refuse_failed(const Capture& capture, const char* function, emulator::Place place) {
  return refuse(cudaErrorStreamCaptureInvalidated,
                concatenate(function, ": the capture has failed by ", capture.failure), place);
}

void leave(CUstream_st& stream) {
  stream.capture = nullptr;
  stream.last.clear();
}

void end(const std::shared_ptr<Capture>& capture) {
  for (CUstream_st* stream : capture->streams) leave(*stream);
  std::erase(captures(), capture);
  capture->is_over = true;
}

// Whether all nodes come before the last ones, directly or not.
bool are_joined(const GraphNodes& nodes, Nodes last) {
  Nodes before = last;
  while (!last.empty()) {
    const size_t node = *last.rbegin();
    last.erase(node);
    for (const size_t earlier : nodes[node]->after) {
      if (before.insert(earlier).second) last.insert(earlier);
    }
  }
  return before.size() == nodes.size();
}

cudaError_t run_all(const GraphNodes& nodes) {
  for (const auto& node : nodes) {
    const cudaError_t status = node->work();
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace

Recording recording_of(cudaStream_t stream, const char* function, emulator::Place place) {
  CUstream_st* const state = state_of(stream);
  if (state == nullptr) {
    for (const auto& capture : captures()) {
      if (std::ranges::any_of(capture->streams, &CUstream_st::waits_for_legacy)) {
        return {nullptr, break_off(*capture, cudaErrorStreamCaptureImplicit, function,
                                   " in the default stream, for which a stream that is being "
                                   "captured would have to wait",
                                   place)};
      }
    }
    return {};
  }
  if (state->capture == nullptr) return {};
  if (!state->capture->failure.empty()) {
    return {nullptr, refuse_failed(*state->capture, function, place)};
  }
  return {state, cudaSuccess};
}

void record(CUstream_st& stream, std::function<cudaError_t()> work) {
  GraphNodes& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_shared<CUgraphNode_st>(std::move(work), std::move(stream.last)));
  stream.last = {nodes.size() - 1};
}

cudaError_t check_wait(cudaStream_t stream, const char* function, emulator::Place place) {
  CUstream_st* const state = state_of(stream);
  if (state == nullptr) return recording_of(stream, function, place).status;
  if (state->capture == nullptr) return cudaSuccess;
  return break_off(*state->capture, cudaErrorStreamCaptureUnsupported, function,
                   " of a stream that is being captured: nothing of it runs yet", place);
}

cudaError_t check_wait_for_all(const char* function, emulator::Place place) {
  if (captures().empty()) return cudaSuccess;
  return break_off(*captures().front(), cudaErrorStreamCaptureUnsupported, function,
                   " while a stream is being captured: nothing of it runs yet", place);
}

cudaError_t check_unsafe(const char* function, emulator::Place place) {
  for (const auto& capture : captures()) {
    if (capture->mode != cudaStreamCaptureModeRelaxed) {
      return break_off(*capture, cudaErrorStreamCaptureUnsupported, function,
                       " while a stream is being captured: it may wait for others", place);
    }
  }
  return cudaSuccess;
}

cudaError_t check_blocking(const char* function, emulator::Place place) {
  const Recording recording = recording_of(nullptr, function, place);
  return recording.status != cudaSuccess ? recording.status : check_unsafe(function, place);
}

}  // namespace ws::cuda_file

// ---- CUDA's own names ---------------------------------------------------------------------------

namespace cf = ws::cuda_file;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode,
                                   std::source_location place) {
  CUstream_st* const state = cf::state_of(stream);
  if (state == nullptr) {
    return cf::refuse(cudaErrorStreamCaptureUnsupported,
                      "cudaStreamBeginCapture of the default stream", place);
  }
  if (state->capture != nullptr) {
    return cf::refuse(cudaErrorIllegalState,
                      "cudaStreamBeginCapture of a stream that is being captured", place);
  }
  state->capture = std::make_shared<cf::Capture>(state, mode);
  cf::captures().push_back(state->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph,
                                 std::source_location place) {
  *graph = nullptr;
  CUstream_st* const state = cf::state_of(stream);
  if (state == nullptr || state->capture == nullptr) {
    return cf::refuse(cudaErrorIllegalState,
                      "cudaStreamEndCapture of a stream that is not being captured", place);
  }
  const std::shared_ptr<cf::Capture> capture = state->capture;
  if (capture->origin != state) {
    return cf::break_off(*capture, cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture",
                         " of another stream than the capture began in", place);
  }
  const cf::Nodes last = state->last;
  cf::end(capture);
  if (!capture->failure.empty()) {
    return cf::refuse_failed(*capture, "cudaStreamEndCapture", place);
  }
  if (!cf::are_joined(capture->graph->nodes, last)) {
    return cf::refuse(cudaErrorStreamCaptureUnjoined,
                      "cudaStreamEndCapture: another stream has work that this one has not waited "
                      "for (cudaEventRecord there, cudaStreamWaitEvent here)",
                      place);
  }
  *graph = capture->graph.release();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const CUstream_st* const state = cf::state_of(stream);
  const cf::Capture* const capture = state == nullptr ? nullptr : state->capture.get();
  *status = capture == nullptr         ? cudaStreamCaptureStatusNone
            : capture->failure.empty() ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes == nullptr) {
    *count = graph->nodes.size();
    return cudaSuccess;
  }
  for (size_t i = 0; i < *count; ++i) {
    nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
  }
  *count = std::min(*count, graph->nodes.size());
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long,
                                 std::source_location place) {
  if (graph == nullptr) {
    return cf::refuse(cudaErrorInvalidValue, "cudaGraphInstantiate of no graph", place);
  }
  *made = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, cudaGraphNode_t* error,
                                 char* log, size_t log_bytes, std::source_location place) {
  if (error != nullptr) *error = nullptr;
  if (log != nullptr && log_bytes > 0) *log = '\0';
  return cudaGraphInstantiate(made, graph, 0ULL, place);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long flags, std::source_location place) {
  return cudaGraphInstantiate(made, graph, flags, place);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream,
                            std::source_location place) {
  if (graph == nullptr) {
    return cf::refuse(cudaErrorInvalidValue, "cudaGraphLaunch of no graph", place);
  }
  return cf::do_in(stream, "cudaGraphLaunch", place,
                   [nodes = graph->nodes] { return cf::run_all(nodes); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

// ---- Streams and events: all is done when the call returns, or recorded
// --------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = new CUstream_st{.waits_for_legacy = (flags & cudaStreamNonBlocking) == 0};
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream, std::source_location place) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    return cf::refuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy of a default stream",
                      place);
  }
  if (const auto capture = stream->capture; capture != nullptr) {
    capture->failure = ws::concatenate("cudaStreamDestroy at ", ws::emulator::to_string(place));
    std::erase(capture->streams, stream);
    if (capture->origin == stream) cf::end(capture);
  }
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream, std::source_location place) {
  return cf::check_wait(stream, "cudaStreamSynchronize", place);
}
cudaError_t cudaStreamQuery(cudaStream_t stream, std::source_location place) {
  return cf::check_wait(stream, "cudaStreamQuery", place);
}

// A stream that waits for what another one has recorded joins its capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned,
                                std::source_location place) {
  if (event == nullptr) {
    return cf::refuse(cudaErrorInvalidResourceHandle, "cudaStreamWaitEvent: no event", place);
  }
  CUstream_st* const state = cf::state_of(stream);
  const cf::Recording recording = cf::recording_of(stream, "cudaStreamWaitEvent", place);
  if (recording.status != cudaSuccess) return recording.status;
  if (event->capture == nullptr) {
    if (recording.stream == nullptr || !event->recorded) return cudaSuccess;
    return cf::break_off(*state->capture, cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent",
                         ": of an event that was recorded outside of the capture", place);
  }
  if (event->capture->is_over || state == nullptr) {
    return cf::refuse(cudaErrorCapturedEvent,
                      "cudaStreamWaitEvent: of an event that was recorded in a capture", place);
  }
  if (state->capture == nullptr) {
    state->capture = event->capture;
    state->capture->streams.push_back(state);
  } else if (state->capture != event->capture) {
    return cf::break_off(*state->capture, cudaErrorStreamCaptureMerge, "cudaStreamWaitEvent",
                         ": of an event of another capture", place);
  }
  state->last.insert(event->last.begin(), event->last.end());
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned, std::source_location place) {
  const cf::Recording recording = cf::recording_of(stream, "cudaStreamAddCallback", place);
  if (recording.status != cudaSuccess) return recording.status;
  if (recording.stream != nullptr) {
    return cf::break_off(*recording.stream->capture, cudaErrorStreamCaptureUnsupported,
                         "cudaStreamAddCallback", " of a stream that is being captured", place);
  }
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data,
                               std::source_location place) {
  return cf::do_in(stream, "cudaLaunchHostFunc", place, [=] {
    function(data);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event, std::source_location) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream, std::source_location place) {
  if (event == nullptr) {
    return cf::refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord of no event", place);
  }
  const cf::Recording recording = cf::recording_of(stream, "cudaEventRecord", place);
  if (recording.status != cudaSuccess) return recording.status;
  if (recording.stream != nullptr) {
    *event = {.capture = recording.stream->capture, .last = recording.stream->last};
  } else {
    *event = {.at = std::chrono::steady_clock::now(), .recorded = true};
  }
  return cudaSuccess;
}

namespace {
cudaError_t check_event(cudaEvent_t event, const char* function, std::source_location place) {
  if (event == nullptr || event->capture == nullptr) return cudaSuccess;
  return cf::break_off(*event->capture, cudaErrorCapturedEvent, function,
                       " of an event that was recorded in a capture", place);
}
}  // namespace

cudaError_t cudaEventSynchronize(cudaEvent_t event, std::source_location place) {
  return check_event(event, "cudaEventSynchronize", place);
}
cudaError_t cudaEventQuery(cudaEvent_t event, std::source_location place) {
  return check_event(event, "cudaEventQuery", place);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end,
                                 std::source_location place) {
  if (start == nullptr || end == nullptr || !start->recorded || !end->recorded) {
    return cf::refuse(cudaErrorInvalidResourceHandle,
                      "cudaEventElapsedTime between events that were not recorded", place);
  }
  cf::times_were_asked();
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count();
  return cudaSuccess;
}
