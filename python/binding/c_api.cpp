#include "python/binding/c_api.h"

#include <exception>
#include <string>

#include "python/binding/call.hpp"
#include "python/binding/measure.hpp"

namespace ws::binding {
namespace {

thread_local std::string last_error;
thread_local std::string last_reason;
thread_local std::string last_report;

template <class Body>
ws_status guarded(Body&& body) noexcept {
  try {
    body();
    return WS_OK;
  } catch (const InvalidArgument& error) {
    last_error = error.what();
    return WS_INVALID_ARGUMENT;
  } catch (const std::exception& error) {
    last_error = error.what();
    return WS_ERROR;
  }
}

Call call_of(const ws_call& call) {
  return {operation_at(call.operation),
          {call.tensors, static_cast<size_t>(call.tensor_count)},
          {call.attributes, static_cast<size_t>(call.attribute_count)}};
}

}  // namespace
}  // namespace ws::binding

using ws::binding::call_of;
using ws::binding::guarded;

const char* ws_last_error(void) { return ws::binding::last_error.c_str(); }

ws_status ws_catalogue(const char** json) {
  return guarded([&] { *json = ws::binding::catalogue_json().c_str(); });
}

ws_status ws_resolve(const char* name, ws_address* address) {
  return guarded([&] { *address = ws::binding::address_of(name); });
}

ws_status ws_infer(const ws_call* call, ws_output* outputs) {
  return guarded([&] {
    const auto checked = call_of(*call);
    for (const ws::Tensor& tensor : checked.problem.outputs()) {
      ws_output& output = *outputs++;
      output.dtype = ws::binding::to_dlpack(tensor.dtype);
      output.ndim = tensor.rank;
      std::copy(tensor.shape.begin(), tensor.shape.begin() + tensor.rank, output.shape);
    }
  });
}

ws_status ws_supports(const ws_call* call, const char** reason) {
  return guarded([&] {
    ws::binding::last_reason = call_of(*call).reason(call->rung);
    *reason = ws::binding::last_reason.c_str();
  });
}

ws_status ws_choose(const ws_call* call, ws_rung* rung) {
  return guarded([&] {
    const auto checked = call_of(*call);
    const ws::Family& family = ws::family_of(*checked.problem.operation);
    *rung = &checked.choose(call->rung) - family.rungs.data();
  });
}

ws_status ws_workspace(const ws_call* call, size_t* bytes) {
  return guarded([&] {
    const auto checked = call_of(*call);
    *bytes = checked.choose(call->rung).workspace(checked.problem);
  });
}

ws_status ws_run(const ws_call* call) {
  return guarded([&] {
    const auto checked = call_of(*call);
    const ws::Rung& rung = checked.choose(call->rung);
    const size_t bytes = rung.workspace(checked.problem);
    ws::require(bytes <= call->workspace_bytes, rung.name, " needs a workspace of ", bytes,
                " bytes, got ", call->workspace_bytes);
    ws::run(rung, checked.problem, {static_cast<ws::Stream>(call->stream), call->workspace});
  });
}

ws_status ws_synchronize(int32_t device, void* stream) {
  return guarded([&] { ws::binding::synchronize(device, stream); });
}

ws_status ws_verify(const char* options, const char** json) {
  return guarded([&] {
    ws::binding::last_report = ws::binding::verify(options);
    *json = ws::binding::last_report.c_str();
  });
}

ws_status ws_bench(const char* options, const ws_peer* peers, int32_t peer_count, void* stream,
                   const char** json) {
  return guarded([&] {
    std::vector<ws::harness::CallbackPeer> callbacks;
    for (int32_t i = 0; i < peer_count; ++i) {
      callbacks.push_back(
          {peers[i].name, [peer = peers[i]](const ws::Problem& problem, ws::Stream s) {
             const ws::binding::OutgoingCall outgoing(problem, s);
             const char* const wrong = peer.enqueue(peer.user, &outgoing.call);
             if (wrong != nullptr) throw ws::Error(wrong);
           }});
    }
    ws::binding::last_report =
        ws::binding::bench(options, std::move(callbacks), static_cast<ws::Stream>(stream));
    *json = ws::binding::last_report.c_str();
  });
}
