// Pictures of results, as SVG. Positions across a picture are percentages, and letters keep their
// size: it may be as narrow as a telephone or as wide as a window. What a mark stands for is in its
// data- attributes, and in a <title> that browsers show.
#pragma once

#include <span>
#include <string>

#include "report/results.hpp"

namespace ws::report {

struct PlotOptions {
  // With its own style, background and title, as a file or an <img> wants it; else for a page that
  // holds plot_style().
  bool standalone = true;
  // In a page: rungs' names lead to "#rung-FAMILY-NAME".
  bool links = false;
};

// What plots need of CSS: its colors are variables, in light and dark.
std::string_view plot_style();

// A bar for each rung, from the lowest up, peers and copies below. Measured: its share of the
// ceiling, and where the fastest peer is; in the emulator: the share of its traffic that has to be,
// and of the fewest clocks of the memory pipes. `against`: another result of the same problem,
// marked on the bars; may be null.
std::string ladder_plot(const Ladder& ladder, const Ladder* against = nullptr,
                        const PlotOptions& options = {});

// Operations a second over operations a byte, with the roofs of the device. Measured: where each
// rung is, by the bytes that must move. In the emulator: the most that the bytes that it moves
// allow on an H200, by its data sheet; that is no time.
// Throws InvalidArgument where nothing has a place there: see has_roofline().
std::string roofline_plot(std::span<const Ladder* const> ladders, const std::string& device,
                          const PlotOptions& options = {});
// Whether something of them ran right, and has operations and a time that can be drawn.
bool has_roofline(std::span<const Ladder* const> ladders, const std::string& device);

// How many times faster each rung is in the later result.
std::string changes_plot(std::span<const Change> changes, const PlotOptions& options = {});

// The dearest lines of a rung: their share of its clocks, and what would do of it.
std::string lines_plot(const Ladder& ladder, const Contender& rung,
                       const PlotOptions& options = {});

// One of them by its name, "ladder", "roofline", "changes" or "lines", as a file. Of several
// problems that are chosen a roofline has all, the others are of the first; "lines" wants a rung's
// name. `against` is the other result, for "ladder", and "changes", which needs it; may be null.
// Throws InvalidArgument.
std::string plot(const std::string& kind, const Results& results, const Choice& choice,
                 const Results* against = nullptr, const PlotOptions& options = {});

}  // namespace ws::report
