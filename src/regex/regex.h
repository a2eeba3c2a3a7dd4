// Regular expressions over valid UTF-8, matched by PCRE2 with its JIT where the platform has one. Matching is thread-safe and bounded: a
// match that exceeds the step limit throws a UserError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tenon::regex {

struct RegexOptions {
  ErrorCode code;                                   // Code of the errors that are thrown.
  std::string name = "regular expression";          // Prefix of errors; the pattern follows in quotes.
  std::string advice = "Simplify the expression.";  // Suffix of errors about a limit.
  bool is_literal = false, is_multiline = false;
  uint32_t min_steps = 10'000'000, steps_per_byte = 32;  // Limit of the steps of one match.
  size_t max_pattern = 64 << 10;                         // Maximum size of a pattern in bytes. Safety limit, not measured.
};

class Regex {
 public:
  // `shown` is the pattern as the user wrote it.
  Regex(std::string_view pattern, const RegexOptions& options, std::string_view shown);

  // Calls f for all matches from left to right. An empty match directly after another match is skipped.
  void each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& f) const;

  // Matches at the start of the text, or the whole text. Returns the text of each group, the whole match first, or nothing if there is no
  // match. A group that did not participate is empty.
  enum class MatchMode { start, whole };
  std::optional<std::vector<std::string_view>> match(std::string_view text, MatchMode mode) const;

 private:
  struct CompiledPattern;
  class Matcher;
  std::shared_ptr<const CompiledPattern> code_;
};

}  // namespace tenon::regex
