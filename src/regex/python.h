// Regular expressions with the semantics of Python's `re` (3.11, patterns of type str), for fields that Python programs write.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "regex/regex.h"

namespace tenon::regex {

// A Python pattern translated to PCRE2. Patterns that Python rejects, or that PCRE2 cannot express with the same meaning, throw a UserError
// with the given code. Its text begins with `name` and names the construct.
struct PythonPattern {
  std::string pcre2;
  std::map<std::string, size_t> groups;  // Indices of the named groups.
};
PythonPattern pcre2_from_python(std::string_view pattern, ErrorCode code, const std::string& name);

class PythonRegex {
 public:
  // `name` says where the pattern comes from, as "adapter_config.json: target_modules".
  PythonRegex(std::string_view pattern, ErrorCode code, const std::string& name);

  // The functions of `re`. Both throw UserError if matching takes too many steps.
  bool match(std::string_view text) const { return regex_.match(text, Regex::MatchMode::start).has_value(); }
  bool fullmatch(std::string_view text) const { return regex_.match(text, Regex::MatchMode::whole).has_value(); }
  // Returns the text of a named group of match(), or nothing if there is no match.
  std::optional<std::string> match_group(std::string_view text, const std::string& group) const;

 private:
  PythonRegex(const PythonPattern& pattern, std::string_view shown, ErrorCode code, const std::string& name);
  std::map<std::string, size_t> groups_;
  Regex regex_;
};

}  // namespace tenon::regex
