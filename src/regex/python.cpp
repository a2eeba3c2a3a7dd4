// Translates by recursive descent, as Python's own parser reads a pattern. Everything whose meaning could differ is written out: classes as
// ranges and properties, anchors as assertions, counts of repeats in full, case folding around each literal.
#include "regex/python.h"

#include <algorithm>
#include <vector>

#include "regex/python_classes.h"
#include "regex/python_reader.h"

namespace tenon::regex {

namespace {

constexpr int kMaxDepth = 100;
constexpr uint64_t kUnbounded = UINT32_MAX;  // Python's MAXREPEAT.
constexpr size_t kMaxCharacters = 64 << 10;

// A part of the pattern in PCRE2's syntax. Widths are numbers of characters; Python refuses a lookbehind whose width can vary.
struct Node {
  std::string text;
  uint64_t min = 0, max = 0;
  enum class Kind { plain, anchor, lookaround, repeat } kind = Kind::plain;
};

struct Group {
  bool is_open = true, is_repeated = false, is_negated = false;
  uint64_t min = 0, max = 0;
};

class Translator : PatternReader {
 public:
  using PatternReader::PatternReader;

  PythonPattern run() {
    if (pattern_.size() > kMaxCharacters) {
      shown_ = shown_.substr(0, 40) + "...";
      refuse("a pattern of more than 65536 characters");
    }
    Node all = alternatives({}, 0);
    if (at_ < pattern_.size()) refuse("an unbalanced parenthesis");
    for (size_t group : referenced_) {
      if (groups_[group].is_repeated) refuse("a reference to a group inside a repeat");
      if (groups_[group].is_negated) refuse("a reference to a group inside a negative lookaround");
    }
    return {all.text, names_};
  }

 private:
  static uint64_t sum(uint64_t a, uint64_t b) { return std::min(kUnbounded, a + b); }
  static uint64_t product(uint64_t a, uint64_t b) { return a != 0 && b > kUnbounded / a ? kUnbounded : a * b; }

  // a|b|c up to a closing parenthesis or the end. Flags of the whole pattern stand at the start of the first alternative.
  Node alternatives(Flags flags, int depth) {
    if (depth > kMaxDepth) refuse("more than 100 nested groups");
    if (depth == 0) global_flags(flags);
    Node out;
    for (bool is_first = true;; is_first = false) {
      Node one = sequence(flags, depth);
      out.text += (is_first ? "" : "|") + one.text;
      out.min = is_first ? one.min : std::min(out.min, one.min);
      out.max = std::max(out.max, one.max);
      if (!accept('|')) return out;
    }
  }

  void global_flags(Flags& flags) {
    for (;;) {
      skip_comments(flags);
      size_t begin = at_;
      if (!(accept('(') && accept('?') && !at_end() && is_flag(peek()))) {
        at_ = begin;
        return;
      }
      Flags changed = flags;
      read_flags(changed, /*are_on=*/true);
      if (!accept(')')) {
        at_ = begin;  // Flags of a group.
        return;
      }
      flags = changed;
      if (flags.verbose) skip_comments(flags);
    }
  }

  static bool is_flag(char32_t c) { return c < 128 && std::string_view("aiLmsux").find(static_cast<char>(c)) != std::string_view::npos; }

  void read_flags(Flags& flags, bool are_on) {
    bool has_type = false;
    while (!at_end() && is_flag(peek())) {
      char32_t c = pattern_[at_++];
      if (c == 'L') refuse("the flag L, which Python allows for bytes only");
      if (c == 'a' || c == 'u') {
        if (!are_on || has_type) refuse("the flags a and u together, or turned off");
        has_type = true;
        flags.ascii = c == 'a';
      }
      if (c == 'i') flags.ignore_case = are_on;
      if (c == 'm') flags.multiline = are_on;
      if (c == 's') flags.dot_all = are_on;
      if (c == 'x') flags.verbose = are_on;
    }
    if (flags.ascii && flags.ignore_case) refuse("the flags a and i together");
  }

  // White space and comments under the flag x; (?#...) always.
  void skip_comments(const Flags& flags) {
    for (;;) {
      if (flags.verbose && !at_end() && is_space(peek())) {
        ++at_;
      } else if (flags.verbose && has('#')) {
        while (!at_end() && peek() != '\n') ++at_;
      } else if (has('(') && peek(1) == '?' && peek(2) == '#') {
        while (take("a comment that is not closed") != ')') {
        }
      } else {
        return;
      }
    }
  }

