#include "report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "harness/ladder.hpp"
#include "harness/machine.hpp"
#include "harness/sources.hpp"
#include "report/markup.hpp"
#include "report/plots.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::report {
namespace {

std::string paragraph(std::string_view words) { return text_element("p", {}, words); }

std::string folded(bool open, const std::string& summary, const std::string& content) {
  std::string all = element("details", {}, element("summary", {}, summary) + content) + "\n";
  return open ? all.insert(std::string_view("<details").size(), " open") : all;
}

std::string scrolling(const std::string& content) {
  return element("div", {{"class", "scrolling"}}, content);
}

// "row_in_registers 66.1 us, 96.6 % of cudaMemcpyAsync, 1.36 x cudnn"
std::string fastest_text(const Ladder& ladder) {
  const Contender* best = ladder.fastest(Role::kRung);
  if (best == nullptr) return "no rung passed";
  std::string text = fmt::format("{} {}, {} of {}", best->short_name(), time_text(best->median_us),
                                 percent_text(best->of_ceiling), ladder.ceiling_name);
  if (const Contender* peer = ladder.fastest(Role::kPeer)) {
    text += fmt::format(", {:.2f} × {}", peer->median_us / best->median_us, peer->name);
  }
  return text;
}

std::string counted_text(const Ladder& ladder) {
  return fmt::format("in the emulator; {}{} must move", ladder.at_most ? "at most " : "",
                     bytes_text(ladder.bytes));
}

// ---- Sources ----------------------------------------------------------------------------------

// What there is to say of one kind of instruction on a line. What is not as it should be is in its
// remarks.
std::string note_on(const CountedLine& line) {
  std::vector<std::string> parts = {line.operation};
  if (line.requests > 0 && line.sectors <= line.ideal_sectors) {
    parts.push_back(fmt::format("{:.1f} sectors a request", line.sectors / line.requests));
  }
  if (line.wavefronts > 0 && line.wavefronts <= line.ideal_wavefronts) {
    parts.emplace_back("no bank conflicts");
  }
  parts.insert(parts.end(), line.remarks.begin(), line.remarks.end());
  return fmt::format("{}", fmt::join(parts, " · "));
}

// A line of the source: its share of the cost, its number, its text, and below it the notes.
std::string source_line(int number, const std::string& text, double share,
                        const std::vector<std::string>& notes) {
  const bool is_comment = text.find_first_not_of(' ') == text.find("//");
  const std::string cost = share > 0 ? fmt::format("{:.0f} %", 100 * share) : "";
  std::string line = text_element("i", {}, fmt::format("{:>5} {:>3}  ", cost, number));
  line += is_comment && !text.empty() ? text_element("em", {}, text) : escaped(text);
  if (!notes.empty()) {
    line = element("b", {{"style", fmt::format("--share:{:.3g}", share)}}, line);
  }
  line += "\n";
  for (const std::string& note : notes) line += text_element("small", {}, note);
  return line;
}

}  // namespace

std::string source_with_counts(const Family& family, const Rung& rung, const Contender* counted) {
  const std::string_view path = harness::path_of(family, rung);
  std::istringstream text{std::string(harness::text_of(path))};
  const double all = counted == nullptr ? 1 : std::max(counted->counts.cost, 1.0);
  const std::vector<CountedLine> none;
  const std::vector<CountedLine>& lines = counted == nullptr ? none : counted->counts.lines;
  std::string rows;
  int number = 0;
  for (std::string row; std::getline(text, row);) {
    ++number;
    double share = 0;
    std::vector<std::string> notes;
    for (const CountedLine& line : lines) {
      if (line.file != path || line.line != number) continue;
      share += line.cost / all;
      notes.push_back(note_on(line));
    }
    rows += source_line(number, row, share, notes);
  }
  std::string elsewhere;
  for (const CountedLine& line : lines) {
    if (line.file == path) continue;
    elsewhere += element("li", {},
                         escaped(fmt::format("{:.0f} % at ", 100 * line.cost / all)) +
                             text_element("code", {}, fmt::format("{}:{}", line.file, line.line)) +
                             " " + text_element("code", {}, line.source) + " " +
                             text_element("small", {}, note_on(line)));
  }
  std::string content =
      text_element("p", {{"class", "path"}}, path) + scrolling(element("pre", {}, rows));
  if (!elsewhere.empty()) {
    content += paragraph("In what it calls:") + element("ul", {}, elsewhere);
  }
  return element("div", {{"class", "ws-source"}}, content);
}

