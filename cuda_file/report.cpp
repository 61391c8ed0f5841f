#include "cuda_file/report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace ws {

// Found by their types' namespace.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProfilePlace, file, line, operation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WarpAccess, lanes, width, is_shared, offset, part)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProfileLine, place, warp_instructions, active_lanes, divergent,
                                   by_one_thread, requests, sectors, ideal_sectors, asked_bytes,
                                   unique_sectors, stride, strided, shared_requests, wavefronts,
                                   ideal_wavefronts, shared_bytes, swizzle, most_on_one_address,
                                   waits_for, access)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Profile, lines, unique_read_sectors, unique_written_sectors)

namespace cuda_file {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LaunchReport, kernel, file, line, launches, grid, block,
                                   static_shared, dynamic_shared, counts)

namespace {

// "3" of a line, "(3, 1)" of a plane: what is 0 and could not be otherwise is not said.
std::string place_text(const Extent3& at) {
  if (at[2] != 0) return fmt::format("({}, {}, {})", at[0], at[1], at[2]);
  if (at[1] != 0) return fmt::format("({}, {})", at[0], at[1]);
  return fmt::format("{}", at[0]);
}

}  // namespace

std::string FaultReport::text() const {
  std::string result;
  if (line > 0) result += fmt::format("{}:{}: ", file, line);
  result += fmt::format("{}: {}", kind, message);
  std::string who;
  if (!kernel.empty()) who = kernel;
  if (block && thread) {
    who += fmt::format("{}block {}, thread {}", who.empty() ? "" : ", ", place_text(*block),
                       place_text(*thread));
  }
  if (!who.empty()) result += "\n  in:     " + who;
  if (!launch.empty()) result += "\n  launch: " + launch;
  if (!order.empty() && order != "forward") result += "\n  order:  " + order;
  return result;
}

Json to_json(const FaultReport& fault) {
  Json json = {{"kind", fault.kind},  {"message", fault.message}, {"file", fault.file},
               {"line", fault.line},  {"kernel", fault.kernel},   {"launch", fault.launch},
               {"order", fault.order}};
  if (fault.block) json["block"] = *fault.block;
  if (fault.thread) json["thread"] = *fault.thread;
  return json;
}

FaultReport fault_of(const Json& json) {
  FaultReport fault;
  fault.kind = json.at("kind");
  fault.message = json.at("message");
  fault.file = json.at("file");
  fault.line = json.at("line");
  fault.kernel = json.at("kernel");
  fault.launch = json.at("launch");
  fault.order = json.at("order");
  if (json.contains("block")) fault.block = json["block"].get<Extent3>();
  if (json.contains("thread")) fault.thread = json["thread"].get<Extent3>();
  return fault;
}

// nlohmann's macros know the sorted kind of JSON only.
Json to_json(const LaunchReport& launch) { return nlohmann::json(launch); }
LaunchReport launch_of(const Json& json) { return nlohmann::json(json).get<LaunchReport>(); }
Json to_json(const Profile& profile) { return nlohmann::json(profile); }
Profile profile_of(const Json& json) { return nlohmann::json(json).get<Profile>(); }

}  // namespace cuda_file
}  // namespace ws
