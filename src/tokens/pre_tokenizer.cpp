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
  return [=](Pieces& pieces) { pieces.each([&](const Piece& piece) { cut(pieces, piece, spans_where(piece.text, is_match), behavior); }); };
}

PreTokenizer sequence(Fields& fields) {
  std::vector<PreTokenizer> steps;
  for (const Json& step : fields.list("pretokenizers")) steps.push_back(pre_tokenizer_of(step));
  return [steps](Pieces& pieces) {
    for (const PreTokenizer& step : steps) step(pieces);
  };
}

PreTokenizer byte_level(Fields& fields) {
  bool prefix_space = fields.flag("add_prefix_space"), use_regex = fields.flag_or("use_regex", true);
  fields.flag("trim_offsets");  // offsets are not given out
  std::optional<Regex> regex;
  if (use_regex) regex = Regex::oniguruma(kGpt2Pattern);
  return [=](Pieces& pieces) {
    pieces.each([&](Piece piece) {
      if (prefix_space && !piece.text.starts_with(' ')) {
        Normalized longer = piece.copy();
        longer.text.insert(0, 1, ' ');
        if (longer.from_start > 0) ++longer.from_start;
        piece = pieces.keep(std::move(longer));
      }
      Normalized mapped;
      mapped.text.reserve(piece.text.size() * 3 / 2);
      append_byte_characters(mapped.text, piece.text.substr(0, piece.from_start));
      mapped.from_start = mapped.text.size();
      append_byte_characters(mapped.text, piece.text.substr(piece.from_start));
      Piece whole = pieces.keep(std::move(mapped));
      if (!regex) return pieces.add(whole);
      size_t at = 0, source = 0;  // cut the mapped text where the pattern cuts the text itself
      for (const Span& span : spans_of(*regex, piece.text)) {
        size_t begin = at;
        for (; source < span.end; ++source) next_character(whole.text, at);
        pieces.add(whole.part(begin, at));
      }
    });
  };
}

PreTokenizer bert() {
  PreTokenizer spaces = cut_where(is_white_space, Behavior::removed), punctuation = cut_where(is_punctuation, Behavior::isolated);
  return [=](Pieces& pieces) {
    spaces(pieces);
    punctuation(pieces);
  };
}

PreTokenizer whitespace() {
  Regex regex = Regex::pcre2(std::string("[") + kWordSet + "]+|[^" + kWordSet + kSpaceSet + "]+");
  return [regex](Pieces& pieces) {
    pieces.each(
        [&](const Piece& piece) { regex.each_match(piece.text, [&](size_t begin, size_t end) { pieces.add(piece.part(begin, end)); }); });
  };
}

PreTokenizer split(Fields& fields) {
  Regex regex = pattern_of(fields.need("pattern"), fields.where());
  Behavior behavior = behavior_of(fields.text("behavior"), fields.where());
  bool invert = fields.flag("invert");
  return [=](Pieces& pieces) {
    pieces.each([&](const Piece& piece) {
      std::vector<Span> spans = spans_of(regex, piece.text);
      if (invert)
        for (Span& span : spans) span.is_match = !span.is_match;
      cut(pieces, piece, std::move(spans), behavior);
    });
  };
}

PreTokenizer metaspace(Fields& fields) {
  Metaspace metaspace = metaspace_of(fields);
  size_t zero = 0;
  char32_t character = next_character(metaspace.character, zero);
  return [=](Pieces& pieces) {
    pieces.each([&](const Piece& piece) {
      Normalized text;
      for (size_t at = 0; at < piece.text.size(); ++at) {
        if (piece.text[at] == ' ') text.text += metaspace.character;
        else text.text += piece.text[at];
        if (at < piece.from_start) text.from_start = text.text.size();
      }
      bool wanted =
          metaspace.prepend == Metaspace::Prepend::always || (metaspace.prepend == Metaspace::Prepend::first && piece.from_start > 0);
      if (wanted && !text.text.starts_with(metaspace.character)) {
        text.text.insert(0, metaspace.character);
        if (text.from_start > 0) text.from_start += metaspace.character.size();
      }
      Piece whole = pieces.keep(std::move(text));
      if (!metaspace.split) return pieces.add(whole);
      cut(pieces, whole, spans_where(whole.text, [&](char32_t c) { return c == character; }), Behavior::merged_with_next);
    });
  };
}

PreTokenizer of_type(Part& part) {
  const std::string& type = part.type();
  if (type == "ByteLevel") return byte_level(part);
  if (type == "BertPreTokenizer") return bert();
  if (type == "Whitespace") return whitespace();
  if (type == "WhitespaceSplit") return cut_where(is_white_space, Behavior::removed);
  if (type == "Split") return split(part);
  if (type == "Punctuation") return cut_where(is_punctuation, behavior_of(part.text_or("behavior", "Isolated"), part.where()));
  if (type == "Digits") return cut_where(is_numeric, part.flag("individual_digits") ? Behavior::isolated : Behavior::contiguous);
  if (type == "Metaspace") return metaspace(part);
  if (type == "Sequence") return sequence(part);
  refuse("the pre_tokenizer '" + type + "' is not supported");
}

}  // namespace

Metaspace metaspace_of(Fields& fields) {
  Metaspace metaspace;
  metaspace.character = fields.text("replacement");
  size_t end = 0;
  if (!metaspace.character.empty()) next_character(metaspace.character, end);
  if (end == 0 || end != metaspace.character.size()) refuse(fields.where() + ": 'replacement' must be one character");
  fields.text_or("str_rep", "");  // older files hold the replacement twice
  std::string scheme = fields.text_or("prepend_scheme", "always");
  if (scheme == "always") metaspace.prepend = Metaspace::Prepend::always;
  else if (scheme == "first") metaspace.prepend = Metaspace::Prepend::first;
  else if (scheme == "never") metaspace.prepend = Metaspace::Prepend::never;
  else refuse(fields.where() + ": the prepend_scheme '" + scheme + "' is not known");
  if (!fields.flag_or("add_prefix_space", true) && metaspace.prepend != Metaspace::Prepend::never)
    refuse(fields.where() + ": add_prefix_space is false, but prepend_scheme is not 'never'");
  metaspace.split = fields.flag_or("split", true);
  return metaspace;
}

PreTokenizer pre_tokenizer_of(const Json& value) {
  Part part(value, "pre_tokenizer");
  PreTokenizer pre_tokenizer = of_type(part);
  part.done();
  return pre_tokenizer;
}

}  // namespace tenon::tokens
