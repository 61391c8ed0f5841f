#include "report/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "harness/machine.hpp"
#include "harness/selection.hpp"
#include "harness/sources.hpp"
#include "report/markup.hpp"

namespace ws::report {
namespace {

// ---- A picture --------------------------------------------------------------------------------

constexpr double kWidth = 720;  // of a picture that is a file
constexpr double kMargin = 12;  // around one

// Elements, and how far down they reach.
struct Picture {
  std::string content;
  double height = 0;

  void add(std::string_view name, const Attributes& attributes, std::string_view inner = {}) {
    content += element(name, attributes, inner);
  }
  void text(const std::string& x, double y, std::string_view kind, std::string_view words) {
    content +=
        text_element("text", {{"x", x}, {"y", pixels(y)}, {"class", std::string(kind)}}, words);
  }
};

std::string tooltip(std::string_view words) { return text_element("title", {}, words); }

// Elements around a point whose place across is a percentage: theirs are pixels from there.
std::string around(double share, double y, std::string_view content) {
  return element("svg", {{"x", percent(share)}, {"y", pixels(y)}, {"overflow", "visible"}},
                 content);
}

std::string finished(const Picture& picture, const std::string& title, const std::string& kind,
                     const PlotOptions& options) {
  const std::string height = pixels(picture.height);
  if (!options.standalone) {
    return element("svg",
                   {{"class", "ws-plot"},
                    {"data-plot", kind},
                    {"width", "100%"},
                    {"height", height},
                    {"role", "img"},
                    {"aria-label", title}},
                   picture.content);
  }
  const double heading = 24;
  const std::string inner = element("svg",
                                    {{"x", pixels(kMargin)},
                                     {"y", pixels(heading + kMargin)},
                                     {"width", percent(1 - 2 * kMargin / kWidth)},
                                     {"height", height},
                                     {"overflow", "visible"}},
                                    picture.content);
  const std::string around_it =
      element("style", {}, plot_style()) +
      element("rect", {{"class", "surface"}, {"width", "100%"}, {"height", "100%"}, {"rx", "6"}},
              "") +
      text_element("text", {{"class", "heading"}, {"x", pixels(kMargin)}, {"y", pixels(heading)}},
                   title) +
      inner;
  return element("svg",
                 {{"xmlns", "http://www.w3.org/2000/svg"},
                  {"class", "ws-plot"},
                  {"data-plot", kind},
                  {"width", pixels(kWidth)},
                  {"height", pixels(picture.height + heading + 2 * kMargin)},
                  {"role", "img"},
                  {"aria-label", title}},
                 around_it);
}

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, " · "));
}

// ---- Rows of bars -----------------------------------------------------------------------------

struct Bar {
  double share = 0;  // of the width
  std::string kind;  // a class of the style
  double start = 0;
  double within = 0;  // of the width: a part of it
};

struct Row {
  std::string name;
  std::string link{};
  std::string figures{};  // at its right end
  std::string kind{};     // a class
  std::string remark{};   // shown by browsers
  Attributes data{};
  std::vector<Bar> bars{};         // one below the other, the first the thickest
  std::vector<Bar> marks{};        // lines across the first bar
  std::optional<double> before{};  // the other result's
};

