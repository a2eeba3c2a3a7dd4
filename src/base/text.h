// Text utilities: exact formatting of floating-point values, quoting of foreign text in messages, and a scanner for the
// parsers of the graph and loop languages, which throws UserError(parse) with line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// The shortest text that parses to the same value; always with a decimal point or exponent.
std::string real_text(double value);
std::string real_text(float value);

// Foreign text for a message: quoted, with control characters escaped, truncated if long.
std::string shown(std::string_view text);

// The text with ASCII letters in lower case, as keywords and names of settings are compared.
std::string lower_case(std::string text);

// Makes an identifier of the graph and loop languages from any text: each character other than a letter, digit, '_' or '.'
// becomes '_'.
std::string identifier(std::string_view text);

class Scanner {
 public:
  // The text must outlive the scanner.
  explicit Scanner(const std::string& text) : text_(text) {}

  static bool is_name_char(char c);

 protected:
  [[noreturn]] void fail(const std::string& expected) const;

  // Skips whitespace and comments ("#" to the end of the line).
  void skip_space();
  // Fails unless only whitespace is left.
  void end();

  bool peek(const std::string& symbol);
  bool accept(const std::string& symbol);
  void symbol(const std::string& symbol);

  // A word must not be followed by another name character.
  bool peek_word(const std::string& word);
  bool accept_word(const std::string& word);
  void word(const std::string& word);
  std::string name();

  int64_t integer();
  double real();

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace tenon
