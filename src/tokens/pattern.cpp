#include "tokens/pattern.h"

#include <algorithm>

namespace tenon::tokens {

std::vector<Span> spans_of(const Regex& regex, std::string_view text) {
  std::vector<Span> spans;
  size_t behind = 0;
  regex.each_match(text, [&](size_t begin, size_t end) {
    if (behind != begin) spans.push_back({behind, begin, false});
    spans.push_back({begin, end, true});
    behind = end;
  });
  if (behind != text.size()) spans.push_back({behind, text.size(), false});
  return spans;
}

Behavior behavior_of(const std::string& name, const std::string& where) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  refuse(where + ": the behavior '" + name + "' is not known");
}

namespace {

// A span joins the one before it if `joins(is_match, is_match of the one before)`.
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

void cut(Pieces& pieces, const Piece& piece, std::vector<Span> spans, Behavior behavior) {
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
  for (const Span& span : spans) pieces.add(piece.part(span.begin, span.end));
}

Regex pattern_of(const Json& value, const std::string& where) {
  Fields fields(value, where + ": 'pattern'");
  if (value.size() != 1) refuse(where + ": 'pattern' must be one of {\"String\": ...} and {\"Regex\": ...}");
  if (fields.has("String")) return Regex::literal(fields.text("String"));
  return Regex::oniguruma(fields.text("Regex"));
}

Normalized replace_matches(const Normalized& text, const Regex& regex, std::string_view content) {
  Normalized result;
  if (text.text.empty()) return result;  // not even an empty match
  size_t behind = 0;
  auto add = [&](std::string_view part, size_t first) {
    if (first < text.from_start) result.from_start = result.text.size() + std::min(part.size(), text.from_start - first);
    result.text += part;
  };
  auto kept = [&](size_t end) { add(std::string_view(text.text).substr(behind, end - behind), behind); };
  regex.each_match(text.text, [&](size_t begin, size_t end) {
    kept(begin);
    // What is put in counts as the last byte of what it replaces.
    bool from_start = end == 0 || end - 1 < text.from_start;
    result.text += content;
    check_growth(result.text.size(), text.text.size());
    if (from_start && text.from_start > 0) result.from_start = result.text.size();
    behind = end;
  });
  kept(text.text.size());
  return result;
}

}  // namespace tenon::tokens