void draw(Picture& picture, const Row& row) {
  constexpr double kText = 14;
  std::string inner;
  if (!row.remark.empty()) inner += tooltip(row.remark);
  const Attributes name_place = {
      {"x", "0"}, {"y", pixels(picture.height + kText)}, {"class", "name"}};
  const std::string name = text_element("text", name_place, row.name);
  inner += row.link.empty() ? name : element("a", {{"href", row.link}}, name);
  inner += text_element(
      "text", {{"x", "100%"}, {"y", pixels(picture.height + kText)}, {"class", "figures"}},
      row.figures);
  double y = picture.height + kText + 5;
  double thickness = 9;
  const auto rectangle = [&](std::string_view kind, double start, double share) {
    inner += element("rect",
                     {{"class", std::string(kind)},
                      {"x", start > 0 ? percent(start) : ""},
                      {"y", pixels(y)},
                      {"width", percent(std::clamp(share, 0.0, 1.0))},
                      {"height", pixels(thickness)},
                      {"rx", "2"}},
                     "");
  };
  for (const Bar& bar : row.bars) {
    rectangle("track", 0, 1);
    rectangle(bar.kind, bar.start, bar.share);
    if (bar.within > 0) rectangle("rung", 0, bar.within);
    const bool is_first = &bar == &row.bars.front();
    for (const Bar& mark : is_first ? row.marks : std::vector<Bar>()) {
      inner += element("line",
                       {{"class", mark.kind},
                        {"x1", percent(mark.share)},
                        {"x2", percent(mark.share)},
                        {"y1", pixels(y - 2)},
                        {"y2", pixels(y + thickness + 2)}},
                       "");
    }
    if (row.before && is_first) {
      inner +=
          around(std::clamp(*row.before, 0.0, 1.0), y,
                 element("path", {{"class", "before"}, {"d", "M0 -1V10M-3 -1H3M-3 10H3"}}, ""));
    }
    y += thickness + 2;
    thickness = 4;
  }
  Attributes all = {{"class", "row " + row.kind}};
  all.insert(all.end(), row.data.begin(), row.data.end());
  picture.add("g", all, inner);
  picture.height = y + (row.bars.empty() ? -1 : 6);
}

// A line of words with colored squares before them, in as many lines as a narrow picture needs.
struct Key {
  std::string kind;
  std::string words;
  std::string_view sign = "■";
};
void draw_keys(Picture& picture, const std::vector<Key>& keys) {
  constexpr size_t kLetters = 56;  // a line of a picture 360 pixels wide
  std::string line;
  size_t letters = 0;
  const auto flush = [&] {
    picture.height += 15;
    picture.add("text", {{"x", "0"}, {"y", pixels(picture.height - 3)}, {"class", "key"}}, line);
    line.clear();
    letters = 0;
  };
  for (const Key& key : keys) {
    if (letters > 0 && letters + key.words.size() + 4 > kLetters) flush();
    line += element("tspan", {{"class", key.kind}}, key.sign) + " " + escaped(key.words) + "\u2003";
    letters += key.words.size() + 4;
  }
  if (letters > 0) flush();
  picture.height += 2;
}

std::string address_of(const Ladder& ladder, const Contender& contender,
                       const PlotOptions& options) {
  if (!options.links || contender.role != Role::kRung) return {};
  return fmt::format("#rung-{}-{}", ladder.family, contender.short_name());
}

// Whatever became of a contender that has no figures.
Row row_without(const Ladder& ladder, const Contender& contender, const PlotOptions& options) {
  return {.name = contender.short_name(),
          .link = address_of(ladder, contender, options),
          .figures = contender.verdict,
          .kind = contender.verdict,
          .remark = contender.reason,
          .data = {{"data-name", contender.name}, {"data-verdict", contender.verdict}}};
}

