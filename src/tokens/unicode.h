// Unicode properties that tokenizers need: character classes, lower case, normal forms.
#pragma once

#include <string>
#include <string_view>

namespace tenon::tokens {

bool is_white_space(char32_t c);  // Unicode's property White_Space.
bool is_numeric(char32_t c);      // General categories Nd, Nl and No.

// Classes of the reference's own tables, which are older versions of Unicode (character_classes.def).
bool is_punctuation(char32_t c);      // General category P, or a symbol of ASCII.
bool is_control(char32_t c);          // General categories Cc, Cf and Co.
bool is_nonspacing_mark(char32_t c);  // General category Mn.
bool is_combining_mark(char32_t c);   // General category M.

void append_lower_case(std::string& text, char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace tenon::tokens
