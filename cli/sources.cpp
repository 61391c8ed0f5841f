#include "cli/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <dtl/dtl.hpp>
#include <sstream>

#include "harness/embedded.hpp"

namespace ws::cli {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_file_of(std::string_view path, const Family& family, const Rung& rung) {
  const std::string folder = fmt::format("kernels/{}/", family.name);
  if (!path.starts_with(folder)) return false;
  const std::string_view file = path.substr(folder.size());
  if (!rung.file.empty()) return file == rung.file;
  // NN_name.cuh
  return file.size() > 3 && file.substr(3) == fmt::format("{}.cuh", rung.name);
}

// The name alone; the list adds remarks in brackets.
std::string plain(const std::string& name) { return name.substr(0, name.find(" (")); }

}  // namespace

std::string_view path_of(const Family& family, const Rung& rung) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (is_file_of(file.path, family, rung)) return file.path;
  }
  throw Error(fmt::format("this build has no source of {}/{}", family.name, rung.name));
}

std::string_view text_of(std::string_view path) {
  const std::span<const EmbeddedFile> files = embedded_files();
  const auto at = std::ranges::find(files, path, &EmbeddedFile::path);
  if (at == files.end()) throw Error(fmt::format("this build has no {}", path));
  return at->text;
}

std::string header_comment(std::string_view text) {
  std::string comment;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with("//")) break;
    comment += line.substr(line.starts_with("// ") ? 3 : 2) + "\n";
  }
  return comment;
}

std::string differences(std::string_view before, std::string_view after) {
  const std::vector<std::string> old_lines = lines_of(before);
  const std::vector<std::string> new_lines = lines_of(after);
  if (old_lines == new_lines) return {};
  dtl::Diff<std::string> diff(old_lines, new_lines);
  diff.onHuge();
  diff.compose();
  diff.composeUnifiedHunks();
  std::ostringstream text;
  diff.printUnifiedFormat(text);
  return text.str();
}

std::vector<SeedRow> seed_rows() {
  std::vector<SeedRow> rows;
  const std::vector<std::string> lines = lines_of(text_of("catalogue/seed-kernels.tsv"));
  for (size_t i = 1; i < lines.size(); ++i) {  // after the titles
    std::vector<std::string> cells;
    std::istringstream stream(lines[i]);
    for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
    if (cells.size() < 3) continue;
    const std::string family = cells[0].substr(0, cells[0].find('/'));
    if (std::ranges::none_of(families(), [&](const Family* f) { return f->name == family; })) {
      continue;
    }
    SeedRow& row = rows.emplace_back(SeedRow{family, plain(cells[1]), cells[2], {}});
    try {
      const Address address = resolve(row.name);
      if (address.rung != nullptr) {
        row.rung = fmt::format("{}/{}", address.operation->name, address.rung->name);
      }
    } catch (const InvalidArgument&) {
      // Not reached yet.
    }
  }
  return rows;
}

}  // namespace ws::cli