void draw_measured(Picture& picture, const Ladder& ladder, const Ladder* against,
                   const PlotOptions& options) {
  const Contender* best = ladder.fastest(Role::kRung);
  const Contender* peer = ladder.fastest(Role::kPeer);
  double most = 1;
  for (const Contender& c : ladder.contenders) most = std::max(most, c.of_ceiling);
  std::vector<Key> keys = {{"ceiling-key",
                            fmt::format("ceiling: {}, {}", ladder.ceiling_name,
                                        rate_text(ladder.ceiling, ladder.memory_bound)),
                            "│"},
                           {"rung", "rung"}};
  if (best != nullptr) keys.push_back({"best", "fastest rung"});
  if (peer != nullptr) keys.push_back({"peer", fmt::format("peer; its line: {}", peer->name)});
  if (against != nullptr) keys.push_back({"before-key", "the other result", "I"});
  draw_keys(picture, keys);
  std::vector<Bar> marks = {{1 / most, "ceiling"}};
  if (peer != nullptr) marks.push_back({peer->of_ceiling / most, "peer-line"});
  for (const Contender& c : ladder.contenders) {
    if (!c.ran()) {
      draw(picture, row_without(ladder, c, options));
      continue;
    }
    const std::string role = c.role == Role::kRung   ? (&c == best ? "best" : "rung")
                             : c.role == Role::kPeer ? "peer"
                                                     : "copy";
    std::vector<std::string> figures = {
        time_text(c.median_us), rate_text(c.rate, ladder.memory_bound), percent_text(c.of_ceiling)};
    if (!c.passed()) figures = {c.verdict};
    std::string remark = fmt::format("{}: {}, {} to {}", c.name, time_text(c.median_us),
                                     time_text(c.min_us), time_text(c.max_us));
    if (c.role == Role::kRung && peer != nullptr && c.over_peer > 0) {
      remark += fmt::format("; {:.2f} times as fast as {}", c.over_peer, peer->name);
    }
    if (!c.passed()) remark += "; " + c.reason;
    Row row{.name = c.short_name() + (c.deterministic ? "" : " *"),
            .link = address_of(ladder, c, options),
            .figures = joined(figures),
            .kind = c.verdict,
            .remark = remark,
            .data = {{"data-name", c.name},
                     {"data-us", fmt::format("{}", c.median_us)},
                     {"data-rate", fmt::format("{}", c.rate)},
                     {"data-of-ceiling", fmt::format("{}", c.of_ceiling)}},
            .bars = {{c.of_ceiling / most, c.passed() ? role : "failed"}},
            .marks = marks};
    const Contender* other = against == nullptr ? nullptr : against->find(c.name);
    if (other != nullptr && other->ran() && ladder.ceiling > 0) {
      row.before = other->rate / ladder.ceiling / most;
      row.data.emplace_back("data-other-us", fmt::format("{}", other->median_us));
    }
    draw(picture, row);
  }
}

void draw_counted(Picture& picture, const Ladder& ladder, const Ladder* against,
                  const PlotOptions& options) {
  draw_keys(picture,
            {{"rung", fmt::format("the {}{} that must move, of what moves",
                                  ladder.at_most ? "at most " : "", bytes_text(ladder.bytes))},
             {"pipes", "the fewest clocks of the memory pipes, of its clocks"}});
  const double least = ladder.least_cost();
  for (const Contender& c : ladder.contenders) {
    if (!c.ran()) {
      draw(picture, row_without(ladder, c, options));
      continue;
    }
    const Counts& n = c.counts;
    std::vector<std::string> figures;
    if (n.sectors_a_request > 0) {
      figures.push_back(
          fmt::format("{:.1f} ({:.1f}) sectors", n.sectors_a_request, n.ideal_sectors_a_request));
    }
    if (n.ways > 0) figures.push_back(fmt::format("{:.2f} ways", n.ways));
    figures.push_back(percent_text(ladder.useful(c)));
    Row row{
        .name = c.short_name(),
        .link = address_of(ladder, c, options),
        .figures = joined(figures),
        .kind = c.verdict,
        .remark = fmt::format("{}: asks for {}, which moves {}; {} clocks of the memory pipes",
                              c.name, bytes_text(n.asked), bytes_text(n.moved), count_text(n.cost)),
        .data = {{"data-name", c.name},
                 {"data-moved", fmt::format("{}", n.moved)},
                 {"data-useful", fmt::format("{}", ladder.useful(c))},
                 {"data-cost", fmt::format("{}", n.cost)}},
        .bars = {{ladder.useful(c), "rung"}, {n.cost > 0 ? least / n.cost : 0, "pipes"}}};
    const Contender* other = against == nullptr ? nullptr : against->find(c.name);
    if (other != nullptr && other->ran()) {
      row.before = against->useful(*other);
      row.data.emplace_back("data-other-moved", fmt::format("{}", other->counts.moved));
    }
    draw(picture, row);
  }
}

// ---- The roofline -----------------------------------------------------------------------------

