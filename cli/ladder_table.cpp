#include "cli/ladder_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/command.hpp"
#include "cli/drawing.hpp"

namespace ws::cli {
namespace {

// Why one rung beats another that moves as many bytes: sectors of a request, beside the ideal.
std::string sectors_text(const Profile& profile) {
  if (profile.sectors_a_request() <= 0) return {};
  const std::string taken = fmt::format("{:.1f}", profile.sectors_a_request());
  const std::string ideal = fmt::format("{:.1f}", profile.ideal_sectors_a_request());
  return ideal == taken ? taken : fmt::format("{} ({})", taken, ideal);
}

std::string ways_text(const Profile& profile) {
  return profile.wavefronts() > 0 ? fmt::format("{:.2f}", profile.ways()) : "";
}

double count_of(const LadderRow& row, const char* name) {
  const auto at = row.counts.find(name);
  return at == row.counts.end() ? 0.0 : static_cast<double>(at->second);
}

}  // namespace

double traffic_of(const LadderRow& row, const Cost& cost) {
  return (count_of(row, "global_load_bytes") + count_of(row, "global_store_bytes") +
          count_of(row, "async_bytes")) /
         std::max(cost.bytes, 1.0);
}

std::string compact(double value) {
  if (value < 1e4) return fmt::format("{:.0f}", value);
  if (value < 1e7) return fmt::format("{:.0f}k", value * 1e-3);
  return fmt::format("{:.0f}M", value * 1e-6);
}

std::string ladder_text(const Cost& cost, const std::vector<LadderRow>& rows) {
  const bool has_errors =
      std::ranges::any_of(rows, [](const LadderRow& row) { return !row.error.empty(); });
  std::vector<Table::Column> columns = {
      {"rung"},       {"traffic", true}, {"warp ops", true}, {"barriers", true}, {"sectors", true},
      {"ways", true}, {"idea"}};
  if (has_errors) columns.insert(columns.begin() + 1, {"error", true});
  Table table(columns);
  std::vector<Bar> bars;
  for (const LadderRow& row : rows) {
    const auto count = [&](const char* name) { return count_of(row, name); };
    std::vector<std::string> cells = {row.name,
                                      fmt::format("{:.2f}", traffic_of(row, cost)),
                                      compact(count("warp_instructions")),
                                      compact(count("barriers")),
                                      row.profile ? sectors_text(*row.profile) : "",
                                      row.profile ? ways_text(*row.profile) : "",
                                      row.idea};
    if (has_errors) cells.insert(cells.begin() + 1, row.error);
    table.add(std::move(cells));
    if (!row.profile) continue;
    bars.push_back({row.name, row.profile->cost(), row.profile->ideal_cost(),
                    compact(row.profile->cost()), row.stands_out});
  }
  const std::string drawn = chart(bars);
  return table.text() +
         (drawn.empty() ? ""
                        : "\nclocks of one SM's memory pipes: █ needed, ░ added by strides and "
                          "bank conflicts\n" +
                              drawn);
}

}  // namespace ws::cli