namespace {

// ---- Sections ---------------------------------------------------------------------------------

std::string problem_section(const PageContent& content, const Ladder& ladder, bool open) {
  const Ladder* other = content.against == nullptr ? nullptr : content.against->find(ladder);
  std::string inside = ladder_plot(ladder, other, {.standalone = false, .links = true});
  if (other != nullptr) {
    std::vector<Change> all = changes(*content.against, content.results);
    std::erase_if(all, [&](const Change& c) { return c.after_ladder != &ladder; });
    if (!all.empty()) {
      inside += text_element("h4", {}, "Since the other result") +
                changes_plot(all, {.standalone = false, .links = true});
    }
  }
  for (const Contender& c : ladder.contenders) {
    if (c.verdict != "failed") continue;
    inside +=
        text_element("p", {{"class", "failed"}}, fmt::format("failed {}: {}", c.name, c.reason));
  }
  const std::string summary =
      text_element("strong", {}, ladder.problem) + " " +
      text_element("span", {}, ladder.counted ? counted_text(ladder) : fastest_text(ladder)) + " " +
      text_element("small", {}, ladder.run);
  return folded(open, summary, inside);
}

std::string operation_section(const PageContent& content, const std::string& name) {
  std::vector<const Ladder*> ladders;
  for (const Ladder* ladder : content.ladders) {
    if (ladder->operation == name) ladders.push_back(ladder);
  }
  const Operation& operation = operation_named(name);
  std::string inside = text_element("h2", {}, name) + paragraph(operation.summary) +
                       scrolling(text_element("code", {}, operation.formula));
  if (has_roofline(ladders, content.results.device)) {
    inside += roofline_plot(ladders, content.results.device, {.standalone = false});
  }
  for (const Ladder* ladder : ladders) {
    inside += problem_section(content, *ladder, ladder == ladders.front());
  }
  return element("section", {{"id", name}}, inside);
}

// The fastest rung of each problem, then and now.
std::string comparison_section(const PageContent& content) {
  const std::vector<Change> all = changes(*content.against, content.results);
  std::string rows =
      "<tr><th>problem</th><th>rung</th><th>other</th><th>this</th><th>ratio</th></tr>";
  for (const Ladder* ladder : content.ladders) {
    const Change* told = nullptr;
    for (const Change& change : all) {
      if (change.after_ladder != ladder || change.after->role != Role::kRung) continue;
      const bool better =
          told == nullptr || (ladder->counted ? change.after->counts.cost < told->after->counts.cost
                                              : change.after->median_us < told->after->median_us);
      if (better) told = &change;
    }
    if (told == nullptr) continue;
    const auto figure = [&](const Contender& c) {
      return ladder->counted ? count_text(c.counts.cost) + " clocks" : time_text(c.median_us);
    };
    rows += element(
        "tr",
        {{"data-problem", ladder->problem}, {"data-ratio", fmt::format("{:.6g}", told->ratio)}},
        text_element("td", {}, ladder->problem) +
            text_element("td", {}, told->after->short_name()) +
            text_element("td", {}, figure(*told->before)) +
            text_element("td", {}, figure(*told->after)) +
            text_element("td", {}, fmt::format("{:.3f}", told->ratio)));
  }
  const std::string about = fmt::format(
      "The other result is {} ({}). Told is the rung that is the fastest now; a ratio above 1: it "
      "was slower then. Marks on the bars below are the other result, and each problem has the "
      "ratios of all its rungs.",
      content.against->origin, content.against->device);
  return element("section", {{"id", "compared"}},
                 text_element("h2", {}, "Two results compared") + paragraph(about) +
                     scrolling(element("table", {}, rows)));
}

// What the lines of the ladders' rungs cost, in the emulator: of each operation that has a rung
// which none before it had.
Results counts_of(std::span<const Ladder* const> ladders, const harness::Announce& announce) {
  Results counts{"the emulator", "emulator", {}};
  std::set<std::pair<std::string, std::string>> known;  // family and rung
  for (const Ladder* ladder : ladders) {
    bool is_new = false;
    for (const Contender& c : ladder->contenders) {
      if (c.role != Role::kRung) continue;
      is_new = known.emplace(ladder->family, c.short_name()).second || is_new;
    }
    if (!is_new) continue;
    harness::Selection selection;
    const Operation& operation = harness::choose_ladder(ladder->operation, selection);
    const Json json = harness::ladder(operation, selection, {.lines = true}, announce);
    std::ranges::move(read(json, counts.origin).ladders, std::back_inserter(counts.ladders));
  }
  return counts;
}

// What the emulator counted of a rung, in whichever operation it did.
const Contender* counted_rung(const Results* counts, const Family& family, const Rung& rung) {
  if (counts == nullptr) return nullptr;
  for (const Ladder& ladder : counts->ladders) {
    if (ladder.family != family.name) continue;
    const Contender* found = ladder.find(fmt::format("{}/{}", ladder.operation, rung.name));
    if (found != nullptr && !found->counts.lines.empty()) return found;
  }
  return nullptr;
}

std::string sources_section(const PageContent& content, const Results* counts) {
  std::string inside = text_element("h2", {}, "Rungs, line by line");
  inside += paragraph(
      counts == nullptr
          ? "The sources; what each line costs is counted by the emulator: `warpsmith report` of "
            "the emulated build, with these results by --results, adds it."
          : "What each line costs, as the emulator counts it on a small problem: its share of the "
            "clocks of the memory pipes, sectors a request (and how many would do), ways of bank "
            "conflicts. An order to read the lines in, not a time.");
  for (const Family* family : families()) {
    const auto is_told = [&](const Rung* rung) {
      return std::ranges::any_of(content.ladders, [&](const Ladder* ladder) {
        return ladder->family == family->name &&
               ladder->find(fmt::format("{}/{}", ladder->operation, rung->name)) != nullptr;
      });
    };
    for (const Rung* rung : family->rungs) {
      if (!is_told(rung)) continue;
      const Contender* counted = counted_rung(counts, *family, *rung);
      std::string about = fmt::format("{}/{}", family->name, rung->name);
      const std::string summary =
          text_element("strong", {}, about) + " " + text_element("span", {}, rung->idea);
      std::string from;
      if (!rung->from.empty()) {
        const std::string link = fmt::format("#rung-{}-{}", family->name, rung->from);
        from = element("p", {}, "grew from " + text_element("a", {{"href", link}}, rung->from));
      }
      const std::string body =
          element("div", {{"id", fmt::format("rung-{}-{}", family->name, rung->name)}},
                  from + source_with_counts(*family, *rung, counted));
      inside += folded(false, summary, body);
    }
  }
  return element("section", {{"id", "sources"}}, inside);
}

std::string how_to_read(bool counted) {
  const std::string text =
      counted
          ? paragraph(
                "Nothing is timed here: the emulator counts. The thick bar is the share of the "
                "bytes that a rung's requests move which have to move: a full bar asks for every "
                "byte once and wastes none of a sector. The thin bar compares the clocks that the "
                "memory pipes of one multiprocessor would take: the full one is the least of the "
                "ladder. The roofline says what the bytes that a rung moves allow at most on an "
                "H200, by its data sheet; caches may give back what is moved twice.")
          : paragraph(
                "A bar is a rung's share of the ceiling: of the faster copy of as many bytes in "
                "the same run, or of the data sheet's peak where arithmetic is the limit. The line "
                "across the bars is the ceiling, the dashed one the fastest peer. In the roofline "
                "every rung stands at the operations a byte that the problem needs; how far below "
                "the roof is what there is to gain. Times are medians of one interleaved run.");
  return folded(false, "How to read this", text);
}

}  // namespace

