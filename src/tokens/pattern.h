// Finds where a pattern (a string, a regular expression or a character class) matches, and splits a text there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokens/json_fields.h"
#include "tokens/text_segment.h"
#include "tokens/tokenizer_regex.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

struct Span {
  size_t begin, end;
  bool is_match;
};

// Returns spans that cover the text in order.
std::vector<Span> spans_of(const TokenizerRegex& regex, std::string_view text);

template <class F>
std::vector<Span> spans_where(std::string_view text, F&& is_match) {
  std::vector<Span> spans;
  size_t end_of_last = 0;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    if (!is_match(next_character(text, at))) continue;
    if (end_of_last != begin) spans.push_back({end_of_last, begin, false});
    spans.push_back({begin, at, true});
    end_of_last = at;
  }
  if (end_of_last != text.size()) spans.push_back({end_of_last, text.size(), false});
  return spans;
}

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Behavior behavior_of(const std::string& name, const std::string& where);

void cut(TextSegments& segments, const TextSegment& segment, std::vector<Span> spans, Behavior behavior);

// {"String": "..."} or {"Regex": "..."}.
TokenizerRegex pattern_of(const Json& value, const std::string& where);

// Replaces each match by `content`.
Normalized replace_matches(const Normalized& text, const TokenizerRegex& regex, std::string_view content);

}  // namespace tenon::tokens
