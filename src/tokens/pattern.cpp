#include "tokens/pattern.h"

#include <algorithm>

namespace tenon::tokens {

std::vector<Span> spans_of(const TokenizerRegex& regex, std::string_view text) {
  std::vector<Span> spans;
  size_t end_of_last = 0;
  regex.each_match(text, [&](size_t begin, size_t end) {
    if (end_of_last != begin) spans.push_back({end_of_last, begin, false});
    spans.push_back({begin, end, true});
    end_of_last = end;
  });
  if (end_of_last != text.size()) spans.push_back({end_of_last, text.size(), false});
  return spans;
}

Behavior behavior_of(const std::string& name, const std::string& where) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  refuse(where + ": the behavior '" + name + "' is not supported");
}

namespace {

// Merges a span into the previous one if `joins(is_match, is_match of the previous span)`.
template <class F>
std::vector<Span> joined(const std::vector<Span>& spans, F&& joins) {
  std::vector<Span> result;
  bool previous = false;
  for (const Span& span : spans) {
    if (!result.empty() && joins(span.is_match, previous)) {
      result.back().begin = std::min(result.back().begin, span.begin);
      result.back().end = std::max(result.back().end, span.end);
    } else {
      result.push_back(span);
    }
    previous = span.is_match;
  }
  return result;
}

bool match_after_other(bool match, bool previous) { return match && !previous; }

}  // namespace

void cut(TextSegments& segments, const TextSegment& segment, std::vector<Span> spans, Behavior behavior) {
  switch (behavior) {
    case Behavior::removed:
      std::erase_if(spans, [](const Span& span) { return span.is_match; });
      break;
    case Behavior::isolated:
      break;
    case Behavior::contiguous:
      spans = joined(spans, [](bool match, bool previous) { return match == previous; });
      break;
    case Behavior::merged_with_previous:
      spans = joined(spans, match_after_other);
      break;
    case Behavior::merged_with_next:
      std::reverse(spans.begin(), spans.end());
      spans = joined(spans, match_after_other);
      std::reverse(spans.begin(), spans.end());
      break;
  }
  for (const Span& span : spans) segments.add(segment.slice(span.begin, span.end));
}

TokenizerRegex pattern_of(const Json& value, const std::string& where) {
  JsonFields fields(value, where + ": 'pattern'");
  if (value.size() != 1) refuse(where + ": 'pattern' must be one of {\"String\": ...} and {\"Regex\": ...}");
  if (fields.has("String")) return TokenizerRegex::literal(fields.text("String"));
  return TokenizerRegex::oniguruma(fields.text("Regex"));
}

Normalized replace_matches(const Normalized& text, const TokenizerRegex& regex, std::string_view content) {
  Normalized result;
  if (text.text.empty()) return result;  // The reference does not report an empty match in an empty text.
  size_t end_of_last = 0;
  auto add = [&](std::string_view kept, size_t first) {
    if (first < text.from_start) result.from_start = result.text.size() + std::min(kept.size(), text.from_start - first);
    result.text += kept;
  };
  auto keep_until = [&](size_t end) { add(std::string_view(text.text).substr(end_of_last, end - end_of_last), end_of_last); };
  regex.each_match(text.text, [&](size_t begin, size_t end) {
    keep_until(begin);
    // The replacement has the origin of the last byte that it replaces.
    bool from_start = end == 0 || end - 1 < text.from_start;
    result.text += content;
    check_growth(result.text.size(), text.text.size());
    if (from_start && text.from_start > 0) result.from_start = result.text.size();
    end_of_last = end;
  });
  keep_until(text.text.size());
  return result;
}

}  // namespace tenon::tokens