  Node sequence(const Flags& flags, int depth) {
    Node out;
    for (;;) {
      skip_comments(flags);
      if (at_end() || peek() == '|' || peek() == ')') return out;
      size_t first_group = groups_.size();
      Node one = item(flags, depth);
      skip_comments(flags);
      one = repeated(std::move(one), first_group);
      out.text += one.text;
      out.min = sum(out.min, one.min), out.max = sum(out.max, one.max);
    }
  }

  struct Count {
    uint64_t min, max;
  };

  // *, +, ?, {m}, {m,}, {,n} or {m,n}. A brace that begins no count is a literal.
  std::optional<Count> count() {
    if (accept('*')) return Count{0, kUnbounded};
    if (accept('+')) return Count{1, kUnbounded};
    if (accept('?')) return Count{0, 1};
    if (!has('{') || peek(1) == '}') return {};
    size_t begin = at_++;
    std::string low = digits(), high = low;
    if (accept(',')) high = digits();
    if (!accept('}')) {
      at_ = begin;
      return {};
    }
    auto number = [&](const std::string& text, uint64_t otherwise) {
      if (text.empty()) return otherwise;
      if (text.size() > 9) refuse("a repeat count of more than nine digits");
      return static_cast<uint64_t>(std::stoull(text));
    };
    Count out{number(low, 0), number(high, kUnbounded)};
    if (out.max < out.min) refuse("a repeat whose minimum is greater than its maximum");
    return out;
  }

  Node repeated(Node one, size_t first_group) {
    std::optional<Count> times = count();
    if (!times) return one;
    if (one.kind == Node::Kind::anchor) refuse("a repeat of an anchor");
    if (one.kind == Node::Kind::lookaround) refuse("a repeat of a lookaround");
    if (times->max > 1)
      for (size_t i = first_group; i < groups_.size(); ++i) groups_[i].is_repeated = true;
    std::string text = "{" + std::to_string(times->min) + ",";
    text += (times->max == kUnbounded ? "" : std::to_string(times->max)) + "}";
    if (accept('?')) text += "?";
    else if (accept('+')) text += "+";
    return {"(?:" + one.text + ")" + text, product(one.min, times->min), product(one.max, times->max), Node::Kind::repeat};
  }

  Node item(const Flags& flags, int depth) {
    size_t begin = at_;
    if (count()) refuse("a repeat with nothing to repeat, or of a repeat");
    at_ = begin;
    char32_t c = pattern_[at_++];
    switch (c) {
      case '(':
        return group(flags, depth);
      case '[':
        return character_class(flags);
      case '\\':
        return escape(flags);
      case '.':
        return {flags.dot_all ? "(?s:.)" : "[^\\x{a}]", 1, 1};
      case '^':
        return {flags.multiline ? "(?:\\A|(?<=\\x{a}))" : "\\A", 0, 0, Node::Kind::anchor};
      case '$':
        return {flags.multiline ? "(?=\\x{a}|\\z)" : "(?=\\x{a}?\\z)", 0, 0, Node::Kind::anchor};
      default:
        return character(c, flags);
    }
  }

  Node character(char32_t c, const Flags& flags) {
    if (!flags.ignore_case) return {literal(c), 1, 1};
    if (c >= 128) refuse("a character outside ASCII where case is ignored");
    if (c == 'i' || c == 'I') return {std::string("[iI") + kDotlessI + "]", 1, 1};
    return {"(?i:" + literal(c) + ")", 1, 1};
  }

  Node close(std::string open, Flags flags, int depth, Node::Kind kind = Node::Kind::plain) {
    Node inner = alternatives(flags, depth + 1);
    if (!accept(')')) refuse("a group that is not closed");
    inner.text = std::move(open) + inner.text + ")";
    inner.kind = kind;
    return inner;
  }

  Node capture(const Flags& flags, int depth, const std::string& name = "") {
    size_t number = groups_.size();
    groups_.emplace_back();
    groups_.back().is_negated = negated_ > 0;
    if (!name.empty() && !names_.emplace(name, number).second) refuse("two groups of one name");
    Node out = close("(", flags, depth);
    groups_[number].is_open = false;
    groups_[number].min = out.min, groups_[number].max = out.max;
    return out;
  }

