// The regular expressions of tokenizer.json are written for Oniguruma in Ruby's syntax. Text in that language goes in, the same
// expression for PCRE2 comes out; what cannot be said in both with one meaning is refused.
#pragma once

#include <string>
#include <string_view>

namespace tenon::tokens {

std::string pcre2_from_oniguruma(std::string_view pattern);

// Parts of a PCRE2 class, between [ and ].
extern const char* const kSpaceSet;     // Unicode's White_Space
extern const char* const kNotSpaceSet;  // all else
extern const char* const kWordSet;      // letters, marks, digits, connectors and joiners: \w of the reference's other engine

}  // namespace tenon::tokens