constexpr std::string_view kCountedRoofs = "NVIDIA H200";  // for who has no GPU

struct Roof {
  std::string name;
  double peak = 0;  // FLOP/s
};
struct Roofs {
  double memory = 0;  // byte/s
  std::string memory_name;
  std::vector<Roof> compute;  // the lowest first
  double peak() const { return compute.empty() ? 0 : compute.back().peak; }
  double at(double intensity, double peak) const {
    return peak > 0 ? std::min(peak, memory * intensity) : memory * intensity;
  }
};

Roofs roofs_of(std::span<const Ladder* const> ladders, const std::string& device) {
  const bool counted = ladders.front()->counted;
  const harness::Machine machine =
      harness::known_machine(counted ? std::string_view(kCountedRoofs) : std::string_view(device));
  Roofs roofs{machine.memory_rate, "data sheet", {}};
  double copied = 0;
  std::set<std::string> dtypes;
  for (const Ladder* ladder : ladders) {
    if (!counted && ladder->memory_bound && ladder->ceiling > copied) {
      copied = ladder->ceiling;
      roofs.memory_name = ladder->ceiling_name;
    }
    if (!dtypes.insert(ladder->dtype).second) continue;
    double peak = machine.memory_rate > 0 ? peak_flops(machine, dtype_from(ladder->dtype)) : 0;
    if (!counted && !ladder->memory_bound) peak = ladder->ceiling;
    if (peak <= 0) continue;
    const auto same = std::ranges::find(roofs.compute, peak, &Roof::peak);
    if (same == roofs.compute.end()) {
      roofs.compute.push_back({ladder->dtype, peak});
    } else {
      same->name += ", " + ladder->dtype;
    }
  }
  if (copied > 0) roofs.memory = copied;
  std::ranges::sort(roofs.compute, {}, &Roof::peak);
  return roofs;
}

struct Point {
  double x = 0;  // operations a byte
  double y = 0;  // operations a second
  std::string label{};
  std::string kind{};
  std::string remark{};
  Attributes data{};
};

// Whether a value has a place on a scale of powers of ten: a file may have any numbers.
bool has_place(double value) { return std::isfinite(value) && value > 0; }

std::vector<Point> points_of(const Ladder& ladder, const Roofs& roofs) {
  std::vector<Point> points;
  const Contender* best = ladder.fastest(Role::kRung);
  for (const Contender& c : ladder.contenders) {
    if (!c.ran() || !c.passed() || c.role == Role::kCopy || ladder.flops <= 0) continue;
    Point point{.label = c.short_name(),
                .data = {{"data-name", c.name}, {"data-problem", ladder.problem}}};
    if (ladder.counted) {
      const auto peak = peak_flops(harness::known_machine(kCountedRoofs), dtype_from(ladder.dtype));
      if (c.counts.moved <= 0) continue;
      point.x = ladder.flops / c.counts.moved;
      point.y = roofs.at(point.x, peak);
      point.kind = "bound";
      point.remark = fmt::format("{}: {} moved, at most {}", c.name, bytes_text(c.counts.moved),
                                 rate_text(point.y, false));
    } else {
      point.x = ladder.intensity();
      point.y = ladder.flops / (c.median_us * 1e-6);
      point.kind = &c == best ? "best" : c.role == Role::kPeer ? "peer" : "rung";
      point.remark =
          fmt::format("{}, {}: {}, {} of {}", c.name, ladder.problem, time_text(c.median_us),
                      percent_text(c.of_ceiling), ladder.ceiling_name);
      point.data.emplace_back("data-us", fmt::format("{}", c.median_us));
    }
    if (!has_place(point.x) || !has_place(point.y)) continue;
    point.data.emplace_back("data-flops", fmt::format("{:.6g}", point.y));
    point.data.emplace_back("data-intensity", fmt::format("{:.6g}", point.x));
    points.push_back(std::move(point));
  }
  return points;
}

// Logarithmic, in decades.
struct Scale {
  double low = 0;
  double high = 1;
  double of(double value) const { return (std::log10(value) - low) / (high - low); }
};

