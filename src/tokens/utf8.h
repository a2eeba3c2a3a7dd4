// UTF-8 decoding. All text inside this folder is valid UTF-8; input from outside passes check_utf8 first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::tokens {

// Throws UserError(tokenizer) with the offset of the first byte that is not valid UTF-8.
void check_utf8(std::string_view text);

// Returns the length in bytes of the character at `at`. If the bytes are invalid, returns minus the count of bytes to replace; if the text
// ends inside a character that more bytes could complete, returns 0.
int character_length(std::string_view text, size_t at);

// Returns the character that begins at `at`, and advances `at` past it.
char32_t next_character(std::string_view text, size_t& at);
// Returns the character that ends before `at`, and moves `at` to its first byte.
char32_t previous_character(std::string_view text, size_t& at);

void append_character(std::string& text, char32_t character);

// Converts bytes to text and removes them from `bytes`. Each invalid sequence becomes U+FFFD. With `open`, an incomplete character at the
// end stays in `bytes`.
std::string take_text(std::string& bytes, bool open);

}  // namespace tenon::tokens
