// Translates by recursive descent, in the order in which Python's own parser reads a pattern. Constructs whose meaning could differ are
// spelled out: classes as ranges and properties, anchors as assertions, repeat counts in full, case folding around each literal.
#include "regex/python.h"

#include <algorithm>
#include <vector>

#include "regex/python_classes.h"
#include "regex/python_reader.h"

namespace tenon::regex {

namespace {

// Safety limits, not measured. The translator is recursive.
constexpr int kMaxNestedGroups = 100;
constexpr size_t kMaxCharacters = 64 << 10;
constexpr uint64_t kUnbounded = UINT32_MAX;  // Python's MAXREPEAT.

// A translated subpattern in PCRE2's syntax, and its minimum and maximum width in characters: Python rejects a lookbehind of variable
// width.
struct PatternNode {
  std::string text;
  uint64_t min = 0, max = 0;
  enum class Kind { plain, anchor, lookaround, repeat } kind = Kind::plain;
};

struct CaptureGroup {
  bool is_open = true, is_repeated = false, is_negated = false;
  uint64_t min = 0, max = 0;
};

class PythonTranslator : PatternReader {
 public:
  using PatternReader::PatternReader;

  PythonPattern run() {
    if (pattern_.size() > kMaxCharacters) {
      shown_ = shown_.substr(0, 40) + "...";
      refuse("a pattern of more than 65536 characters");
    }
    PatternNode all = alternatives({}, 0);
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

  // Parses a|b|c up to a closing parenthesis or the end. Flags of the whole pattern come at the start of the first alternative.
  PatternNode alternatives(PatternFlags flags, int depth) {
    if (depth > kMaxNestedGroups) refuse("more than 100 nested groups");
    if (depth == 0) global_flags(flags);
    PatternNode out;
    for (bool is_first = true;; is_first = false) {
      PatternNode one = sequence(flags, depth);
      out.text += (is_first ? "" : "|") + one.text;
      out.min = is_first ? one.min : std::min(out.min, one.min);
      out.max = std::max(out.max, one.max);
      if (!accept('|')) return out;
    }
  }

  void global_flags(PatternFlags& flags) {
    for (;;) {
      skip_comments(flags);
      size_t begin = at_;
      if (!(accept('(') && accept('?') && !at_end() && is_flag(peek()))) {
        at_ = begin;
        return;
      }
      PatternFlags changed = flags;
      read_flags(changed, /*are_on=*/true);
      if (!accept(')')) {
        at_ = begin;  // These flags belong to a group.
        return;
      }
      flags = changed;
      if (flags.verbose) skip_comments(flags);
    }
  }

  static bool is_flag(char32_t c) { return c < 128 && std::string_view("aiLmsux").find(static_cast<char>(c)) != std::string_view::npos; }

  void read_flags(PatternFlags& flags, bool are_on) {
    bool has_type = false;
    while (!at_end() && is_flag(peek())) {
      char32_t c = pattern_[at_++];
      if (c == 'L') refuse("the flag L, which Python allows for bytes only");
      if (c == 'a' || c == 'u') {
        if (!are_on || has_type) refuse("the flags a and u together, or disabled");
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

  // Skips whitespace and comments if the flag x is set, and (?#...) always.
  void skip_comments(const PatternFlags& flags) {
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

  PatternNode sequence(const PatternFlags& flags, int depth) {
    PatternNode out;
    for (;;) {
      skip_comments(flags);
      if (at_end() || peek() == '|' || peek() == ')') return out;
      size_t first_group = groups_.size();
      PatternNode one = item(flags, depth);
      skip_comments(flags);
      one = repeated(std::move(one), first_group);
      out.text += one.text;
      out.min = sum(out.min, one.min), out.max = sum(out.max, one.max);
    }
  }

  struct RepeatCount {
    uint64_t min, max;
  };

  // Parses *, +, ?, {m}, {m,}, {,n} or {m,n}. A brace that does not begin a count is a literal.
  std::optional<RepeatCount> count() {
    if (accept('*')) return RepeatCount{0, kUnbounded};
    if (accept('+')) return RepeatCount{1, kUnbounded};
    if (accept('?')) return RepeatCount{0, 1};
    if (!has('{') || peek(1) == '}') return {};
    size_t begin = at_++;
    std::string low = digits(), high = low;
    if (accept(',')) high = digits();
    if (!accept('}')) {
      at_ = begin;
      return {};
    }
    auto value_of = [&](const std::string& text, uint64_t otherwise) {
      if (text.empty()) return otherwise;
      if (text.size() > 9) refuse("a repeat count of more than nine digits");
      return static_cast<uint64_t>(std::stoull(text));
    };
    RepeatCount out{value_of(low, 0), value_of(high, kUnbounded)};
    if (out.max < out.min) refuse("a repeat whose minimum is greater than its maximum");
    return out;
  }

  PatternNode repeated(PatternNode one, size_t first_group) {
    std::optional<RepeatCount> times = count();
    if (!times) return one;
    if (one.kind == PatternNode::Kind::anchor) refuse("a repeat of an anchor");
    if (one.kind == PatternNode::Kind::lookaround) refuse("a repeat of a lookaround");
    if (times->max > 1)
      for (size_t i = first_group; i < groups_.size(); ++i) groups_[i].is_repeated = true;
    std::string text = "{" + std::to_string(times->min) + ",";
    text += (times->max == kUnbounded ? "" : std::to_string(times->max)) + "}";
    if (accept('?')) text += "?";
    else if (accept('+')) text += "+";
    return {"(?:" + one.text + ")" + text, product(one.min, times->min), product(one.max, times->max), PatternNode::Kind::repeat};
  }

  PatternNode item(const PatternFlags& flags, int depth) {
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
        return {flags.multiline ? "(?:\\A|(?<=\\x{a}))" : "\\A", 0, 0, PatternNode::Kind::anchor};
      case '$':
        return {flags.multiline ? "(?=\\x{a}|\\z)" : "(?=\\x{a}?\\z)", 0, 0, PatternNode::Kind::anchor};
      default:
        return character(c, flags);
    }
  }

  PatternNode character(char32_t c, const PatternFlags& flags) {
    if (!flags.ignore_case) return {literal(c), 1, 1};
    if (c >= 128) refuse("a character outside ASCII where case is ignored");
    if (c == 'i' || c == 'I') return {std::string("[iI") + kDotlessI + "]", 1, 1};
    return {"(?i:" + literal(c) + ")", 1, 1};
  }

  PatternNode close(std::string open, PatternFlags flags, int depth, PatternNode::Kind kind = PatternNode::Kind::plain) {
    PatternNode inner = alternatives(flags, depth + 1);
    if (!accept(')')) refuse("a group that is not closed");
    inner.text = std::move(open) + inner.text + ")";
    inner.kind = kind;
    return inner;
  }

  PatternNode capture(const PatternFlags& flags, int depth, const std::string& name = "") {
    size_t index = groups_.size();
    groups_.emplace_back();
    groups_.back().is_negated = negated_ > 0;
    if (!name.empty() && !names_.emplace(name, index).second) refuse("two groups of one name");
    PatternNode out = close("(", flags, depth);
    groups_[index].is_open = false;
    groups_[index].min = out.min, groups_[index].max = out.max;
    return out;
  }

  PatternNode group(const PatternFlags& flags, int depth) {
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

  PatternNode flagged(PatternFlags flags, int depth) {
    if (!is_flag(peek()) && peek() != '-') refuse("a group that begins with (? and is not one of Python's");
    read_flags(flags, /*are_on=*/true);
    if (has(')')) refuse("flags of the whole pattern that are not at its start");
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

  PatternNode named(const PatternFlags& flags, int depth) {
    if (accept('<')) {
      std::string name = group_name('>');
      if (is_digit(static_cast<unsigned char>(name[0]))) refuse("a group name that begins with a digit");
      return capture(flags, depth, name);
    }
    if (!accept('=')) refuse("a group that begins with (?P and is neither (?P<name>...) nor (?P=name)");
    return reference(index_of(group_name(')')), flags);
  }

  size_t index_of(const std::string& name) const {
    auto found = names_.find(name);
    if (found == names_.end()) refuse("a reference to a group that does not exist");
    return found->second;
  }

  void refer(size_t index) {
    if (index == 0 || index >= groups_.size()) refuse("a reference to a group that does not exist");
    if (lookbehinds_ > 0) refuse("a reference inside a lookbehind");
    referenced_.push_back(index);
  }

  PatternNode reference(size_t index, const PatternFlags& flags) {
    refer(index);
    if (groups_[index].is_open) refuse("a reference to a group from inside it");
    if (flags.ignore_case) refuse("a reference to a group where case is ignored");
    return {"\\g{" + std::to_string(index) + "}", groups_[index].min, groups_[index].max};
  }

  PatternNode lookaround(const char* open, const PatternFlags& flags, int depth, bool is_negative) {
    negated_ += is_negative;
    PatternNode out = close(open, flags, depth, PatternNode::Kind::lookaround);
    negated_ -= is_negative;
    out.min = out.max = 0;
    return out;
  }

  PatternNode lookbehind(const PatternFlags& flags, int depth, bool is_negative) {
    ++lookbehinds_, negated_ += is_negative;
    PatternNode out = close(is_negative ? "(?<!" : "(?<=", flags, depth, PatternNode::Kind::lookaround);
    --lookbehinds_, negated_ -= is_negative;
    if (out.min != out.max) refuse("a lookbehind whose width can vary");
    out.min = out.max = 0;
    return out;
  }

  PatternNode conditional(const PatternFlags& flags, int depth) {
    std::string name = group_name(')');
    bool is_index = std::all_of(name.begin(), name.end(), [](unsigned char c) { return is_digit(c); });
    if (is_index && name.size() > 5) refuse("a reference to a group that does not exist");
    size_t index = is_index ? std::stoull(name) : index_of(name);
    refer(index);
    PatternNode yes = sequence(flags, depth + 1), no;
    if (accept('|')) no = sequence(flags, depth + 1);
    if (has('|')) refuse("a condition with more than two branches");
    if (!accept(')')) refuse("a group that is not closed");
    return {"(?(" + std::to_string(index) + ")" + yes.text + "|" + no.text + ")", std::min(yes.min, no.min), std::max(yes.max, no.max)};
  }

  PatternNode escape(const PatternFlags& flags) {
    char32_t c = take("a backslash at the end");
    if (std::string members = category(c, flags.ascii); !members.empty()) return {"[" + members + "]", 1, 1};
    std::string word = "[" + category('w', flags.ascii) + "]";
    switch (c) {
      case 'A':
        return {"\\A", 0, 0, PatternNode::Kind::anchor};
      case 'Z':
        return {"\\z", 0, 0, PatternNode::Kind::anchor};
      case 'b':
        return {"(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))", 0, 0, PatternNode::Kind::anchor};
      case 'B':
        return {"(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))", 0, 0, PatternNode::Kind::anchor};
    }
    if (is_digit(c) && c != '0') {
      bool has_more = !at_end() && is_digit(peek());
      if (has_more && is_octal(c) && is_octal(peek()) && at_ + 1 < pattern_.size() && is_octal(peek(1)))
        return character(octal(c, 2), flags);
      size_t index = c - '0';
      if (has_more) index = index * 10 + (pattern_[at_++] - '0');
      return reference(index, flags);
    }
    if (auto known = escaped_character(c)) return character(*known, flags);
    refuse(std::string("the escape \\") + static_cast<char>(c) + ", which Python does not have");
  }

  // A member of a character class: a category such as \w, or one character.
  struct ClassMember {
    std::string category;
    char32_t character = 0;
  };

  ClassMember class_member(const PatternFlags& flags) {
    char32_t c = take("a class that is not closed");
    if (c != '\\') return {"", c};
    c = take("a class that is not closed");
    if (std::string members = category(c, flags.ascii); !members.empty()) return {members};
    if (c == 'b') return {"", U'\b'};
    if (is_digit(c) && is_octal(c)) return {"", octal(c, 2)};
    if (auto known = escaped_character(c)) return {"", *known};
    refuse(std::string("the escape \\") + static_cast<char>(c) + " in a class, which Python does not have");
  }

  std::string range(char32_t low, char32_t high, const PatternFlags& flags) {
    if (flags.ignore_case && high >= 128) refuse("a character outside ASCII where case is ignored");
    std::string out = literal(low) + (high == low ? "" : "-" + literal(high));
    auto contains = [&](char32_t c) { return low <= c && c <= high; };
    return flags.ignore_case && (contains('i') || contains('I')) ? out + kDotlessI : out;
  }

  PatternNode character_class(const PatternFlags& flags) {
    std::string members;
    bool is_negative = accept('^');
    for (bool is_first = true;; is_first = false) {
      if (!is_first && accept(']')) break;
      ClassMember low = class_member(flags);
      if (!accept('-')) {
        members += low.category.empty() ? range(low.character, low.character, flags) : low.category;
        continue;
      }
      if (accept(']')) {
        members += (low.category.empty() ? range(low.character, low.character, flags) : low.category) + literal('-');
        break;
      }
      ClassMember high = class_member(flags);
      if (!low.category.empty() || !high.category.empty() || high.character < low.character)
        refuse("a range of characters whose ends are not ordered characters");
      members += range(low.character, high.character, flags);
    }
    std::string text = (is_negative ? "[^" : "[") + members + "]";
    return {flags.ignore_case ? "(?i:" + text + ")" : text, 1, 1};
  }

  std::vector<CaptureGroup> groups_{1};  // CaptureGroup 0 is the whole match.
  std::map<std::string, size_t> names_;
  std::vector<size_t> referenced_;
  int negated_ = 0, lookbehinds_ = 0;
};

}  // namespace

PythonPattern pcre2_from_python(std::string_view pattern, ErrorCode code, const std::string& name) {
  return PythonTranslator(pattern, code, name).run();
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
  auto found = regex_.match(text, Regex::MatchMode::start);
  if (!found) return {};
  return std::string(found->at(groups_.at(group)));
}

}  // namespace tenon::regex
