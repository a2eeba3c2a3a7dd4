// Regular expressions of tokenizer.json.
#pragma once

#include <string_view>

#include "regex/regex.h"

namespace tenon::tokens {

class TokenizerRegex : public regex::Regex {
 public:
  static TokenizerRegex oniguruma(std::string_view pattern);  // The syntax that tokenizer.json uses.
  static TokenizerRegex literal(std::string_view text);
  static TokenizerRegex pcre2(std::string_view pattern);

 private:
  using regex::Regex::Regex;
};

}  // namespace tenon::tokens
