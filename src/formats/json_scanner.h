// A cursor over JSON text that does not allocate; every parser of this folder uses it. It accepts exactly the grammar of
// RFC 8259. Errors are UserError(format) with the file and the byte offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::formats {

// Returns the offset of the first byte that is not valid UTF-8, if any.
std::optional<size_t> first_bad_utf8(std::string_view text);

class JsonScanner {
 public:
  // A string as written in the text, without quotes and with escapes.
  struct StringText {
    size_t at;
    std::string_view raw;
    bool escaped;
  };
  struct NumberText {
    size_t at;
    std::string_view text;
    bool integer;
  };

  // The text must be UTF-8 (checked here) and outlive the scanner. Messages count bytes from `first_byte`.
  JsonScanner(std::string_view text, std::string source, size_t first_byte = 0);

  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(size_t at, const std::string& what) const;

  size_t at() const { return at_; }
  void go_to(size_t at) { at_ = at; }
  // Skips whitespace and returns the next character, or zero at the end.
  char peek();
  void expect(char c, const char* what);
  void end();  // Fails unless only whitespace follows.

  // Usage: if (s.open('{', '}', "an object")) do { s.key(); read the value; } while (s.more('}'));
  bool open(char opening, char closing, const char* what);
  bool more(char closing);
  StringText key();  // Reads a name and the colon after it.

  StringText string(const char* what);
  NumberText number(const char* what);
  uint64_t natural(const char* what);  // Rejects a sign, a fraction and an exponent.
  void word(std::string_view word);    // Reads true, false or null.

  // Skips a value of at most this depth. Returns the count of values in it, including itself.
  size_t skip(int depth);

  static std::string decode(const StringText& string);
  static bool equal(const StringText& string, std::string_view text) {
    return string.escaped ? decode(string) == text : string.raw == text;
  }

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