  Node group(const Flags& flags, int depth) {
    if (!accept('?')) return capture(flags, depth);
    char32_t c = take("a group that ends early");
    switch (c) {
      case ':':
        return close("(?:", flags, depth);
      case '>':
        return close("(?>", flags, depth);
      case 'P':
        return named(flags, depth);
      case '=':
      case '!':
        return lookaround(c == '=' ? "(?=" : "(?!", flags, depth, c == '!');
      case '<': {
        char32_t next = take("a group that ends early");
        if (next != '=' && next != '!') refuse("(?< without = or !; Python writes a named group as (?P<name>...)");
        return lookbehind(flags, depth, next == '!');
      }
      case '(':
        return conditional(flags, depth);
      default:
        --at_;
        return flagged(flags, depth);
    }
  }

  Node flagged(Flags flags, int depth) {
    if (!is_flag(peek()) && peek() != '-') refuse("a group that begins with (? and is not one of Python's");
    read_flags(flags, /*are_on=*/true);
    if (has(')')) refuse("flags of the whole pattern that do not stand at its start");
    if (accept('-')) {
      if (!is_flag(peek())) refuse("a group of flags without a flag");
      read_flags(flags, /*are_on=*/false);
    }
    if (!accept(':')) refuse("a group of flags without a colon");
    return close("(?:", flags, depth);
  }

  std::string group_name(char32_t end) {
    std::string out;
    for (char32_t c; (c = take("the name of a group that is not closed")) != end;) {
      if (!(is_letter(c) || c == '_' || is_digit(c))) refuse("a group name with other characters than ASCII letters, digits and _");
      out += static_cast<char>(c);
    }
    if (out.empty()) refuse("a group without a name");
    return out;
  }

  Node named(const Flags& flags, int depth) {
    if (accept('<')) {
      std::string name = group_name('>');
      if (is_digit(static_cast<unsigned char>(name[0]))) refuse("a group name that begins with a digit");
      return capture(flags, depth, name);
    }
    if (!accept('=')) refuse("a group that begins with (?P and is neither (?P<name>...) nor (?P=name)");
    return reference(number_of(group_name(')')), flags);
  }

  size_t number_of(const std::string& name) const {
    auto found = names_.find(name);
    if (found == names_.end()) refuse("a reference to a group that does not exist");
    return found->second;
  }

  void refer(size_t number) {
    if (number == 0 || number >= groups_.size()) refuse("a reference to a group that does not exist");
    if (lookbehinds_ > 0) refuse("a reference inside a lookbehind");
    referenced_.push_back(number);
  }

  Node reference(size_t number, const Flags& flags) {
    refer(number);
    if (groups_[number].is_open) refuse("a reference to a group from inside it");
    if (flags.ignore_case) refuse("a reference to a group where case is ignored");
    return {"\\g{" + std::to_string(number) + "}", groups_[number].min, groups_[number].max};
  }

  Node lookaround(const char* open, const Flags& flags, int depth, bool is_negative) {
    negated_ += is_negative;
    Node out = close(open, flags, depth, Node::Kind::lookaround);
    negated_ -= is_negative;
    out.min = out.max = 0;
    return out;
  }

  Node lookbehind(const Flags& flags, int depth, bool is_negative) {
    ++lookbehinds_, negated_ += is_negative;
    Node out = close(is_negative ? "(?<!" : "(?<=", flags, depth, Node::Kind::lookaround);
    --lookbehinds_, negated_ -= is_negative;
    if (out.min != out.max) refuse("a lookbehind whose width can vary");
    out.min = out.max = 0;
    return out;
  }

  Node conditional(const Flags& flags, int depth) {
    std::string name = group_name(')');
    bool is_number = std::all_of(name.begin(), name.end(), [](unsigned char c) { return is_digit(c); });
    if (is_number && name.size() > 5) refuse("a reference to a group that does not exist");
    size_t number = is_number ? std::stoull(name) : number_of(name);
    refer(number);
    Node yes = sequence(flags, depth + 1), no;
    if (accept('|')) no = sequence(flags, depth + 1);
    if (has('|')) refuse("a condition with more than two branches");
    if (!accept(')')) refuse("a group that is not closed");
    return {"(?(" + std::to_string(number) + ")" + yes.text + "|" + no.text + ")", std::min(yes.min, no.min), std::max(yes.max, no.max)};
  }

