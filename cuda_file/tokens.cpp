#include "cuda_file/tokens.hpp"

#include <algorithm>
#include <cctype>

namespace ws::cuda_file {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

class Scanner {
 public:
  Scanner(std::string_view text, int line, bool in_directive)
      : text_(text), line_(line), begins_line_(!in_directive) {}

  std::vector<Token> scan() {
    while (at_ < text_.size()) next();
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool starts(std::string_view with) const { return text_.substr(at_).starts_with(with); }

  void add(TokenKind kind, size_t end) {
    end = std::min(end, text_.size());
    const std::string_view token = text_.substr(at_, end - at_);
    tokens_.push_back({kind, token, line_});
    const auto lines = static_cast<int>(std::ranges::count(token, '\n'));
    line_ += lines;
    at_ = end;
    if (kind != TokenKind::kSpace) begins_line_ = false;
  }

  // The end of a line that goes on behind each backslash.
  size_t end_of_line(size_t from) const {
    for (;;) {
      const size_t end = text_.find('\n', from);
      if (end == std::string_view::npos) return text_.size();
      const size_t before = end > 0 && text_[end - 1] == '\r' ? end - 1 : end;
      if (before == 0 || text_[before - 1] != '\\') return end;
      from = end + 1;
    }
  }

  // A directive ends at its line's end, but comments in it may go on.
  size_t end_of_directive() const {
    size_t at = at_;
    for (;;) {
      const size_t end = end_of_line(at);
      const size_t comment = text_.find("/*", at);
      if (comment == std::string_view::npos || comment >= end) return end;
      const size_t line_comment = text_.find("//", at);
      if (line_comment < comment) return end;
      const size_t close = text_.find("*/", comment + 2);
      if (close == std::string_view::npos) return text_.size();
      at = close + 2;
    }
  }

  size_t end_of_quoted(size_t from, char quote) const {
    for (size_t i = from; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        return i + 1;
      } else if (text_[i] == '\n') {
        return i;  // not closed: the compiler will say so
      }
    }
    return text_.size();
  }

  void next() {
    const char c = peek();
    if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      return add(TokenKind::kSpace, at_ + (peek(1) == '\n' ? 2 : 3));
    }
    if (is_blank(c)) {
      size_t end = at_;
      while (end < text_.size() && is_blank(text_[end])) {
        if (text_[end++] == '\n') begins_line_ = !is_inside_;
      }
      return add(TokenKind::kSpace, end);
    }
    if (starts("//")) return add(TokenKind::kSpace, end_of_line(at_));
    if (starts("/*")) {
      const size_t close = text_.find("*/", at_ + 2);
      return add(TokenKind::kSpace, close == std::string_view::npos ? text_.size() : close + 2);
    }
    if (c == '#' && begins_line_) return add(TokenKind::kDirective, end_of_directive());
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      size_t end = at_ + 1;
      while (end < text_.size()) {
        const char d = text_[end];
        const char before = text_[end - 1];
        const bool exponent = (d == '+' || d == '-') &&
                              std::string_view("eEpP").find(before) != std::string_view::npos;
        const bool separator = d == '\'' && end + 1 < text_.size() && is_word(text_[end + 1]);
        if (!is_word(d) && d != '.' && !exponent && !separator) break;
        ++end;
      }
      return add(TokenKind::kNumber, end);
    }
    if (is_word(c)) {
      size_t end = at_;
      while (end < text_.size() && is_word(text_[end])) ++end;
      const std::string_view word = text_.substr(at_, end - at_);
      const char quote = end < text_.size() ? text_[end] : '\0';
      if (quote == '"' && word.ends_with('R') && word.size() <= 3) {
        const size_t open = text_.find('(', end);
        if (open != std::string_view::npos) {
          const std::string close = ")" + std::string(text_.substr(end + 1, open - end - 1)) + "\"";
          const size_t at = text_.find(close, open);
          return add(TokenKind::kText,
                     at == std::string_view::npos ? text_.size() : at + close.size());
        }
      }
      const bool prefix = word == "L" || word == "u" || word == "U" || word == "u8";
      if (prefix && (quote == '"' || quote == '\'')) {
        return add(TokenKind::kText, end_of_quoted(end + 1, quote));
      }
      return add(TokenKind::kWord, end);
    }
    if (c == '"' || c == '\'') return add(TokenKind::kText, end_of_quoted(at_ + 1, c));
    for (const std::string_view sign :
         {"<<<", "<<=", "...", "->*", "<=>", "::", "->", "++", "--", "<<", "<=", ">=", "==",
          "!=",  "&&",  "||",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "##"}) {
      if (starts(sign)) return add(TokenKind::kSign, at_ + sign.size());
    }
    add(TokenKind::kSign, at_ + 1);
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_;
  bool begins_line_;
  const bool is_inside_ = !begins_line_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, int first_line, bool in_directive) {
  return Scanner(text, first_line, in_directive).scan();
}

}  // namespace ws::cuda_file
