#include "harness/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "harness/embedded.hpp"

namespace ws::harness {
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
  // NN_name.cuh, or NN_name.cu where the rung is a unit of its own
  if (file.size() < 3 || file[2] != '_') return false;
  const std::string_view name = file.substr(3);
  return name == fmt::format("{}.cuh", rung.name) || name == fmt::format("{}.cu", rung.name);
}

// One line of an edit script: kept (' '), removed ('-') or added ('+').
struct Edit {
  char mark;
  const std::string* line;
};

// The shortest edit script, by the longest common subsequence. Files have a few hundred lines: the
// table of lengths is small.
std::vector<Edit> edits(const std::vector<std::string>& before,
                        const std::vector<std::string>& after) {
  const size_t n = before.size();
  const size_t m = after.size();
  std::vector<std::vector<int>> common(n + 1, std::vector<int>(m + 1, 0));  // of the two tails
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      common[i][j] = before[i] == after[j] ? common[i + 1][j + 1] + 1
                                           : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<Edit> script;
  size_t i = 0;
  size_t j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && before[i] == after[j]) {
      script.push_back({' ', &before[i++]});
      ++j;
    } else if (j == m || (i < n && common[i + 1][j] >= common[i][j + 1])) {
      script.push_back({'-', &before[i++]});
    } else {
      script.push_back({'+', &after[j++]});
    }
  }
  return script;
}

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
  constexpr size_t kContext = 3;
  const std::vector<std::string> old_lines = lines_of(before);
  const std::vector<std::string> new_lines = lines_of(after);
  const std::vector<Edit> script = edits(old_lines, new_lines);
  const auto is_change = [](const Edit& edit) { return edit.mark != ' '; };
  std::string text;
  size_t old_line = 1;
  size_t new_line = 1;
  for (size_t at = 0; at < script.size();) {
    // A hunk: a change, the lines around it, and every change that is near enough to share them.
    const auto begin = script.begin() + static_cast<std::ptrdiff_t>(at);
    const auto change = std::find_if(begin, script.end(), is_change);
    if (change == script.end()) break;
    const auto to_change = static_cast<size_t>(change - begin);
    const size_t skipped = to_change > kContext ? to_change - kContext : 0;
    at += skipped;
    old_line += skipped;
    new_line += skipped;
    size_t end = at;
    size_t quiet = 0;
    for (size_t k = at; k < script.size() && quiet <= 2 * kContext; ++k) {
      quiet = is_change(script[k]) ? 0 : quiet + 1;
      if (quiet == 0) end = std::min(k + 1 + kContext, script.size());
    }
    std::string body;
    size_t old_count = 0;
    size_t new_count = 0;
    for (; at < end; ++at) {
      old_count += script[at].mark != '+' ? 1 : 0;
      new_count += script[at].mark != '-' ? 1 : 0;
      body += script[at].mark + *script[at].line + "\n";
    }
    text += fmt::format("@@ -{},{} +{},{} @@\n{}", old_line, old_count, new_line, new_count, body);
    old_line += old_count;
    new_line += new_count;
  }
  return text;
}

}  // namespace ws::harness