struct Frame {
  static constexpr double kTop = 14;
  static constexpr double kBottom = 330;
  Scale x;
  Scale y;
  double across(double value) const { return x.of(value); }
  double down(double value) const { return kBottom - y.of(value) * (kBottom - kTop); }
};

std::string flops_text(double decade) {
  constexpr std::array<std::string_view, 3> kUnits = {"GFLOP/s", "TFLOP/s", "PFLOP/s"};
  const double exponent = decade - 9;
  const auto unit = static_cast<size_t>(std::clamp(std::floor(exponent / 3), 0.0, 2.0));
  return fmt::format("{:g} {}", std::pow(10.0, exponent - 3 * static_cast<double>(unit)),
                     kUnits[unit]);
}

// The powers of ten of a scale.
std::vector<int> decades_of(const Scale& scale) {
  std::vector<int> decades;
  for (int d = static_cast<int>(std::ceil(scale.low)); d <= scale.high; ++d) decades.push_back(d);
  return decades;
}

void draw_axes(Picture& picture, const Frame& frame, double base) {
  for (const int decade : decades_of(frame.y)) {
    const double y = base + frame.down(std::pow(10.0, decade));
    picture.add(
        "line",
        {{"class", "grid"}, {"x1", "0"}, {"x2", "100%"}, {"y1", pixels(y)}, {"y2", pixels(y)}});
    picture.text("0", y - 3, "tick", flops_text(decade));
  }
  for (const int decade : decades_of(frame.x)) {
    const std::string x = percent(frame.x.of(std::pow(10.0, decade)));
    picture.add("line", {{"class", "grid"},
                         {"x1", x},
                         {"x2", x},
                         {"y1", pixels(base + Frame::kTop)},
                         {"y2", pixels(base + Frame::kBottom)}});
    const bool at_left = decade <= frame.x.low;
    picture.text(x, base + Frame::kBottom + 14,
                 at_left                  ? "tick"
                 : decade >= frame.x.high ? "tick end"
                                          : "tick middle",
                 fmt::format("{:g}", std::pow(10.0, decade)));
  }
  picture.text("50%", base + Frame::kBottom + 29, "tick middle", "operations a byte");
}

void draw_roofs(Picture& picture, const Frame& frame, const Roofs& roofs, double base) {
  const double left = std::pow(10.0, frame.x.low);
  const double right = std::pow(10.0, frame.x.high);
  const double bottom = std::pow(10.0, frame.y.low);
  const double top = std::pow(10.0, frame.y.high);
  const auto line = [&](double x1, double y1, double x2, double y2, double rate) {
    picture.add("line", {{"class", "roof"},
                         {"x1", percent(frame.across(x1))},
                         {"y1", pixels(base + frame.down(y1))},
                         {"x2", percent(frame.across(x2))},
                         {"y2", pixels(base + frame.down(y2))},
                         {"data-roof", fmt::format("{}", rate)}});
  };
  if (roofs.memory > 0) {
    const double highest = roofs.peak() > 0 ? std::min(roofs.peak(), top) : top;
    const double from = std::max(left, bottom / roofs.memory);
    const double to = std::min(highest / roofs.memory, right);
    if (from < to) line(from, from * roofs.memory, to, to * roofs.memory, roofs.memory);
    // Above the line, where no point can be; below it where there is no room for that.
    const double named = std::pow(from, 0.15) * std::pow(to, 0.85);
    const bool above = frame.across(named) > 0.4;
    picture.content += around(
        frame.across(named), base + frame.down(named * roofs.memory),
        text_element("text",
                     {{"x", above ? "-8" : "8"},
                      {"y", above ? "-2" : "14"},
                      {"class", above ? "roof-name end" : "roof-name"}},
                     fmt::format("{}, {}", rate_text(roofs.memory, true), roofs.memory_name)));
  }
  for (const Roof& roof : roofs.compute) {
    if (roof.peak >= top) continue;
    const double ridge = roofs.memory > 0 ? std::max(roof.peak / roofs.memory, left) : left;
    if (ridge >= right) continue;
    line(ridge, roof.peak, right, roof.peak, roof.peak);
    picture.text("100%", base + frame.down(roof.peak) - 5, "roof-name end",
                 fmt::format("{}: {}", roof.name, rate_text(roof.peak, false)));
  }
}

