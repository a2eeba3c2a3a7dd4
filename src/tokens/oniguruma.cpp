#include "tokens/oniguruma.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/error.h"

namespace tenon::tokens {

// PCRE2's own \s includes U+180E, and its \w excludes marks and connectors.
const char* const kSpaceSet = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
const char* const kNotSpaceSet =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
const char* const kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";

namespace {

// Oniguruma's \w includes superscripts and fractions of Latin-1, and excludes joiners.
const char* const kOwnWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

constexpr std::array kCategories = {"C",  "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
                                    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf",
                                    "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
constexpr std::array kScripts = {"Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian",
                                 "Greek",  "Hangul",   "Han",     "Hebrew",   "Hiragana",   "Katakana", "Khmer",
                                 "Lao",    "Latin",    "Myanmar", "Tamil",    "Thai",       "Tibetan"};

class OnigurumaTranslator {
 public:
  explicit OnigurumaTranslator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    if (accept("(?i)")) {
      out_ += "(?i)";
      folds_.back() = true;
    }
    while (at_ < pattern_.size()) item();
    if (!groups_.empty()) refuse("a group that is not closed");
    return out_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(ErrorCode::tokenizer, "regular expression '" + std::string(pattern_) + "': " + what + " at byte " +
                                              std::to_string(at_) +
                                              ". Rewrite the pattern without it, for example with ranges of characters");
  }

  bool peek(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool accept(std::string_view text) {
    if (!peek(text)) return false;
    at_ += text.size();
    return true;
  }
  char take() {
    if (at_ == pattern_.size()) refuse("an incomplete expression");
    return pattern_[at_++];
  }
  bool folds() const { return folds_.back(); }

  void item() {
    char c = pattern_[at_];
    switch (c) {
      case '(':
        return open();
      case ')':
        return close();
      case '|':
        ++at_;
        last_letter_ = 0;
        out_ += '|';
        return;
      case '[':
        begin_atom();
        return set();
      case '*':
      case '+':
      case '?':
        ++at_;
        out_ += c;
        if (at_ < pattern_.size() && (pattern_[at_] == '?' || pattern_[at_] == '+')) out_ += pattern_[at_++];
        return;
      case '{':
        return interval();
      case '\\':
        begin_atom();
        return escape(false);
      default:
        begin_atom();
        literal();
    }
  }

  void begin_atom() { atom_ = out_.size(); }

  void literal() {
    unsigned char c = take();
    if (folds()) check_fold(c);
    out_ += static_cast<char>(c);
    while (at_ < pattern_.size() && (pattern_[at_] & 0xC0) == 0x80) out_ += pattern_[at_++];  // Continuation bytes of the character.
  }

  // Oniguruma lets a pair such as "ss" match one character such as "ß".
  void check_fold(unsigned char c) {
    if (c >= 0x80) refuse("a character that is not ASCII where case is ignored");
    char lower = static_cast<char>(std::tolower(c));
    if ((last_letter_ == 's' && (lower == 's' || lower == 't')) || (last_letter_ == 'f' && (lower == 'f' || lower == 'i' || lower == 'l')))
      refuse("letters that have a ligature where case is ignored");
    last_letter_ = lower;
  }

  void open() {
    size_t start = out_.size();
    ++at_;
    bool fold = folds();
    std::string head = "(";
    if (peek("?")) {
      static constexpr std::array kHeads = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:", "?-i:"};
      auto found = std::find_if(kHeads.begin(), kHeads.end(), [&](const char* text) { return peek(text); });
      if (found == kHeads.end()) refuse("an unsupported kind of group");
      head += *found;
      at_ += head.size() - 1;
      if (head == "(?i:") fold = true;
      if (head == "(?-i:") fold = false;
    }
    out_ += head;
    groups_.push_back(start);
    folds_.push_back(fold);
    last_letter_ = 0;
    constexpr size_t kMaxNestedGroups = 50;  // Safety limit, not measured.
    if (groups_.size() > kMaxNestedGroups) refuse("more than 50 nested groups");
  }

  void close() {
    if (groups_.empty()) refuse("an unmatched closing parenthesis");
    ++at_;
    out_ += ')';
    atom_ = groups_.back();
    groups_.pop_back();
    folds_.pop_back();
    last_letter_ = 0;
  }

  // In Ruby's syntax the second quantifier of "{2}?" and "{1,3}+" repeats the first; it does not make it lazy or possessive.
  void interval() {
    size_t end = pattern_.find('}', at_);
    std::string_view inside = pattern_.substr(at_ + 1, end == std::string_view::npos ? 0 : end - at_ - 1);
    size_t comma = inside.find(',');
    std::string_view low = inside.substr(0, comma), high = comma == std::string_view::npos ? low : inside.substr(comma + 1);
    auto is_count = [](std::string_view text) {
      return text.size() <= 4 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (end == std::string_view::npos || !is_count(low) || !is_count(high) || (low.empty() && high.empty()))
      refuse("a brace without a repeat count");
    at_ = end + 1;
    out_ += "{" + (low.empty() ? "0" : std::string(low)) + (comma == std::string_view::npos ? "" : "," + std::string(high)) + "}";
    bool exact = comma == std::string_view::npos;
    char next = at_ < pattern_.size() ? pattern_[at_] : 0;
    if (next == '+' || (next == '?' && exact)) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    } else if (next == '?') {
      out_ += '?';
      ++at_;
    }
  }

  void escape(bool in_set) {
    ++at_;
    char c = take();
    last_letter_ = 0;
    auto whole = [&](const char* set, const char* negated) {
      if (folds()) refuse("a class of characters where case is ignored");
      if (in_set) out_ += set;
      if (!in_set) out_ += negated ? std::string("[^") + negated + "]" : std::string("[") + set + "]";
    };
    auto only_in_set = [&](const char* what) {
      if (in_set) refuse(what);
    };
    switch (c) {
      case 's':
        return whole(kSpaceSet, nullptr);
      case 'S':
        return whole(kNotSpaceSet, nullptr);
      case 'w':
        return whole(kOwnWordSet, nullptr);
      case 'W':
        only_in_set("\\W inside a set");
        return whole("", kOwnWordSet);
      case 'd':
        return whole("\\p{Nd}", nullptr);
      case 'D':
        return whole("\\P{Nd}", nullptr);
      case 'h':
        return whole("0-9a-fA-F", nullptr);
      case 'p':
      case 'P':
        return property(c);
      case 'b':
      case 'B':
        only_in_set("\\b inside a set");
        return boundary(c == 'b');
      case 'A':
      case 'z':
        only_in_set("an anchor inside a set");
        out_ += std::string("\\") + c;
        return;
      case 'v':
        out_ += "\\x{b}";
        return;
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        out_ += std::string("\\") + c;
        return;
      case 'x':
      case 'u':
        return code(c);
      default:
        if (!std::ispunct(static_cast<unsigned char>(c)) && c != ' ') refuse(std::string("the escape \\") + c);
        out_ += std::string("\\") + c;
    }
  }

  void boundary(bool at_boundary) {
    std::string word = std::string("[") + kOwnWordSet + "]";
    if (at_boundary) out_ += "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
    else out_ += "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
  }

  void property(char c) {
    if (folds()) refuse("a class of characters where case is ignored");
    if (!accept("{")) refuse("a property without braces");
    bool negated = (c == 'P') != accept("^");
    size_t end = pattern_.find('}', at_);
    std::string name(pattern_.substr(at_, end == std::string_view::npos ? 0 : end - at_));
    out_ += negated ? "\\P{" : "\\p{";
    if (std::find(kCategories.begin(), kCategories.end(), name) != kCategories.end()) out_ += name;
    else if (std::find(kScripts.begin(), kScripts.end(), name) != kScripts.end())
      out_ += "sc:" + name;  // PCRE2 would include the script's extensions without the prefix.
    else refuse("the property '" + name + "'");
    out_ += '}';
    at_ = end + 1;
  }

  void code(char c) {
    std::string digits;
    if (c == 'x' && accept("{")) {
      while (!peek("}")) digits += take();
      ++at_;
    } else {
      while (digits.size() < (c == 'x' ? 2u : 4u) && at_ < pattern_.size() && std::isxdigit(static_cast<unsigned char>(pattern_[at_])))
        digits += pattern_[at_++];
      if (c == 'u' && digits.size() < 4) refuse("a \\u without four digits");
      if (c == 'x' && digits.size() == 2 && digits[0] >= '8') refuse("an escape of a single UTF-8 byte");
    }
    bool good = !digits.empty() && digits.size() <= 6 &&
                std::all_of(digits.begin(), digits.end(), [](unsigned char digit) { return std::isxdigit(digit) != 0; });
    if (!good) refuse("an escape of a character that does not exist");
    if (folds()) refuse("an escaped character where case is ignored");
    out_ += "\\x{" + digits + "}";
  }

  void set() {
    ++at_;
    out_ += '[';
    if (accept("^")) {
      if (folds()) refuse("a negated set where case is ignored");
      out_ += '^';
    }
    if (peek("]")) refuse("a set that begins with ]");
    for (size_t first = at_; !accept("]");) {
      if (peek("[")) refuse("a set inside a set");
      if (peek("&&")) refuse("an intersection of sets");
      if (peek("\\")) {
        bool is_class = at_ + 1 < pattern_.size() && std::string_view("sSwWdDhpP").find(pattern_[at_ + 1]) != std::string_view::npos;
        if (is_class && at_ > first + 1 && pattern_[at_ - 1] == '-') refuse("a range that ends with a class");
        escape(true);
        if (is_class && peek("-") && !peek("-]")) refuse("a range that begins with a class");
      } else {
        unsigned char c = take();
        if (folds() && c >= 0x80) refuse("a character that is not ASCII where case is ignored");
        out_ += static_cast<char>(c);
      }
    }
    out_ += ']';
    last_letter_ = 0;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // Start in out_ of the atom that a quantifier would repeat.
  std::vector<size_t> groups_;  // Starts of the open groups in out_.
  std::vector<bool> folds_ = {false};
  char last_letter_ = 0;
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern) { return OnigurumaTranslator(pattern).run(); }

}  // namespace tenon::tokens
