#include "tokens/added_tokens.h"

#include <algorithm>

#include "tokens/oniguruma.h"
#include "tokens/unicode.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

constexpr size_t kMaxContentBytes = 4096;  // Safety limit, not measured: bounds the comparison at every position of a text.

size_t spaces_before(std::string_view text, size_t end) {
  for (size_t at = end; at > 0 && is_white_space(previous_character(text, at));) end = at;
  return end;
}

size_t spaces_after(std::string_view text, size_t begin) {
  for (size_t at = begin; at < text.size() && is_white_space(next_character(text, at));) begin = at;
  return begin;
}

}  // namespace

bool AddedTokens::Trie::add(std::string_view text, int32_t id) {
  int32_t node = 0;
  begins_[static_cast<unsigned char>(text[0])] = true;
  for (unsigned char byte : text) {
    auto [child, is_new] = next_.emplace(static_cast<uint64_t>(node) << 8 | byte, static_cast<int32_t>(ids_.size()));
    if (is_new) ids_.push_back(-1);
    node = child->second;
  }
  if (ids_[node] >= 0) return false;
  ids_[node] = id;
  return true;
}

int32_t AddedTokens::Trie::longest(std::string_view text, size_t at, size_t& end) const {
  int32_t best = -1;
  if (!begins_[static_cast<unsigned char>(text[at])]) return best;
  int32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    auto found = next_.find(static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(text[i]));
    if (found == next_.end()) break;
    node = found->second;
    if (ids_[node] < 0) continue;
    best = ids_[node];
    end = i + 1;
  }
  return best;
}

AddedTokens::AddedTokens(const Json* value, const Vocabulary& model, const Normalizer& normalizer)
    : word_(TokenizerRegex::pcre2(std::string("[") + kWordSet + "]")) {
  if (!value) return;
  if (!value->is_array()) refuse("'added_tokens' must be a list");
  for (const Json& token : *value) add(JsonFields(token, "added_tokens"), model, normalizer);
}

void AddedTokens::add(JsonFields fields, const Vocabulary& model, const Normalizer& normalizer) {
  std::string content = fields.text("content"), where = "the added token '" + content + "'";
  int32_t id = token_id_of(fields.need("id"), where);
  Token token = {fields.flag("single_word"), fields.flag("lstrip"), fields.flag("rstrip")};
  bool normalized = fields.flag("normalized"), special = fields.flag("special");
  fields.done();
  if (content.empty() || content.size() > kMaxContentBytes)
    refuse(where + " must have 1 to " + std::to_string(kMaxContentBytes) + " bytes");
  int32_t expected = model.id(content);
  if (expected < 0) {
    expected = static_cast<int32_t>(model.size() + beyond_model_++);
    if (model.token(expected))
      refuse(where + " has the id " + std::to_string(expected) + " of the model's token '" + *model.token(expected) + "'");
  }
  if (id != expected) refuse(where + " has the id " + std::to_string(id) + ", but must have the id " + std::to_string(expected));
  if (!ids_.add(content, id)) refuse(where + " appears twice");
  tokens_.emplace(id, token);
  if (special) special_.insert(content);
  if (normalized && normalizer) {
    Normalized text{content, 0};
    normalizer(text);
    if (text.text.empty()) refuse(where + " is empty after normalization");
    if (text.text != content) normalized_forms_[id] = text.text;
    content = text.text;
  }
  if (!(normalized ? normalized_ : given_).add(content, id)) refuse(where + " equals another added token after normalization");
}

const std::string* AddedTokens::token(int64_t id) const {
  auto found = normalized_forms_.find(id);
  return found != normalized_forms_.end() ? &found->second : ids_.token(id);
}

bool AddedTokens::is_word(std::string_view character) const {
  bool found = false;
  word_.each_match(character, [&](size_t, size_t) { found = true; });
  return found;
}

bool AddedTokens::is_single_word(std::string_view text, size_t begin, size_t end) const {
  size_t before = begin, after = end;
  if (begin > 0) previous_character(text, before);
  if (end < text.size()) next_character(text, after);
  return !is_word(text.substr(before, begin - before)) && !is_word(text.substr(end, after - end));
}

void AddedTokens::cut(TextSegments& segments, const TextSegment& segment, const Trie& trie) const {
  if (trie.empty()) return segments.add(segment);
  std::string_view text = segment.text;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at, end = at;
    int32_t id = trie.longest(text, at, end);
    if (id < 0) {
      ++at;
      continue;
    }
    at = end;
    const Token& token = tokens_.at(id);
    if (token.single_word && !is_single_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(spaces_before(text, begin), done);
    if (token.rstrip) end = spaces_after(text, end);
    if (done < begin) segments.add(segment.slice(done, begin));
    TextSegment found = segment.slice(std::min(begin, end), end);
    found.id = id;
    segments.add(found);
    done = end;
  }
  if (done < text.size()) segments.add(segment.slice(done, text.size()));
}

}  // namespace tenon::tokens
