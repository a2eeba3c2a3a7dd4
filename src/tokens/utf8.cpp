#include "tokens/utf8.h"

#include "base/error.h"

namespace tenon::tokens {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

int expected_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

// The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
bool may_be_second(unsigned char first, unsigned char second) {
  if (first == 0xE0) return second >= 0xA0 && second <= 0xBF;
  if (first == 0xED) return second >= 0x80 && second <= 0x9F;
  if (first == 0xF0) return second >= 0x90 && second <= 0xBF;
  if (first == 0xF4) return second >= 0x80 && second <= 0x8F;
  return second >= 0x80 && second <= 0xBF;
}

}  // namespace

int character_length(std::string_view text, size_t at) {
  unsigned char first = text[at];
  int length = expected_length(first);
  if (length == 0) return -1;
  for (int i = 1; i < length; ++i) {
    if (at + i == text.size()) return 0;
    unsigned char byte = text[at + i];
    if (i == 1 ? !may_be_second(first, byte) : (byte & 0xC0) != 0x80) return -i;
  }
  return length;
}

void check_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    int length = character_length(text, at);
    if (length <= 0)
      throw UserError(ErrorCode::tokenizer,
                      "the text is not UTF-8 at byte " + std::to_string(at) + ": convert it to UTF-8 before encoding");
    at += length;
  }
}

char32_t next_character(std::string_view text, size_t& at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(at);
  if (first < 0x80) return text[at++];
  int length = expected_length(first);
  char32_t character = first & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i) character = character << 6 | (byte(at + i) & 0x3F);
  at += length;
  return character;
}

char32_t previous_character(std::string_view text, size_t& at) {
  do --at;
  while ((text[at] & 0xC0) == 0x80);
  size_t begin = at;
  return next_character(text, begin);
}

void append_character(std::string& text, char32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xC0 | character >> 6);
    text += static_cast<char>(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    text += static_cast<char>(0xE0 | character >> 12);
    text += static_cast<char>(0x80 | (character >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (character & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | character >> 18);
    text += static_cast<char>(0x80 | (character >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (character >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (character & 0x3F));
  }
}

std::string take_text(std::string& bytes, bool open) {
  std::string text;
  size_t at = 0;
  while (at < bytes.size()) {
    int length = character_length(bytes, at);
    if (length == 0 && open) break;
    if (length > 0) {
      text.append(bytes, at, length);
      at += length;
    } else {
      text += kReplacement;
      at = length == 0 ? bytes.size() : at - length;
    }
  }
  bytes.erase(0, at);
  return text;
}

}  // namespace tenon::tokens
