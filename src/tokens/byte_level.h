// GPT-2's byte alphabet: one printable character per byte, so that any text consists of 256 characters.
#pragma once

#include <string>
#include <string_view>

namespace tenon::tokens {

void append_byte_characters(std::string& out, std::string_view bytes);

// Appends the bytes that a token encodes. A token with a character outside the alphabet is appended unchanged.
void append_bytes_of(std::string& bytes, std::string_view token);

extern const char* const kGpt2Pattern;

}  // namespace tenon::tokens
