// A cursor over JSON text that allocates nothing: every parser of this folder is written on it. It knows the
// grammar of RFC 8259 and nothing beyond it. Faults are UserError(format) with file and byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::formats {

// Where UTF-8 breaks, if it does.
std::optional<size_t> first_bad_utf8(std::string_view text);

class JsonScanner {
 public:
  // A string as it stands in the text, without its quotes.
  struct String {
    size_t at;
    std::string_view raw;
    bool escaped;
  };
  struct Number {
    size_t at;
    std::string_view text;
    bool integer;
  };

  // The text must be UTF-8 (checked here) and outlive the scanner. Bytes count from `first_byte` in messages.
  JsonScanner(std::string_view text, std::string source, size_t first_byte = 0);

  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(size_t at, const std::string& what) const;

  size_t at() const { return at_; }
  void go_to(size_t at) { at_ = at; }
  // The next character that is not space; zero at the end.
  char peek();
  void expect(char c, const char* what);
  void end();  // nothing but space is left

  // if (s.open('{', '}')) do { key(); value; } while (s.more('}'));
  bool open(char opening, char closing, const char* what);
  bool more(char closing);
  String key();  // and its colon

  String string(const char* what);
  Number number(const char* what);
  uint64_t natural(const char* what);  // no sign, no fraction, no exponent
  void word(std::string_view word);    // true, false, null

  // Passes over a value of at most this depth; returns how many values it holds, itself included.
  size_t skip(int depth);

  static std::string decode(const String& string);
  static bool equal(const String& string, std::string_view text) { return string.escaped ? decode(string) == text : string.raw == text; }

 private:
  void space();
  void escape();
  uint32_t four_digits();
  bool digits();

  std::string_view text_;
  std::string source_;
  size_t first_byte_;
  size_t at_ = 0;
};

}  // namespace tenon::formats
