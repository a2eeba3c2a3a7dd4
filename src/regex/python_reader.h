// A cursor over a Python pattern: its characters, flags, and the escapes that denote one character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tenon::regex {

inline bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
inline bool is_octal(char32_t c) { return c >= '0' && c <= '7'; }
inline bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_hex(char32_t c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
inline bool is_space(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

inline std::u32string decode(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    auto lead = static_cast<unsigned char>(text[i]);
    int more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    char32_t c = more == 0 ? lead : lead & (0x3F >> more);
    for (++i; more > 0 && i < text.size(); --more, ++i) c = c << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    out += c;
  }
  return out;
}

struct PatternFlags {
  bool ascii = false, ignore_case = false, multiline = false, dot_all = false, verbose = false;
};

class PatternReader {
 public:
  // `code` is the code of thrown errors and `name` begins their text: see pcre2_from_python.
  PatternReader(std::string_view pattern, ErrorCode code, const std::string& name)
      : shown_(pattern), pattern_(decode(pattern)), code_(code), name_(name) {}

 protected:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(code_,
                    name_ + " '" + shown_ + "': " + what + " (at character " + std::to_string(at_) + "). Rewrite the pattern without it.");
  }

  bool at_end() const { return at_ >= pattern_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : U'\0'; }
  bool has(char32_t c) const { return !at_end() && peek() == c; }
  bool accept(char32_t c) {
    if (!has(c)) return false;
    ++at_;
    return true;
  }
  char32_t take(const char* what) {
    if (at_end()) refuse(what);
    return pattern_[at_++];
  }

  std::string digits() {
    std::string out;
    while (!at_end() && is_digit(peek())) out += static_cast<char>(pattern_[at_++]);
    return out;
  }

  // Decodes an escape that denotes one character both inside and outside a class.
  std::optional<char32_t> escaped_character(char32_t c) {
    static constexpr std::string_view kLetters = "afnrtv\\", kMeanings = "\a\f\n\r\t\v\\";
    size_t known = c < 128 ? kLetters.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos) return static_cast<char32_t>(kMeanings[known]);
    if (c == 'x') return hex(2);
    if (c == 'u') return hex(4);
    if (c == 'U') return hex(8);
    if (c == 'N') refuse("a character by its name (\\N{...})");
    if (c == '0') return octal(c, 2);
    if (!is_letter(c) && !is_digit(c)) return c;
    return {};
  }

  char32_t hex(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      char32_t c = take("an incomplete escape");
      if (!is_hex(c)) refuse("an incomplete escape");
      text += static_cast<char>(c);
    }
    unsigned long value = std::stoul(text, nullptr, 16);
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("an escape of a character that does not exist");
    return static_cast<char32_t>(value);
  }

  // Decodes an octal escape that began with the digit `first` and has at most `more` further digits.
  char32_t octal(char32_t first, int more) {
    char32_t value = first - '0';
    for (; more > 0 && !at_end() && is_octal(peek()); --more) value = value * 8 + (pattern_[at_++] - '0');
    if (value > 0377) refuse("an octal escape above \\377");
    return value;
  }

  std::string shown_;
  std::u32string pattern_;
  size_t at_ = 0;

 private:
  ErrorCode code_;
  const std::string& name_;
};

}  // namespace tenon::regex
