#include "tokens/normalizer.h"

#include <vector>

#include "tokens/pattern.h"
#include "tokens/unicode.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

// Replaces every character by what f appends for it.
template <class F>
void rewrite(Normalized& text, F&& f) {
  Normalized result;
  result.text.reserve(text.text.size());
  for (size_t at = 0; at < text.text.size();) {
    bool from_start = at < text.from_start;
    f(result.text, next_character(text.text, at));
    if (from_start) result.from_start = result.text.size();
  }
  text = std::move(result);
}

void to_normal_form(Normalized& text, NormalForm form) {
  std::string result = normal_form(text.text, form);
  if (text.from_start > 0 && !result.empty()) {
    std::string start = normal_form(std::string_view(text.text).substr(0, text.from_start), form);
    size_t first = 0;
    next_character(result, first);
    text.from_start = result.starts_with(start) ? start.size() : first;  // Otherwise it was composed with the characters after it.
  }
  text.text = std::move(result);
}

void strip(Normalized& text, bool left, bool right) {
  size_t begin = 0, end = text.text.size();
  for (size_t at = 0; left && at < text.text.size() && is_white_space(next_character(text.text, at));) begin = at;
  for (size_t at = end; right && at > begin && is_white_space(previous_character(text.text, at));) end = at;
  TextSegment kept = TextSegment{text.text, text.from_start, -1}.slice(begin, end);
  text = kept.copy();
}

// The Unicode blocks that BERT's authors treat as Chinese, including gaps.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void clean(std::string& out, char32_t c) {
  if (c == 0xFFFD || is_control(c)) return;
  if (is_white_space(c)) out += ' ';
  else append_character(out, c);
}

void space_chinese(std::string& out, char32_t c) {
  bool chinese = is_chinese(c);
  if (chinese) out += ' ';
  append_character(out, c);
  if (chinese) out += ' ';
}

void drop_marks(Normalized& text, bool (*is_mark)(char32_t)) {
  rewrite(text, [&](std::string& out, char32_t c) {
    if (!is_mark(c)) append_character(out, c);
  });
}

Normalizer bert(JsonFields& fields) {
  bool cleans = fields.flag("clean_text"), chinese = fields.flag("handle_chinese_chars"), lower = fields.flag("lowercase");
  bool accents = fields.flag_or("strip_accents", lower);
  return [=](Normalized& text) {
    if (cleans) rewrite(text, clean);
    if (chinese) rewrite(text, space_chinese);
    if (accents) {
      to_normal_form(text, NormalForm::nfd);
      drop_marks(text, is_nonspacing_mark);
    }
    if (lower) rewrite(text, append_lower_case);
  };
}

Normalizer prepend(JsonFields& fields) {
  std::string prefix = fields.text("prepend");
  return [prefix](Normalized& text) {
    if (text.text.empty()) return;
    text.text.insert(0, prefix);
    if (text.from_start > 0) text.from_start += prefix.size();
  };
}

Normalizer replace_text(JsonFields& fields) {
  TokenizerRegex regex = pattern_of(fields.need("pattern"), fields.where());
  std::string content = fields.text("content");
  return [regex, content](Normalized& text) { text = replace_matches(text, regex, content); };
}

Normalizer form(NormalForm form) {
  return [form](Normalized& text) { to_normal_form(text, form); };
}

Normalizer of_type(TypedFields& fields) {
  const std::string& type = fields.type();
  if (type == "BertNormalizer") return bert(fields);
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return [](Normalized& text) { rewrite(text, append_lower_case); };
  if (type == "StripAccents") return [](Normalized& text) { drop_marks(text, is_combining_mark); };
  if (type == "Strip") {
    bool left = fields.flag("strip_left"), right = fields.flag("strip_right");
    return [=](Normalized& text) { strip(text, left, right); };
  }
  if (type == "Replace") return replace_text(fields);
  if (type == "Prepend") return prepend(fields);
  refuse("the normalizer '" + type + "' is not supported");
}

void add_steps(const Json& value, std::vector<Normalizer>& steps) {
  TypedFields fields(value, "normalizer");
  if (fields.type() == "Sequence")
    for (const Json& step : fields.list("normalizers")) add_steps(step, steps);
  else steps.push_back(of_type(fields));
  fields.done();
}

}  // namespace

Normalizer normalizer_of(const Json& value) {
  std::vector<Normalizer> steps;
  add_steps(value, steps);
  return [steps](Normalized& text) {
    size_t before = text.text.size();
    for (const Normalizer& step : steps) {
      step(text);
      check_growth(text.text.size(), before);
    }
  };
}

}  // namespace tenon::tokens