  Node escape(const Flags& flags) {
    char32_t c = take("a backslash at the end");
    if (std::string members = category(c, flags.ascii); !members.empty()) return {"[" + members + "]", 1, 1};
    std::string word = "[" + category('w', flags.ascii) + "]";
    switch (c) {
      case 'A':
        return {"\\A", 0, 0, Node::Kind::anchor};
      case 'Z':
        return {"\\z", 0, 0, Node::Kind::anchor};
      case 'b':
        return {"(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))", 0, 0, Node::Kind::anchor};
      case 'B':
        return {"(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))", 0, 0, Node::Kind::anchor};
    }
    if (is_digit(c) && c != '0') {
      bool has_more = !at_end() && is_digit(peek());
      if (has_more && is_octal(c) && is_octal(peek()) && at_ + 1 < pattern_.size() && is_octal(peek(1)))
        return character(octal(c, 2), flags);
      size_t number = c - '0';
      if (has_more) number = number * 10 + (pattern_[at_++] - '0');
      return reference(number, flags);
    }
    if (auto known = escaped_character(c)) return character(*known, flags);
    refuse(std::string("the escape \\") + static_cast<char>(c) + ", which Python does not have");
  }

  // A member of a class: a category, or one character.
  struct Member {
    std::string category;
    char32_t character = 0;
  };

  Member class_member(const Flags& flags) {
    char32_t c = take("a class that is not closed");
    if (c != '\\') return {"", c};
    c = take("a class that is not closed");
    if (std::string members = category(c, flags.ascii); !members.empty()) return {members};
    if (c == 'b') return {"", U'\b'};
    if (is_digit(c) && is_octal(c)) return {"", octal(c, 2)};
    if (auto known = escaped_character(c)) return {"", *known};
    refuse(std::string("the escape \\") + static_cast<char>(c) + " in a class, which Python does not have");
  }

  std::string range(char32_t low, char32_t high, const Flags& flags) {
    if (flags.ignore_case && high >= 128) refuse("a character outside ASCII where case is ignored");
    std::string out = literal(low) + (high == low ? "" : "-" + literal(high));
    auto contains = [&](char32_t c) { return low <= c && c <= high; };
    return flags.ignore_case && (contains('i') || contains('I')) ? out + kDotlessI : out;
  }

  Node character_class(const Flags& flags) {
    std::string members;
    bool is_negative = accept('^');
    for (bool is_first = true;; is_first = false) {
      if (!is_first && accept(']')) break;
      Member low = class_member(flags);
      if (!accept('-')) {
        members += low.category.empty() ? range(low.character, low.character, flags) : low.category;
        continue;
      }
      if (accept(']')) {
        members += (low.category.empty() ? range(low.character, low.character, flags) : low.category) + literal('-');
        break;
      }
      Member high = class_member(flags);
      if (!low.category.empty() || !high.category.empty() || high.character < low.character)
        refuse("a range of characters without a sense");
      members += range(low.character, high.character, flags);
    }
    std::string text = (is_negative ? "[^" : "[") + members + "]";
    return {flags.ignore_case ? "(?i:" + text + ")" : text, 1, 1};
  }

  std::vector<Group> groups_{1};  // Group 0 is the whole match.
  std::map<std::string, size_t> names_;
  std::vector<size_t> referenced_;
  int negated_ = 0, lookbehinds_ = 0;
};

}  // namespace

PythonPattern pcre2_from_python(std::string_view pattern, ErrorCode code, const std::string& name) {
  return Translator(pattern, code, name).run();
}

PythonRegex::PythonRegex(std::string_view pattern, ErrorCode code, const std::string& name)
    : PythonRegex(pcre2_from_python(pattern, code, name), pattern, code, name) {}

PythonRegex::PythonRegex(const PythonPattern& pattern, std::string_view shown, ErrorCode code, const std::string& name)
    : groups_(pattern.groups),
      regex_(pattern.pcre2,
             {.code = code,
              .name = name,
              .advice = "Write the pattern without repeats inside repeats, or with smaller counts.",
              .min_steps = 1'000'000,
              .max_pattern = 4 << 20},
             shown) {}

std::optional<std::string> PythonRegex::match_group(std::string_view text, const std::string& group) const {
  auto found = regex_.match(text, Regex::Extent::start);
  if (!found) return {};
  return std::string(found->at(groups_.at(group)));
}

}  // namespace tenon::regex
