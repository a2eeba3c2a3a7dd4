// Character classes of Python's `re` as members of a PCRE2 class (the text between [ and ]).
#pragma once

#include <string>

namespace tenon::regex {

// Returns the members of \d, \w, \s or their negations; empty for any other letter. `ascii` is Python's flag a.
std::string category(char32_t letter, bool ascii);

// Returns one character, escaped so that it is valid anywhere in a PCRE2 pattern.
std::string literal(char32_t c);

// Characters that Python considers equal to `i` if case is ignored, and PCRE2 does not.
inline constexpr const char* kDotlessI = R"(\x{130}\x{131})";

}  // namespace tenon::regex
