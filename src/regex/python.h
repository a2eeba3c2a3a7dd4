// Regular expressions with the meaning that Python's `re` gives them (3.11, patterns of type str), for fields that Python programs write.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "regex/regex.h"

namespace tenon::regex {

// The same expression for PCRE2. A pattern that Python refuses, or that cannot be written in both with one meaning, throws a UserError
// with the given code; its text begins with `name` and names the construct.
struct PythonPattern {
  std::string pcre2;
  std::map<std::string, size_t> groups;  // Numbers of the named groups.
};
PythonPattern pcre2_from_python(std::string_view pattern, ErrorCode code, const std::string& name);

class PythonRegex {
 public:
  // `name` says where the pattern comes from, as "adapter_config.json: target_modules".
  PythonRegex(std::string_view pattern, ErrorCode code, const std::string& name);

  // The functions of `re`. Both throw UserError if matching takes too many steps.
  bool match(std::string_view text) const { return regex_.match(text, Regex::Extent::start).has_value(); }
  bool fullmatch(std::string_view text) const { return regex_.match(text, Regex::Extent::whole).has_value(); }
  // The text of a named group of match(); nothing if there is no match.
  std::optional<std::string> match_group(std::string_view text, const std::string& group) const;

 private:
  PythonRegex(const PythonPattern& pattern, std::string_view shown, ErrorCode code, const std::string& name);
  std::map<std::string, size_t> groups_;
  Regex regex_;
};

}  // namespace tenon::regex
