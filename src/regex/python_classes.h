// Classes of characters of Python's `re`, as members of a PCRE2 class (between [ and ]).
#pragma once

#include <string>

namespace tenon::regex {

// \d, \w, \s and their opposites, with the flag a or without; empty for any other letter.
std::string category(char32_t letter, bool ascii);

// One character, wherever it stands in a PCRE2 pattern.
std::string literal(char32_t c);

// Characters that are equal to i where case is ignored in Python, and not in PCRE2.
inline constexpr const char* kDotlessI = R"(\x{130}\x{131})";

}  // namespace tenon::regex