// Names beside points, moved apart from each other, with a line to their points.
void draw_names(Picture& picture, const Frame& frame, std::vector<Point> points, double base) {
  constexpr double kPitch = 13;
  constexpr double kReach = 16;
  std::ranges::stable_sort(points, {}, [&](const Point& p) { return frame.down(p.y); });
  std::vector<double> places;
  for (const Point& point : points) {
    const double wanted = frame.down(point.y);
    places.push_back(places.empty() ? wanted : std::max(wanted, places.back() + kPitch));
  }
  // Those that went out at the bottom push the others up.
  double limit = Frame::kBottom - 4;
  for (size_t i = places.size(); i-- > 0; limit = places[i] - kPitch) {
    places[i] = std::min(places[i], limit);
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const double share = frame.across(point.x);
    const double y = frame.down(point.y);
    const std::string leader = fmt::format("M5 0L{} {}", pixels(kReach), pixels(places[i] - y));
    picture.content += around(share, base + y,
                              element("path", {{"class", "leader"}, {"d", leader}}, "") +
                                  text_element("text",
                                               {{"x", pixels(kReach + 3)},
                                                {"y", pixels(places[i] - y + 4)},
                                                {"class", "point-name"}},
                                               point.label));
  }
}

void draw_point(Picture& picture, const Frame& frame, const Point& point, double base,
                double radius) {
  Attributes all = {{"class", "point " + point.kind},
                    {"cx", percent(frame.across(point.x))},
                    {"cy", pixels(base + frame.down(point.y))},
                    {"r", pixels(radius)}};
  all.insert(all.end(), point.data.begin(), point.data.end());
  picture.add("circle", all, tooltip(point.remark));
}

// Whole decades with all roofs in them; near by, where names are written, what is around the
// points.
Frame frame_of(const std::vector<Point>& points, const Roofs& roofs, bool near_by) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const Point& point : points) {
    xs.push_back(point.x);
    ys.push_back(point.y);
  }
  if (near_by) {
    const auto [left, right] = std::ranges::minmax(xs);
    const auto [low, high] = std::ranges::minmax(ys);
    const double apart = std::log10(right) - std::log10(left);
    const double room = std::max(1.0, 0.6 * apart);  // for the names
    return {{std::log10(left) - 0.4, std::log10(right) + room},
            {std::log10(low) - 0.2, std::log10(high) + 0.4}};
  }
  for (const Roof& roof : roofs.compute) {
    if (has_place(2 * roof.peak / roofs.memory)) xs.push_back(2 * roof.peak / roofs.memory);
    if (has_place(1.5 * roof.peak)) ys.push_back(1.5 * roof.peak);
  }
  const auto scale = [](const std::vector<double>& values) {
    const auto [low, high] = std::ranges::minmax(values);
    return Scale{std::floor(std::log10(low) - 0.15), std::ceil(std::log10(high) + 0.05)};
  };
  return {scale(xs), scale(ys)};
}

// ---- Several ladders in one picture -----------------------------------------------------------

constexpr size_t kColors = 8;

// What tells ladders apart: families, or of one family operations.
std::vector<std::string> groups_of(std::span<const Ladder* const> ladders, bool by_family) {
  std::vector<std::string> groups;
  for (const Ladder* ladder : ladders) {
    const std::string& name = by_family ? ladder->family : ladder->operation;
    if (std::ranges::find(groups, name) == groups.end()) groups.push_back(name);
  }
  return groups;
}

}  // namespace

std::string_view plot_style() { return harness::text_of("report/plot.css"); }

