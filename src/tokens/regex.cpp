#include "tokens/regex.h"

#include "tokens/oniguruma.h"

namespace tenon::tokens {

namespace {

constexpr size_t kMaxPattern = 64 << 10;

regex::Regex::Options options() {
  return {.code = ErrorCode::tokenizer, .advice = "Encode the text in parts, or simplify the expression."};
}

}  // namespace

Regex Regex::oniguruma(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) throw UserError(ErrorCode::tokenizer, "a regular expression of more than 64 KiB");
  auto with_lines = options();
  with_lines.is_multiline = true;
  return Regex(pcre2_from_oniguruma(pattern), with_lines, pattern);
}

Regex Regex::literal(std::string_view text) {
  auto literally = options();
  literally.is_literal = true;
  return Regex(text, literally, text);
}

Regex Regex::pcre2(std::string_view pattern) { return Regex(pattern, options(), pattern); }

}  // namespace tenon::tokens
