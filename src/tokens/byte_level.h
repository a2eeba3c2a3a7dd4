// GPT-2's alphabet: one visible character for each byte, so that any text is made of 256 characters.
#pragma once

#include <string>
#include <string_view>

namespace tenon::tokens {

void append_byte_characters(std::string& out, std::string_view bytes);

// The bytes that a token stands for; a token with a character that is in no alphabet stands for itself.
void append_bytes_of(std::string& bytes, std::string_view token);

extern const char* const kGpt2Pattern;

}  // namespace tenon::tokens