std::string ladder_plot(const Ladder& ladder, const Ladder* against, const PlotOptions& options) {
  Picture picture;
  if (ladder.counted) {
    draw_counted(picture, ladder, against, options);
  } else {
    draw_measured(picture, ladder, against, options);
  }
  const bool changing = std::ranges::any_of(
      ladder.contenders, [](const Contender& c) { return c.ran() && !c.deterministic; });
  if (changing) {
    picture.height += 14;
    picture.text("0", picture.height - 3, "tick", "* not deterministic: two runs may differ");
  }
  return finished(picture, ladder.problem + (ladder.counted ? ", in the emulator" : ""), "ladder",
                  options);
}

bool has_roofline(std::span<const Ladder* const> ladders, const std::string& device) {
  if (ladders.empty()) return false;
  const Roofs roofs = roofs_of(ladders, device);
  return std::ranges::any_of(
      ladders, [&](const Ladder* ladder) { return !points_of(*ladder, roofs).empty(); });
}

std::string roofline_plot(std::span<const Ladder* const> ladders, const std::string& device,
                          const PlotOptions& options) {
  require(!ladders.empty(), "a roofline of no problem");
  const Roofs roofs = roofs_of(ladders, device);
  const bool counted = ladders.front()->counted;
  const bool by_family = groups_of(ladders, true).size() > 1;
  const std::vector<std::string> groups = groups_of(ladders, by_family);
  std::vector<Point> points;
  for (const Ladder* ladder : ladders) {
    std::vector<Point> more = points_of(*ladder, roofs);
    if (groups.size() > 1) {
      const std::string& name = by_family ? ladder->family : ladder->operation;
      const auto group =
          static_cast<size_t>(std::ranges::find(groups, name) - groups.begin()) % kColors;
      for (Point& point : more) point.kind += fmt::format(" color{}", group);
    }
    std::ranges::move(more, std::back_inserter(points));
  }
  require(!points.empty(),
          "nothing that ran right here has floating-point operations: no roofline");

  Picture picture;
  std::vector<Key> keys;
  if (counted) {
    keys.push_back({"bound", fmt::format("at most, by the bytes that it moves, on an {}",
                                         kCountedRoofs.substr(kCountedRoofs.find(' ') + 1))});
  }
  if (groups.size() > 1) {
    for (size_t i = 0; i < groups.size(); ++i) {
      keys.push_back({fmt::format("color{}", i % kColors), groups[i]});
    }
  } else if (!counted) {
    keys = {{"rung", "rung"}, {"best", "fastest rung"}, {"peer", "peer"}};
  }
  draw_keys(picture, keys);
  const double base = picture.height;
  const Frame frame = frame_of(points, roofs, ladders.size() == 1);
  draw_axes(picture, frame, base);
  draw_roofs(picture, frame, roofs, base);
  // Those that stand out come last, on top.
  std::ranges::stable_partition(points, [](const Point& p) { return !p.kind.starts_with("best"); });
  for (const Point& point : points) {
    draw_point(picture, frame, point, base, point.kind.starts_with("best") ? 5 : 3.5);
  }
  if (ladders.size() == 1) draw_names(picture, frame, points, base);
  picture.height = base + Frame::kBottom + 36;
  const std::string what = ladders.size() == 1  ? ladders.front()->problem
                           : groups.size() == 1 ? groups.front()
                                                : fmt::format("{} problems", ladders.size());
  return finished(picture,
                  fmt::format("Roofline: {}, {}", what, counted ? "in the emulator" : device),
                  "roofline", options);
}

