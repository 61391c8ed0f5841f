// C++ as a row of tokens, with everything between them kept.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ws::cuda_file {

enum class TokenKind {
  kWord,  // identifiers and keywords
  kNumber,
  kText,       // string and character literals, raw ones too
  kSign,       // punctuation; >> and >>> come as single >, <<< as one
  kSpace,      // blanks, line ends, comments, continued lines
  kDirective,  // a whole preprocessor line, without its line end
};

struct Token {
  TokenKind kind;
  std::string_view text;
  int line;  // of its first character
};

// `first_line` is that of the text's first character. A directive is one token, unless the text is
// the inside of one.
std::vector<Token> tokens_of(std::string_view text, int first_line = 1, bool in_directive = false);

}  // namespace ws::cuda_file
