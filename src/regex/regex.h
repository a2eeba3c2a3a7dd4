// Regular expressions over valid UTF-8, by PCRE2 with its JIT where there is one. Matching is thread-safe and limited: a match that would
// run away is a UserError.
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

class Regex {
 public:
  struct Options {
    ErrorCode code;                                // Code of the errors that are thrown.
    std::string name = "regular expression";       // How errors begin; the pattern follows in quotes.
    std::string advice = "Write it more simply.";  // How errors about a limit end.
    bool is_literal = false, is_multiline = false;
    uint32_t min_steps = 10'000'000, steps_per_byte = 32;  // Limit of the steps of one match.
    size_t max_pattern = 64 << 10;                         // Number of bytes of a pattern.
  };
  // `shown` is the pattern as the user wrote it.
  Regex(std::string_view pattern, const Options& options, std::string_view shown);

  // All matches from left to right. An empty match directly after another match is skipped.
  void each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& f) const;

  // A match at the start of the text, or of the whole text: the text of each group, the whole match first. Nothing if there is none. A
  // group that took no part is empty.
  enum class Extent { start, whole };
  std::optional<std::vector<std::string_view>> match(std::string_view text, Extent extent) const;

 private:
  struct Code;
  class Matcher;
  std::shared_ptr<const Code> code_;
};

}  // namespace tenon::regex
