// What the text forms of the languages share: numbers to text that reads back as the same number,
// foreign text for messages, and a scanner for parsers, which throws UserError(parse) with line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// The shortest text that reads back exactly; never that of an integer.
std::string real_text(double number);
std::string real_text(float number);

// Text from a file as it may stand in a message: quoted, control characters escaped, cut if long.
std::string shown(std::string_view text);

// A user's text as a name of the graph and loop languages: every character that is no letter, digit, '_' or '.' becomes '_'.
std::string identifier(std::string_view text);

class Scanner {
 public:
  // The text must outlive the scanner.
  explicit Scanner(const std::string& text) : text_(text) {}

  static bool is_name_char(char c);

 protected:
  [[noreturn]] void fail(const std::string& expected) const;

  void skip_space();  // and comments: "#" to the end of the line
  void end();         // nothing but space is left

  bool peek(const std::string& symbol);
  bool accept(const std::string& symbol);
  void symbol(const std::string& symbol);

  // Words end where a name ends.
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
