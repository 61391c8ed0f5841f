#include "harness/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <utility>

#include "harness/embedded.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::harness {

Profile profile(const Rung& rung, Instance& instance) {
  SingleRun run(rung, instance);
  ProfileScope scope;
  run();
  return scope.end();
}

std::string short_place(const ProfilePlace& place, std::string_view family) {
  std::string_view file = place.file;
  for (const std::string_view folder : {"kernels/", "include/warpsmith/"}) {
    if (file.starts_with(folder)) file.remove_prefix(folder.size());
  }
  if (!family.empty() && file.starts_with(family)) file.remove_prefix(family.size() + 1);
  return fmt::format("{}:{}", file, place.line);
}

std::string source_of(const ProfilePlace& place) {
  const auto files = embedded_files();
  const auto at = std::ranges::find(files, place.file, &EmbeddedFile::path);
  std::stringstream stream;
  if (at != files.end()) {
    stream << at->text;
  } else {  // a file of the user's
    stream << std::ifstream(place.file).rdbuf();
  }
  std::string line;
  for (int i = 0; i < place.line; ++i) std::getline(stream, line);
  const size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? std::string() : line.substr(first);
}

std::vector<std::string> remarks_on(const ProfileLine& line) {
  std::vector<std::string> remarks;
  if (line.sectors > line.ideal_sectors && line.requests > 0) {
    const auto requests = static_cast<double>(line.requests);
    std::string text = fmt::format("{:.1f} sectors a request where {:.1f} would do",
                                   static_cast<double>(line.sectors) / requests,
                                   static_cast<double>(line.ideal_sectors) / requests);
    if (line.strided * 2 > line.requests) {
      text += fmt::format(": lanes are {} bytes apart", std::abs(line.stride));
    }
    remarks.push_back(text);
  }
  if (line.wavefronts > line.ideal_wavefronts) {
    remarks.push_back(fmt::format(
        "bank conflicts: {:.1f} ways",
        static_cast<double>(line.wavefronts) / static_cast<double>(line.ideal_wavefronts)));
  }
  if (line.swizzle > 0) remarks.push_back(fmt::format("swizzle of {} bytes", line.swizzle));
  if (line.swizzle == 0) remarks.emplace_back("no swizzle");
  if (line.most_on_one_address > 1) {
    remarks.push_back(fmt::format("{} times on one address", line.most_on_one_address));
  }
  const double divergent = 100 * static_cast<double>(line.divergent) /
                           std::max(static_cast<double>(line.warp_instructions), 1.0);
  if (divergent >= 1 && !line.by_one_thread) {
    remarks.push_back(fmt::format("{:.0f} % of them without some lanes of the warp", divergent));
  }
  if (!line.waits_for.empty()) {
    std::vector<std::string> places;
    for (const ProfilePlace& place : line.waits_for) {
      const std::string text = fmt::format("{} {}", place.operation, short_place(place));
      if (places.size() < 3) places.push_back(text);
    }
    const size_t more = line.waits_for.size() - places.size();
    remarks.push_back(fmt::format("waits for {}{}", fmt::join(places, ", "),
                                  more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return remarks;
}

namespace {

Json to_json(const ProfilePlace& place) {
  return {{"file", place.file}, {"line", place.line}, {"operation", place.operation}};
}

// The lanes' offsets, null where one takes no part.
Json to_json(const WarpAccess& access) {
  Json json = {{"memory", access.is_shared ? "shared" : "global"},
               {"bytes", access.width},
               {"offsets", Json::array()}};
  for (size_t lane = 0; lane < access.offset.size(); ++lane) {
    const bool takes_part = (access.lanes >> lane & 1u) != 0;
    json["offsets"].push_back(takes_part ? Json(access.offset[lane]) : Json(nullptr));
  }
  return json;
}

Json to_json(const ProfileLine& line) {
  Json json = to_json(line.place);
  json["cost"] = line.cost();
  json["ideal_cost"] = line.ideal_cost();
  json["warp_instructions"] = line.warp_instructions;
  json["active_lanes"] = line.active_lanes;
  json["divergent"] = line.divergent;
  if (line.requests > 0) {
    json["requests"] = line.requests;
    json["sectors"] = line.sectors;
    json["ideal_sectors"] = line.ideal_sectors;
    json["asked_bytes"] = line.asked_bytes;
    json["moved_bytes"] = 32 * line.sectors;
    json["unique_sectors"] = line.unique_sectors;
    if (line.strided > 0) {
      json["strided_requests"] = line.strided;
      json["stride_bytes"] = line.stride;
    }
  }
  if (line.wavefronts > 0) {
    json["shared_requests"] = line.shared_requests;
    json["wavefronts"] = line.wavefronts;
    json["ideal_wavefronts"] = line.ideal_wavefronts;
    json["shared_bytes"] = line.shared_bytes;
  }
  if (line.swizzle >= 0) json["swizzle_bytes"] = line.swizzle;
  if (line.most_on_one_address > 0) json["most_on_one_address"] = line.most_on_one_address;
  if (line.access.lanes != 0) json["access"] = to_json(line.access);
  if (!line.waits_for.empty()) {
    json["waits_for"] = Json::array();
    for (const ProfilePlace& place : line.waits_for) json["waits_for"].push_back(to_json(place));
  }
  if (const std::string source = source_of(line.place); !source.empty()) json["source"] = source;
  if (const auto remarks = remarks_on(line); !remarks.empty()) json["remarks"] = remarks;
  return json;
}

}  // namespace

Json to_json(const Profile& profile) {
  Json json = {{"cost", profile.cost()},
               {"ideal_cost", profile.ideal_cost()},
               {"requests", profile.requests()},
               {"sectors", profile.sectors()},
               {"ideal_sectors", profile.ideal_sectors()},
               {"sectors_a_request", profile.sectors_a_request()},
               {"ideal_sectors_a_request", profile.ideal_sectors_a_request()},
               {"unique_read_sectors", profile.unique_read_sectors},
               {"unique_written_sectors", profile.unique_written_sectors},
               {"wavefronts", profile.wavefronts()},
               {"ideal_wavefronts", profile.ideal_wavefronts()},
               {"ways", profile.ways()},
               {"lines", Json::array()}};
  for (const ProfileLine& line : profile.lines) json["lines"].push_back(to_json(line));
  return json;
}

OccupancyLimits occupancy_limits(const KernelResources& launch) {
  using Sm = Multiprocessor;
  constexpr int kWarps = Sm::kThreads / 32;
  const int warps = divide_up(launch.grid.threads, 32);
  const size_t shared = round_up(launch.shared_bytes, Sm::kSharedUnit) + Sm::kSharedReserved;
  OccupancyLimits limits;
  limits.by_threads = kWarps / warps;
  limits.by_shared = static_cast<int>(Sm::kSharedBytes / shared);
  limits.by_blocks = Sm::kBlocks;
  std::array<std::pair<int, std::string_view>, 4> all = {{{limits.by_threads, "threads"},
                                                          {limits.by_shared, "shared memory"},
                                                          {limits.by_blocks, "blocks"},
                                                          {limits.by_blocks, "blocks"}}};
  if (launch.registers > 0) {
    const int a_warp = round_up(launch.registers * 32, Sm::kRegisterUnit);
    limits.by_registers = Sm::kRegisters / a_warp / warps;
    all[3] = {limits.by_registers, "registers"};
  }
  const auto least = *std::ranges::min_element(all, {}, &std::pair<int, std::string_view>::first);
  limits.blocks = least.first;
  limits.by = least.second;
  limits.occupancy = static_cast<double>(limits.blocks * warps) / kWarps;
  return limits;
}

Json to_json(const OccupancyLimits& limits) {
  Json json = {{"by_threads", limits.by_threads},
               {"by_shared", limits.by_shared},
               {"by_blocks", limits.by_blocks}};
  if (limits.by_registers >= 0) json["by_registers"] = limits.by_registers;
  json["blocks"] = limits.blocks;
  json["occupancy"] = limits.occupancy;
  json["by"] = limits.by;
  return json;
}

}  // namespace ws::harness
