// The regular expressions of tokenizer.json.
#pragma once

#include <string_view>

#include "regex/regex.h"

namespace tenon::tokens {

class Regex : public regex::Regex {
 public:
  static Regex oniguruma(std::string_view pattern);  // The syntax of tokenizer.json.
  static Regex literal(std::string_view text);
  static Regex pcre2(std::string_view pattern);

 private:
  using regex::Regex::Regex;
};

}  // namespace tenon::tokens
