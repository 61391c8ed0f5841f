#include "warpsmith/c_api.h"

#include <exception>
#include <new>
#include <string>

#include "catalogue/catalogue_json.hpp"
#include "harness/readable.hpp"
#include "python/binding/call.hpp"
#include "python/binding/measure.hpp"

namespace ws::binding {
namespace {

thread_local std::string last_error;
thread_local std::string last_reason;
thread_local std::string last_report;

ws_status failed(ws_status status, const char* text) noexcept {
  try {
    last_error = harness::readable(text);
  } catch (const std::bad_alloc&) {
    last_error.clear();  // not even for that
  }
  return status;
}

template <class Body>
ws_status guarded(Body&& body) noexcept {
  try {
    body();
    return WS_OK;
  } catch (const InvalidArgument& error) {
    return failed(WS_INVALID_ARGUMENT, error.what());
  } catch (const std::bad_alloc&) {
    return failed(WS_ERROR, "there is not enough memory");
  } catch (const std::exception& error) {
    return failed(WS_ERROR, error.what());
  } catch (...) {
    return failed(WS_ERROR, "an exception of an unknown kind");
  }
}

void require_pointer(const void* pointer, const char* name) {
  require(pointer != nullptr, name, " is a null pointer");
}

// `count` elements behind a pointer that may be null where there are none.
template <class T>
std::span<const T> list(const T* elements, int32_t count, size_t most, const char* name) {
  require(count >= 0 && static_cast<size_t>(count) <= most, name, ": ", count, "; at most ", most);
  if (count > 0) require_pointer(static_cast<const void*>(elements), name);
  return {elements, static_cast<size_t>(count)};
}

Call call_of(const ws_call* call) {
  require_pointer(call, "call");
  const auto tensors = list(call->tensors, call->tensor_count, kMaxTensors, "tensors");
  const auto given = list(call->attributes, call->attribute_count, kMaxAttributes, "attributes");
  std::array<Value, kMaxAttributes> attributes;
  for (size_t i = 0; i < given.size(); ++i) attributes[i] = to_value(given[i]);
  return {operation_at(call->operation), tensors, {attributes.data(), given.size()}};
}

}  // namespace
}  // namespace ws::binding

using ws::binding::call_of;
using ws::binding::guarded;
using ws::binding::require_pointer;

const char* ws_last_error(void) { return ws::binding::last_error.c_str(); }

ws_status ws_catalogue(const char** json) {
  return guarded([&] {
    require_pointer(static_cast<const void*>(json), "json");
    *json = ws::catalogue_text().c_str();
  });
}

ws_status ws_resolve(const char* name, ws_address* address) {
  return guarded([&] {
    require_pointer(name, "name");
    require_pointer(address, "address");
    *address = ws::binding::address_of(name);
  });
}

ws_status ws_infer(const ws_call* call, ws_output* outputs) {
  return guarded([&] {
    const auto checked = call_of(call);
    const ws::Problem& problem = checked.problem();
    const auto parameters = problem.operation->parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].is_read()) continue;
      require_pointer(outputs, "outputs");
      const ws::Tensor& tensor = problem.tensors[i];
      ws_output& output = *outputs++;
      output = {};
      output.dtype = ws::binding::to_dlpack(tensor.dtype);
      output.ndim = tensor.rank;
      if (tensor.exists()) std::ranges::copy(tensor.extents(), output.shape);
    }
  });
}

ws_status ws_supports(const ws_call* call, const char** reason) {
  return guarded([&] {
    require_pointer(static_cast<const void*>(reason), "reason");
    const auto checked = call_of(call);
    if (call->rung == WS_BEST) {
      ws::binding::last_reason.clear();
      checked.choose(WS_BEST);
    } else {
      ws::binding::last_reason = checked.reason(call->rung);
    }
    *reason = ws::binding::last_reason.c_str();
  });
}

ws_status ws_choose(const ws_call* call, ws_rung* rung) {
  return guarded([&] {
    require_pointer(rung, "rung");
    const auto checked = call_of(call);
    *rung = checked.code_of(checked.choose(call->rung));
  });
}

ws_status ws_workspace(const ws_call* call, size_t* bytes, size_t* zeroed) {
  return guarded([&] {
    require_pointer(bytes, "bytes");
    require_pointer(zeroed, "zeroed");
    const auto checked = call_of(call);
    const ws::Workspace need = workspace_of(checked.choose(call->rung), checked.checked());
    *bytes = need.bytes;
    *zeroed = need.zeroed;
  });
}

ws_status ws_run(const ws_call* call) {
  return guarded([&] {
    const auto checked = call_of(call);
    const ws::Rung& rung = checked.choose(call->rung);
    const size_t bytes = workspace_of(rung, checked.checked()).bytes;
    ws::require(bytes <= call->workspace_bytes, rung.name, " needs a workspace of ", bytes,
                " bytes, got ", call->workspace_bytes);
    if (bytes > 0) require_pointer(call->workspace, "workspace");
    ws::require(bytes == 0 || reinterpret_cast<uintptr_t>(call->workspace) % 256 == 0,
                "the workspace ", call->workspace, " is not 256-byte aligned");
    ws::run(rung, checked.checked(), {static_cast<ws::Stream>(call->stream), call->workspace});
  });
}

ws_status ws_synchronize(int32_t device, void* stream) {
  return guarded([&] { ws::binding::synchronize(device, stream); });
}

ws_status ws_check(int32_t device) {
  return guarded([&] { ws::binding::check(device); });
}

ws_status ws_verify(const char* options, const char** json) {
  return guarded([&] {
    require_pointer(options, "options");
    require_pointer(static_cast<const void*>(json), "json");
    ws::binding::last_report = ws::binding::verify(options);
    *json = ws::binding::last_report.c_str();
  });
}

ws_status ws_bench(const char* options, const ws_peer* peers, int32_t peer_count, void* stream,
                   const char** json) {
  return guarded([&] {
    require_pointer(options, "options");
    require_pointer(static_cast<const void*>(json), "json");
    std::vector<ws::harness::CallbackPeer> callbacks;
    for (const ws_peer& peer : ws::binding::list(peers, peer_count, 64, "peers")) {
      require_pointer(peer.name, "a peer's name");
      ws::require(peer.enqueue != nullptr, "peer ", peer.name, ": enqueue is a null pointer");
      callbacks.push_back({peer.name, [peer](const ws::Problem& problem, ws::Stream s) {
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
