// Regular expressions over valid UTF-8, by PCRE2 with its JIT where there is one. Matching is thread-safe and limited: what would run
// away is an error.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::tokens {

class Regex {
 public:
  static Regex oniguruma(std::string_view pattern);  // as in tokenizer.json
  static Regex literal(std::string_view text);
  static Regex pcre2(std::string_view pattern);

  // All matches from left to right. An empty one right behind another match is passed over.
  void each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& f) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  static Regex compile(std::string_view pattern, uint32_t options, std::string_view shown);
  std::shared_ptr<const Code> code_;
};

}  // namespace tenon::tokens
