#include "tokens/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/error.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

struct CharacterRange {
  char32_t first, last;
};

#define TENON_CLASS_BEGIN(name) constexpr CharacterRange name[] = {
#define TENON_RANGE(first, last) {first, last},
#define TENON_CLASS_END() \
  }                       \
  ;
#include "tokens/character_classes.def"
#undef TENON_CLASS_BEGIN
#undef TENON_RANGE
#undef TENON_CLASS_END

template <size_t N>
bool is_in(const CharacterRange (&ranges)[N], char32_t c) {
  const CharacterRange* range =
      std::upper_bound(ranges, ranges + N, c, [](char32_t value, const CharacterRange& r) { return value < r.first; });
  return range != ranges && c <= range[-1].last;
}

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  return is_in(kPunctuation, c);
}

bool is_control(char32_t c) { return is_in(kControl, c); }
bool is_nonspacing_mark(char32_t c) { return c >= 0x300 && is_in(kNonspacingMark, c); }
bool is_combining_mark(char32_t c) { return c >= 0x300 && is_in(kCombiningMark, c); }

void append_lower_case(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x130) {
    text += "i\xCC\x87";  // The only character whose lower case has more than one character.
  } else {
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

std::string normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  int options = UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* result = nullptr;
  utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                                         &result, static_cast<utf8proc_option_t>(options));
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (length < 0) throw InternalError(std::string("normal form: ") + utf8proc_errmsg(length));
  std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return std::string(reinterpret_cast<const char*>(result), static_cast<size_t>(length));
}

}  // namespace tenon::tokens
