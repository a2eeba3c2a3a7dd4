#include "base/text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tenon {
namespace {

template <class Real>
std::string shortest(Real value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string real_text(double value) { return shortest(value); }
std::string real_text(float value) { return shortest(value); }

std::string shown(std::string_view text) {
  constexpr size_t kMaxShownBytes = 120;  // Keeps an error message on one line.
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    bool inside_character = (byte & 0xC0) == 0x80 && out.size() < kMaxShownBytes + 4;
    if (out.size() >= kMaxShownBytes && !inside_character) return out + "...\"";
    if (byte < 0x20 || byte == 0x7F) {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

void Scanner::fail(const std::string& expected) const {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  throw UserError(ErrorCode::parse, "line " + std::to_string(line) + ", column " + std::to_string(column) + ": expected " + expected);
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string identifier(std::string_view text) {
  constexpr size_t kMaxNameBytes = 80;  // Names become parts of file names, which Linux limits to 255 bytes.
  std::string out(text.substr(0, kMaxNameBytes));
  for (char& c : out)
    if (!Scanner::is_name_char(c)) c = '_';
  return out.empty() ? "unnamed" : out;
}

void Scanner::skip_space() {
  while (at_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
      ++at_;
    } else if (text_[at_] == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      break;
    }
  }
}

void Scanner::end() {
  skip_space();
  if (at_ != text_.size()) fail("nothing more after '}'");
}

bool Scanner::peek(const std::string& symbol) {
  skip_space();
  return text_.compare(at_, symbol.size(), symbol) == 0;
}

bool Scanner::accept(const std::string& symbol) {
  if (!peek(symbol)) return false;
  at_ += symbol.size();
  return true;
}

void Scanner::symbol(const std::string& symbol) {
  if (!accept(symbol)) fail("'" + symbol + "'");
}

bool Scanner::is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

bool Scanner::peek_word(const std::string& word) {
  return peek(word) && (at_ + word.size() >= text_.size() || !is_name_char(text_[at_ + word.size()]));
}

bool Scanner::accept_word(const std::string& word) {
  if (!peek_word(word)) return false;
  at_ += word.size();
  return true;
}

void Scanner::word(const std::string& word) {
  if (!accept_word(word)) fail("'" + word + "'");
}

std::string Scanner::name() {
  skip_space();
  size_t begin = at_;
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  if (begin == at_) fail("a name");
  return text_.substr(begin, at_ - begin);
}

int64_t Scanner::integer() {
  skip_space();
  int64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail("an integer");
  at_ = end - text_.data();
  return value;
}

double Scanner::real() {
  if (accept("nan")) return std::numeric_limits<double>::quiet_NaN();
  if (accept("inf")) return std::numeric_limits<double>::infinity();
  if (accept("-inf")) return -std::numeric_limits<double>::infinity();
  double value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail("a number");
  at_ = end - text_.data();
  return value;
}

}  // namespace tenon
