// Streams while they record: between cudaStreamBeginCapture and cudaStreamEndCapture what is asked
// of a stream becomes a graph, and runs when that is launched.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda_file/include/warpsmith_cuda/api.hpp"
#include "emulator/place.hpp"

namespace ws::cuda_file {
struct Capture;
// Places in a graph's list of nodes.
using Nodes = std::set<size_t>;
}  // namespace ws::cuda_file

struct CUgraphNode_st {
  std::function<cudaError_t()> work;
  ws::cuda_file::Nodes after;  // all stand before it
};
using GraphNodes = std::vector<std::shared_ptr<CUgraphNode_st>>;
struct CUgraph_st {
  GraphNodes nodes;
};
struct CUgraphExec_st {
  GraphNodes nodes;
};

struct CUstream_st {
  bool waits_for_legacy = true;                       // not made with cudaStreamNonBlocking
  std::shared_ptr<ws::cuda_file::Capture> capture{};  // null: it runs what it is asked for
  ws::cuda_file::Nodes last{};                        // that its next node comes after
};
struct CUevent_st {
  std::chrono::steady_clock::time_point at{};
  bool recorded = false;
  std::shared_ptr<ws::cuda_file::Capture> capture{};  // of the stream that it was last recorded in
  ws::cuda_file::Nodes last{};
};

namespace ws::cuda_file {

// One sequence of work that is being recorded, by one stream and those that have joined it.
struct Capture {
  CUstream_st* origin;
  cudaStreamCaptureMode mode;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  std::vector<CUstream_st*> streams{origin};
  std::string failure{};  // what was asked that a graph cannot have, and where; empty: nothing
  bool is_over = false;
};

// The stream where it records; null where it runs. An error, remembered, where it can do neither.
struct Recording {
  CUstream_st* stream = nullptr;
  cudaError_t status = cudaSuccess;
};
Recording recording_of(cudaStream_t stream, const char* function, emulator::Place place);

// The stream's next node.
void record(CUstream_st& stream, std::function<cudaError_t()> work);

// Does the work in the stream: now, or as a node of a graph.
template <class Work>
cudaError_t do_in(cudaStream_t stream, const char* function, emulator::Place place, Work work) {
  const Recording recording = recording_of(stream, function, place);
  if (recording.status != cudaSuccess) return recording.status;
  if (recording.stream == nullptr) return work();
  record(*recording.stream, std::move(work));
  return cudaSuccess;
}

// What waits for a stream, or asks how far it is: an error where that stream records.
cudaError_t check_wait(cudaStream_t stream, const char* function, emulator::Place place);
// The same of what waits for all streams.
cudaError_t check_wait_for_all(const char* function, emulator::Place place);
// What may wait for others where nobody sees it: an error while a stream records, unless in relaxed
// mode.
cudaError_t check_unsafe(const char* function, emulator::Place place);
// The same of what the host waits for, in the default stream.
cudaError_t check_blocking(const char* function, emulator::Place place);

}  // namespace ws::cuda_file
