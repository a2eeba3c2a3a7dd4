// Translates regular expressions from Oniguruma in Ruby's syntax, which tokenizer.json uses, to PCRE2. A construct that PCRE2 cannot
// express with the same meaning is rejected.
#pragma once

#include <string>
#include <string_view>

namespace tenon::tokens {

std::string pcre2_from_oniguruma(std::string_view pattern);

// Members of a PCRE2 class (the text between [ and ]).
extern const char* const kSpaceSet;     // Characters with Unicode's property White_Space.
extern const char* const kNotSpaceSet;  // All other characters.
extern const char* const kWordSet;      // Letters, marks, digits, connectors and joiners: \w of the Rust crate regex.

}  // namespace tenon::tokens
