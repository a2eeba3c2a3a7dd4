#include "tokens/pre_tokenizer.h"

#include <optional>
#include <vector>

#include "tokens/byte_level.h"
#include "tokens/oniguruma.h"
#include "tokens/pattern.h"
#include "tokens/unicode.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

template <class F>
PreTokenizer cut_where(F is_match, Behavior behavior) {
  return [=](TextSegments& segments) {
    segments.each([&](const TextSegment& segment) { cut(segments, segment, spans_where(segment.text, is_match), behavior); });
  };
}

PreTokenizer sequence(JsonFields& fields) {
  std::vector<PreTokenizer> steps;
  for (const Json& step : fields.list("pretokenizers")) steps.push_back(pre_tokenizer_of(step));
  return [steps](TextSegments& segments) {
    for (const PreTokenizer& step : steps) step(segments);
  };
}

PreTokenizer byte_level(JsonFields& fields) {
  bool prefix_space = fields.flag("add_prefix_space"), use_regex = fields.flag_or("use_regex", true);
  fields.flag("trim_offsets");  // The option only affects offsets, which are not returned.
  std::optional<TokenizerRegex> regex;
  if (use_regex) regex = TokenizerRegex::oniguruma(kGpt2Pattern);
  return [=](TextSegments& segments) {
    segments.each([&](TextSegment segment) {
      if (prefix_space && !segment.text.starts_with(' ')) {
        Normalized longer = segment.copy();
        longer.text.insert(0, 1, ' ');
        if (longer.from_start > 0) ++longer.from_start;
        segment = segments.keep(std::move(longer));
      }
      Normalized mapped;
      mapped.text.reserve(segment.text.size() * 3 / 2);
      append_byte_characters(mapped.text, segment.text.substr(0, segment.from_start));
      mapped.from_start = mapped.text.size();
      append_byte_characters(mapped.text, segment.text.substr(segment.from_start));
      TextSegment whole = segments.keep(std::move(mapped));
      if (!regex) return segments.add(whole);
      size_t at = 0, source = 0;  // The mapped text is split where the pattern splits the original text.
      for (const Span& span : spans_of(*regex, segment.text)) {
        size_t begin = at;
        for (; source < span.end; ++source) next_character(whole.text, at);
        segments.add(whole.slice(begin, at));
      }
    });
  };
}

PreTokenizer bert() {
  PreTokenizer spaces = cut_where(is_white_space, Behavior::removed), punctuation = cut_where(is_punctuation, Behavior::isolated);
  return [=](TextSegments& segments) {
    spaces(segments);
    punctuation(segments);
  };
}

PreTokenizer whitespace() {
  TokenizerRegex regex = TokenizerRegex::pcre2(std::string("[") + kWordSet + "]+|[^" + kWordSet + kSpaceSet + "]+");
  return [regex](TextSegments& segments) {
    segments.each([&](const TextSegment& segment) {
      regex.each_match(segment.text, [&](size_t begin, size_t end) { segments.add(segment.slice(begin, end)); });
    });
  };
}

PreTokenizer split(JsonFields& fields) {
  TokenizerRegex regex = pattern_of(fields.need("pattern"), fields.where());
  Behavior behavior = behavior_of(fields.text("behavior"), fields.where());
  bool invert = fields.flag("invert");
  return [=](TextSegments& segments) {
    segments.each([&](const TextSegment& segment) {
      std::vector<Span> spans = spans_of(regex, segment.text);
      if (invert)
        for (Span& span : spans) span.is_match = !span.is_match;
      cut(segments, segment, std::move(spans), behavior);
    });
  };
}

PreTokenizer metaspace(JsonFields& fields) {
  Metaspace metaspace = metaspace_of(fields);
  size_t zero = 0;
  char32_t character = next_character(metaspace.character, zero);
  return [=](TextSegments& segments) {
    segments.each([&](const TextSegment& segment) {
      Normalized text;
      for (size_t at = 0; at < segment.text.size(); ++at) {
        if (segment.text[at] == ' ') text.text += metaspace.character;
        else text.text += segment.text[at];
        if (at < segment.from_start) text.from_start = text.text.size();
      }
      bool prepend =
          metaspace.prepend == Metaspace::Prepend::always || (metaspace.prepend == Metaspace::Prepend::first && segment.from_start > 0);
      if (prepend && !text.text.starts_with(metaspace.character)) {
        text.text.insert(0, metaspace.character);
        if (text.from_start > 0) text.from_start += metaspace.character.size();
      }
      TextSegment whole = segments.keep(std::move(text));
      if (!metaspace.split) return segments.add(whole);
      cut(segments, whole, spans_where(whole.text, [&](char32_t c) { return c == character; }), Behavior::merged_with_next);
    });
  };
}

PreTokenizer of_type(TypedFields& fields) {
  const std::string& type = fields.type();
  if (type == "ByteLevel") return byte_level(fields);
  if (type == "BertPreTokenizer") return bert();
  if (type == "Whitespace") return whitespace();
  if (type == "WhitespaceSplit") return cut_where(is_white_space, Behavior::removed);
  if (type == "Split") return split(fields);
  if (type == "Punctuation") return cut_where(is_punctuation, behavior_of(fields.text_or("behavior", "Isolated"), fields.where()));
  if (type == "Digits") return cut_where(is_numeric, fields.flag("individual_digits") ? Behavior::isolated : Behavior::contiguous);
  if (type == "Metaspace") return metaspace(fields);
  if (type == "Sequence") return sequence(fields);
  refuse("the pre_tokenizer '" + type + "' is not supported");
}

}  // namespace

Metaspace metaspace_of(JsonFields& fields) {
  Metaspace metaspace;
  metaspace.character = fields.text("replacement");
  size_t end = 0;
  if (!metaspace.character.empty()) next_character(metaspace.character, end);
  if (end == 0 || end != metaspace.character.size()) refuse(fields.where() + ": 'replacement' must be one character");
  fields.text_or("str_rep", "");  // Older files contain the replacement twice.
  std::string scheme = fields.text_or("prepend_scheme", "always");
  if (scheme == "always") metaspace.prepend = Metaspace::Prepend::always;
  else if (scheme == "first") metaspace.prepend = Metaspace::Prepend::first;
  else if (scheme == "never") metaspace.prepend = Metaspace::Prepend::never;
  else refuse(fields.where() + ": the prepend_scheme '" + scheme + "' is not supported");
  if (!fields.flag_or("add_prefix_space", true) && metaspace.prepend != Metaspace::Prepend::never)
    refuse(fields.where() + ": add_prefix_space is false, but prepend_scheme is not 'never'");
  metaspace.split = fields.flag_or("split", true);
  return metaspace;
}

PreTokenizer pre_tokenizer_of(const Json& value) {
  TypedFields fields(value, "pre_tokenizer");
  PreTokenizer pre_tokenizer = of_type(fields);
  fields.done();
  return pre_tokenizer;
}

}  // namespace tenon::tokens
