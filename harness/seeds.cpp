#include "harness/seeds.hpp"

#include <algorithm>
#include <sstream>

#include "catalogue/catalogue.hpp"
#include "harness/embedded.hpp"

namespace ws::harness {
namespace {

// The name alone; the list adds remarks in brackets.
std::string plain(const std::string& name) { return name.substr(0, name.find(" (")); }

std::string rung_of(const std::string& name) {
  const Address address = resolve_seed(name);
  if (address.rung == nullptr) return {};  // not reached yet
  return concatenate(address.operation->name, "/", address.rung->name);
}

}  // namespace

std::vector<SeedRow> seed_rows() {
  const std::span<const EmbeddedFile> files = embedded_files();
  const auto file = std::ranges::find(files, "catalogue/seed-kernels.tsv", &EmbeddedFile::path);
  if (file == files.end()) throw Error("this build has no catalogue/seed-kernels.tsv");
  std::vector<SeedRow> rows;
  std::istringstream lines{std::string(file->text)};
  std::string line;
  std::getline(lines, line);  // the titles
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
    if (cells.size() < 3) continue;
    const std::string family = cells[0].substr(0, cells[0].find('/'));
    const std::string name = plain(cells[1]);
    if (family == "doctor" || family == "microbench") {
      rows.push_back({family, name, cells[2], {}, family});
      continue;
    }
    const bool known =
        std::ranges::any_of(families(), [&](const Family* f) { return f->name == family; });
    if (known) rows.push_back({family, name, cells[2], rung_of(name), {}});
  }
  return rows;
}

}  // namespace ws::harness
