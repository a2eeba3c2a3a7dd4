// Where a pattern (a string, a regular expression, a class of characters) matches in a text, and the ways to cut there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokens/fields.h"
#include "tokens/piece.h"
#include "tokens/regex.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

struct Span {
  size_t begin, end;
  bool is_match;
};

// The spans cover the text in order.
std::vector<Span> spans_of(const Regex& regex, std::string_view text);

template <class F>
std::vector<Span> spans_where(std::string_view text, F&& is_match) {
  std::vector<Span> spans;
  size_t behind = 0;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    if (!is_match(next_character(text, at))) continue;
    if (behind != begin) spans.push_back({behind, begin, false});
    spans.push_back({begin, at, true});
    behind = at;
  }
  if (behind != text.size()) spans.push_back({behind, text.size(), false});
  return spans;
}

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Behavior behavior_of(const std::string& name, const std::string& where);

void cut(Pieces& pieces, const Piece& piece, std::vector<Span> spans, Behavior behavior);

// {"String": "..."} or {"Regex": "..."}.
Regex pattern_of(const Json& value, const std::string& where);

// What matches becomes `content`.
Normalized replace_matches(const Normalized& text, const Regex& regex, std::string_view content);

}  // namespace tenon::tokens