std::string_view source_style() { return harness::text_of("report/source.css"); }

std::string page(const PageContent& content, const harness::Announce& announce) {
  const Results& results = content.results;
  std::optional<Results> counted;
  if (runtime::kEmulated && content.with_counts && !results.counted()) {
    counted = counts_of(content.ladders, announce);
  }
  const Results* counts = counted ? &*counted : results.counted() ? &results : nullptr;
  std::vector<std::string> operations;
  for (const std::string& name : results.operations()) {
    if (std::ranges::find(content.ladders, name, &Ladder::operation) != content.ladders.end()) {
      operations.push_back(name);
    }
  }
  std::string links;
  const auto link = [&](const std::string& name, const std::string& words) {
    links += text_element("a", {{"href", "#" + name}}, words) + "\n";
  };
  if (content.against != nullptr) link("compared", "compared");
  for (const std::string& name : operations) link(name, name);
  link("sources", "line by line");

  const std::string title = results.counted() ? std::string("Warpsmith in the emulator")
                                              : fmt::format("Warpsmith on {}", results.device);
  std::string body = text_element("h1", {}, title);
  const auto several = [](size_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  body += paragraph(fmt::format("{} of {}, from {}.", several(content.ladders.size(), "problem"),
                                several(operations.size(), "operation"), results.origin));
  body += element("nav", {}, links) + how_to_read(results.counted());
  if (operations.size() > 1 && has_roofline(content.ladders, results.device)) {
    body += element("section", {{"id", "roofline"}},
                    text_element("h2", {}, "Roofline") +
                        roofline_plot(content.ladders, results.device, {.standalone = false}));
  }
  if (content.against != nullptr) body += comparison_section(content);
  for (const std::string& name : operations) body += operation_section(content, name);
  body += sources_section(content, counts);
  body +=
      element("footer", {}, paragraph("Made by warpsmith report, " + harness::revision() + "."));
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n" +
         text_element("title", {}, title) +
         element("style", {},
                 fmt::format("{}{}{}", harness::text_of("report/page.css"), source_style(),
                             plot_style())) +
         "</head>\n<body>\n" + element("main", {}, body) + "\n</body>\n</html>\n";
}

}  // namespace ws::report
