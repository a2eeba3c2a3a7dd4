#include "formats/json_scanner.h"

#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace tenon::formats {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// string() has checked the digits.
uint32_t hex4(std::string_view text, size_t at) {
  uint32_t code = 0;
  for (size_t i = at; i < at + 4; ++i) code = code * 16 + static_cast<uint32_t>(hex_value(text[i]));
  return code;
}

bool is_high_surrogate(uint32_t code) { return code >= 0xD800 && code < 0xDC00; }
bool is_low_surrogate(uint32_t code) { return code >= 0xDC00 && code < 0xE000; }

void append_utf8(std::string& out, uint32_t code) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace

std::optional<size_t> first_bad_utf8(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    unsigned lead = byte(i), low = 0x80, high = 0xBF;
    size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0) return i;
    // The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (length > 1 && (byte(i + 1) < low || byte(i + 1) > high)) return i;
    for (size_t k = 2; k < length; ++k)
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    i += length;
  }
  return std::nullopt;
}

JsonScanner::JsonScanner(std::string_view text, std::string source, size_t first_byte)
    : text_(text), source_(std::move(source)), first_byte_(first_byte) {
  if (auto bad = first_bad_utf8(text_)) fail_at(*bad, "this is not UTF-8");
}

void JsonScanner::fail_at(size_t at, const std::string& what) const {
  throw UserError(ErrorCode::format, source_ + ": byte " + std::to_string(first_byte_ + at) + ": " + what);
}

void JsonScanner::space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
}

char JsonScanner::peek() {
  space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonScanner::expect(char c, const char* what) {
  if (peek() != c) fail(at_ < text_.size() ? std::string("expected ") + what : std::string("the text ends, expected ") + what);
  ++at_;
}

void JsonScanner::end() {
  space();
  if (at_ < text_.size()) fail("there is more text after the end");
}

bool JsonScanner::open(char opening, char closing, const char* what) {
  expect(opening, what);
  if (peek() != closing) return true;
  ++at_;
  return false;
}

bool JsonScanner::more(char closing) {
  char next = peek();
  if (next != ',' && next != closing) fail(closing == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
  ++at_;
  return next == ',';
}

JsonScanner::StringText JsonScanner::key() {
  StringText key = string("a name in quotes");
  expect(':', "':'");
  return key;
}

JsonScanner::StringText JsonScanner::string(const char* what) {
  expect('"', what);
  size_t start = at_;
  bool escaped = false;
  for (;; ++at_) {
    if (at_ >= text_.size()) fail_at(start - 1, "this string is not terminated");
    char c = text_[at_];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string must be escaped");
    if (c != '\\') continue;
    escaped = true;
    escape();
  }
  return {start, text_.substr(start, at_++ - start), escaped};
}

// Advances from the backslash to the last character of the escape.
void JsonScanner::escape() {
  size_t start = at_++;
  char c = at_ < text_.size() ? text_[at_] : '\0';
  if (c != 'u') {
    if (c == '\0' || std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) fail_at(start, "this escape does not exist in JSON");
    return;
  }
  uint32_t code = four_digits();
  if (is_low_surrogate(code)) fail_at(start, "half of a surrogate pair");
  if (!is_high_surrogate(code)) return;
  if (text_.substr(at_ + 1, 2) != "\\u") fail_at(start, "half of a surrogate pair");
  at_ += 2;
  if (!is_low_surrogate(four_digits())) fail_at(start, "half of a surrogate pair");
}

uint32_t JsonScanner::four_digits() {
  if (at_ + 4 >= text_.size()) fail("expected four hexadecimal digits");
  for (size_t i = 1; i <= 4; ++i)
    if (hex_value(text_[at_ + i]) < 0) fail("expected four hexadecimal digits");
  at_ += 4;
  return hex4(text_, at_ - 3);
}

bool JsonScanner::digits() {
  size_t start = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  return at_ > start;
}

JsonScanner::NumberText JsonScanner::number(const char* what) {
  char first = peek();
  size_t start = at_;
  bool integer = true;
  auto next = [&] { return at_ < text_.size() ? text_[at_] : '\0'; };
  if (first != '-' && !is_digit(first)) expect('0', what);  // Throws an error that names what was expected.
  if (first == '-') ++at_;
  bool zero = next() == '0';
  if (!digits()) fail("expected a digit");
  if (zero && at_ - start > (first == '-' ? 2u : 1u)) fail_at(start, "a number may not start with 0");
  if (next() == '.') {
    ++at_;
    integer = false;
    if (!digits()) fail("expected a digit");
  }
  if (next() == 'e' || next() == 'E') {
    ++at_;
    integer = false;
    if (next() == '+' || next() == '-') ++at_;
    if (!digits()) fail("expected a digit");
  }
  return {start, text_.substr(start, at_ - start), integer};
}

uint64_t JsonScanner::natural(const char* what) {
  NumberText number = this->number(what);
  uint64_t out = 0;
  if (!number.integer || number.text[0] == '-') fail_at(number.at, std::string("expected ") + what);
  if (std::from_chars(number.text.data(), number.text.data() + number.text.size(), out).ec != std::errc())
    fail_at(number.at, "this number is too large");
  return out;
}

void JsonScanner::word(std::string_view word) {
  space();
  if (text_.substr(at_, word.size()) != word) fail("expected a value");
  at_ += word.size();
}

size_t JsonScanner::skip(int depth) {
  char first = peek();
  size_t values = 1;
  if ((first == '{' || first == '[') && depth == 0) fail("the text is nested too deeply");
  switch (first) {
    case '{':
      if (open('{', '}', "")) do {
          key();
          values += skip(depth - 1);
        } while (more('}'));
      break;
    case '[':
      if (open('[', ']', "")) do
          values += skip(depth - 1);
        while (more(']'));
      break;
    case '"':
      string("");
      break;
    case 't':
      word("true");
      break;
    case 'f':
      word("false");
      break;
    case 'n':
      word("null");
      break;
    default:
      number("a value");
  }
  return values;
}

std::string JsonScanner::decode(const StringText& string) {
  std::string_view raw = string.raw;
  if (!string.escaped) return std::string(raw);
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    constexpr std::string_view kLetters = "bfnrt", kMeanings = "\b\f\n\r\t";
    char c = raw[++i];
    if (size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      out += kMeanings[letter];
    } else if (c != 'u') {
      out += c;
    } else {
      uint32_t code = hex4(raw, i + 1);
      i += 4;
      if (is_high_surrogate(code)) {
        code = 0x10000 + ((code - 0xD800) << 10) + (hex4(raw, i + 3) - 0xDC00);
        i += 6;
      }
      append_utf8(out, code);
    }
  }
  return out;
}

}  // namespace tenon::formats
