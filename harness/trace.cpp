#include "harness/trace.hpp"

#include <fmt/format.h>

#include <ostream>
#include <string>

namespace ws::harness {

TracedRun trace(const Rung& rung, Instance& instance, const TraceOptions& options) {
  SingleRun run(rung, instance);
  TracedRun traced;
  TraceScope scope(options);
  try {
    run();
  } catch (...) {
    traced.failure = std::current_exception();
  }
  traced.trace = scope.end();
  return traced;
}

namespace {

using Kind = TraceEvent::Kind;

const char* category_of(Kind kind) {
  switch (kind) {
    case Kind::kRun: return "run";
    case Kind::kWait: return "wait";
    case Kind::kTurn: return "turn";
    case Kind::kInstant: return "arrival";
    case Kind::kPhase: return "phase";
    case Kind::kCopy: return "copy";
    case Kind::kProducts: return "products";
  }
  return "?";
}

Json arguments_of(const TraceEvent& event) {
  Json json = Json::object();
  if (!event.place.empty()) json["place"] = event.place;
  if (event.mbarrier >= 0) {
    json["mbarrier"] =
        fmt::format("shared byte {} of block {}", event.mbarrier, event.mbarrier_block);
  }
  if (event.phase >= 0) json["phase"] = event.phase;
  if (event.pending >= 0) json["pending"] = event.pending;
  if (event.threads > 0) json["threads"] = event.threads;
  if (event.products > 0) json["products"] = event.products;
  if (event.bytes > 0) json["bytes"] = event.bytes;
  if (event.is_open) json["open"] = true;
  return json;
}

Json metadata(const char* what, int process, int track, const char* key, const Json& value) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", Json{{key, value}}}};
}

}  // namespace

// Format: "Trace Event Format", Google, 2016.
void write_chrome_trace(std::ostream& out, const Trace& trace, const Json& about) {
  Json other = {{"clock", kTraceClock}};
  other.update(about);
  other.update({{"order", trace.order},
                {"blocks", trace.blocks},
                {"blocks_of_run", trace.blocks_of_run},
                {"events_left_out", trace.left_out}});
  out << "{\"displayTimeUnit\": \"ns\",\n\"otherData\": " << other.dump()
      << ",\n\"traceEvents\": [";
  const char* separator = "\n";
  const auto write = [&](const Json& json) {
    out << separator << json.dump();
    separator = ",\n";
  };
  for (const TraceTrack& track : trace.tracks) {
    const bool is_process = track.track < 0;
    const int tid = is_process ? 0 : track.track;
    write(metadata(
        is_process ? "process_name" : "thread_name", track.process, tid, "name",
        is_process ? track.name + " (clock: the emulator's order, not time)" : track.name));
    write(metadata(is_process ? "process_sort_index" : "thread_sort_index", track.process, tid,
                   "sort_index", is_process ? track.process : track.track));
  }
  uint64_t id = 0;
  for (const TraceEvent& event : trace.events) {
    Json json = {{"ph", "X"},
                 {"name", event.name},
                 {"cat", category_of(event.kind)},
                 {"pid", event.process},
                 {"tid", event.track},
                 {"ts", event.begin}};
    switch (event.kind) {
      case Kind::kRun:
      case Kind::kWait:
      case Kind::kTurn:
      case Kind::kPhase: json["dur"] = event.end - event.begin; break;
      case Kind::kInstant:
        json["ph"] = "i";
        json["s"] = "t";
        break;
      case Kind::kCopy:
      case Kind::kProducts:
        json["ph"] = "b";
        json["id"] = ++id;
        break;
    }
    json["args"] = arguments_of(event);
    write(json);
    if (json["ph"] != "b") continue;
    json["ph"] = "e";
    json["ts"] = event.end;
    json.erase("args");
    write(json);
  }
  out << "\n]}\n";
}

}  // namespace ws::harness
