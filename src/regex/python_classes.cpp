#include "regex/python_classes.h"

#include <cstdio>

namespace tenon::regex {

namespace {

// Members of a PCRE2 class. Python's \w is isalnum() and the underscore, \s is isspace().
constexpr const char* kWord = R"(\p{L}\p{N}_)";
constexpr const char* kNotWord =
    R"(\p{C}\p{M}\p{S}\p{Z}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\x{203f}\x{2040}\x{2054}\x{fe33}\x{fe34}\x{fe4d}-\x{fe4f}\x{ff3f})";
constexpr const char* kSpace = R"(\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr const char* kNotSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1b}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr const char* kAsciiWord = R"(A-Za-z0-9_)";
constexpr const char* kNotAsciiWord = R"(\x{0}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{5e}\x{60}\x{7b}-\x{10ffff})";
constexpr const char* kAsciiSpace = R"(\x{9}-\x{d}\x{20})";
constexpr const char* kNotAsciiSpace = R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{10ffff})";

}  // namespace

std::string category(char32_t c, bool ascii) {
  switch (c) {
    case 'd':
      return ascii ? "0-9" : "\\p{Nd}";
    case 'D':
      return ascii ? "\\x{0}-\\x{2f}\\x{3a}-\\x{10ffff}" : "\\P{Nd}";
    case 'w':
      return ascii ? kAsciiWord : kWord;
    case 'W':
      return ascii ? kNotAsciiWord : kNotWord;
    case 's':
      return ascii ? kAsciiSpace : kSpace;
    case 'S':
      return ascii ? kNotAsciiSpace : kNotSpace;
    default:
      return "";
  }
}

std::string literal(char32_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_') return {static_cast<char>(c)};
  char text[16];
  std::snprintf(text, sizeof text, "\\x{%x}", static_cast<unsigned>(c));
  return text;
}

}  // namespace tenon::regex
