#include "tokens/byte_level.h"

#include <array>
#include <cstdint>

#include "tokens/utf8.h"

namespace tenon::tokens {

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr char32_t kLast = 0x143;

bool is_visible(int byte) { return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE; }

struct Alphabet {
  std::array<char32_t, 256> character;
  std::array<int16_t, kLast + 1> byte;

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;  // Bytes that are not printable map to the characters from here on.
    for (int i = 0; i < 256; ++i) {
      character[i] = is_visible(i) ? i : next++;
      byte[character[i]] = static_cast<int16_t>(i);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

void append_byte_characters(std::string& out, std::string_view bytes) {
  const auto& characters = alphabet().character;
  for (unsigned char byte : bytes) append_character(out, characters[byte]);
}

void append_bytes_of(std::string& bytes, std::string_view token) {
  size_t before = bytes.size();
  for (size_t at = 0; at < token.size();) {
    char32_t c = next_character(token, at);
    int byte = c <= kLast ? alphabet().byte[c] : -1;
    if (byte < 0) {
      bytes.resize(before);
      bytes += token;
      return;
    }
    bytes += static_cast<char>(byte);
  }
}

}  // namespace tenon::tokens
