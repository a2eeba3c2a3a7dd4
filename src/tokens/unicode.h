// What tokenizers ask about characters: classes, lower case, normal forms.
#pragma once

#include <string>
#include <string_view>

namespace tenon::tokens {

bool is_white_space(char32_t c);  // Unicode's White_Space
bool is_numeric(char32_t c);      // a number of any sort: Nd, Nl, No

// As the reference's own tables have them, which are those of older versions of Unicode (character_classes.def).
bool is_punctuation(char32_t c);      // P, or ASCII's symbols
bool is_control(char32_t c);          // Cc, Cf, Co
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_combining_mark(char32_t c);   // M

void append_lower_case(std::string& text, char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace tenon::tokens
