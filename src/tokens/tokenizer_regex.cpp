#include "tokens/tokenizer_regex.h"

#include "tokens/oniguruma.h"

namespace tenon::tokens {

namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;  // Safety limit, not measured.

regex::RegexOptions options() {
  return {.code = ErrorCode::tokenizer, .advice = "Encode the text in smaller portions, or simplify the expression."};
}

}  // namespace

TokenizerRegex TokenizerRegex::oniguruma(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) throw UserError(ErrorCode::tokenizer, "a regular expression of more than 64 KiB");
  auto with_lines = options();
  with_lines.is_multiline = true;
  return TokenizerRegex(pcre2_from_oniguruma(pattern), with_lines, pattern);
}

TokenizerRegex TokenizerRegex::literal(std::string_view text) {
  auto literally = options();
  literally.is_literal = true;
  return TokenizerRegex(text, literally, text);
}

TokenizerRegex TokenizerRegex::pcre2(std::string_view pattern) { return TokenizerRegex(pattern, options(), pattern); }

}  // namespace tenon::tokens
