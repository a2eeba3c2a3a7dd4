// UTF-8 as bytes: all text inside this folder is valid, what comes from outside goes through check_utf8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::tokens {

// Throws UserError(tokenizer) with the place of the first byte that is no UTF-8.
void check_utf8(std::string_view text);

// How many bytes from `at` on are one character: its length; or minus the length of what must be replaced if it is none; or 0 if
// the text ends inside a character that may still become whole.
int character_length(std::string_view text, size_t at);

// The character that begins at `at`, which moves behind it.
char32_t next_character(std::string_view text, size_t& at);
// The character that ends before `at`, which moves in front of it.
char32_t previous_character(std::string_view text, size_t& at);

void append_character(std::string& text, char32_t character);

// Bytes to text: each part that is no UTF-8 becomes U+FFFD. With `open`, an unfinished character at the end stays in `bytes`; all
// else leaves them.
std::string take_text(std::string& bytes, bool open);

}  // namespace tenon::tokens