std::string changes_plot(std::span<const Change> changes, const PlotOptions& options) {
  Picture picture;
  double most = 0.05;  // of the ratios' logarithms, so that noise does not look like news
  for (const Change& change : changes) most = std::max(most, std::abs(std::log2(change.ratio)));
  draw_keys(picture, {{"slower", "slower now"}, {"faster", "faster now"}});
  for (const Change& change : changes) {
    const double length = std::log2(change.ratio) / most / 2;
    const bool counted = change.before_ladder->counted;
    const auto figure = [&](const Contender& c) {
      return counted ? count_text(c.counts.cost) + " clocks" : time_text(c.median_us);
    };
    draw(picture, {.name = change.before->short_name(),
                   .link = address_of(*change.before_ladder, *change.before, options),
                   .figures = fmt::format("{} → {} · {:.3f} ×", figure(*change.before),
                                          figure(*change.after), change.ratio),
                   .data = {{"data-name", change.before->name},
                            {"data-ratio", fmt::format("{:.6g}", change.ratio)}},
                   .bars = {{std::abs(length), length < 0 ? "slower" : "faster",
                             std::min(0.5, 0.5 + length)}},
                   .marks = {{0.5, "ceiling"}}});
  }
  return finished(picture, changes.empty() ? "" : changes.front().before_ladder->problem, "changes",
                  options);
}

std::string lines_plot(const Ladder& ladder, const Contender& rung, const PlotOptions& options) {
  constexpr size_t kMost = 12;
  Picture picture;
  draw_keys(picture, {{"waste", "clocks of the memory pipes"},
                      {"rung", "that would do, coalesced and without conflicts"}});
  for (size_t i = 0; i < std::min(kMost, rung.counts.lines.size()); ++i) {
    const CountedLine& line = rung.counts.lines[i];
    std::vector<std::string> figures;
    if (line.requests > 0) {
      figures.push_back(fmt::format("{:.1f} ({:.1f}) sectors", line.sectors / line.requests,
                                    line.ideal_sectors / line.requests));
    }
    if (line.wavefronts > 0 && line.ideal_wavefronts > 0) {
      figures.push_back(fmt::format("{:.1f} ways", line.wavefronts / line.ideal_wavefronts));
    }
    const double share = line.cost / std::max(rung.counts.cost, 1.0);
    figures.push_back(percent_text(share));
    draw(picture,
         {.name = fmt::format("{}:{} {}", line.file.substr(line.file.rfind('/') + 1), line.line,
                              line.operation),
          .figures = joined(figures),
          .remark = fmt::format("{}\n{}", line.source, fmt::join(line.remarks, "\n")),
          .data = {{"data-line", std::to_string(line.line)},
                   {"data-operation", line.operation},
                   {"data-cost", fmt::format("{}", line.cost)}},
          .bars = {{.share = share,
                    .kind = "waste",
                    .within = share * std::min(1.0, line.ideal_cost / std::max(line.cost, 1.0))}}});
  }
  return finished(picture, fmt::format("{}: {}", rung.name, ladder.problem), "lines", options);
}

std::string plot(const std::string& kind, const Results& results, const Choice& choice,
                 const Results* against, const PlotOptions& options) {
  const std::vector<const Ladder*> ladders = chosen(results, choice);
  const Ladder& first = *ladders.front();
  if (kind == "ladder") {
    return ladder_plot(first, against == nullptr ? nullptr : against->find(first), options);
  }
  if (kind == "roofline") return roofline_plot(ladders, results.device, options);
  if (kind == "changes") {
    require(against != nullptr, "changes are between two results: name the other one");
    std::vector<Change> all = changes(*against, results);
    std::erase_if(all, [&](const Change& c) { return c.after_ladder != &first; });
    require(!all.empty(), results.origin, " and ", against->origin, " have no rung of ",
            first.problem, " in common");
    return changes_plot(all, options);
  }
  require(kind == "lines", "no plot '", kind, "': 'ladder', 'roofline', 'changes' or 'lines'");
  require(choice.names.size() == 1 && harness::address_of(choice.names.front()).rung != nullptr,
          "lines are a rung's: name one, such as softmax/online");
  const Address address = harness::address_of(choice.names.front());
  const Contender* rung = first.find(fmt::format("{}/{}", first.operation, address.rung->name));
  require(rung != nullptr && !rung->counts.lines.empty(), results.origin, " has no lines of ",
          choice.names.front(), ": the emulator counts them");
  return lines_plot(first, *rung, options);
}

}  // namespace ws::report
