#include "tokens/word_piece.h"

#include <algorithm>

#include "base/error.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

constexpr uint64_t kMaxWordCharacters = 1000;  // Safety limit, not measured: the search is quadratic in it.

size_t characters_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

WordPiece::WordPiece(const Json& value) : WordPiece(JsonFields(value, "model WordPiece")) {}

WordPiece::WordPiece(JsonFields fields) : vocabulary_(fields.object("vocab"), fields.where()) {
  fields.find("type");
  unknown_ = fields.text("unk_token");
  prefix_ = fields.text("continuing_subword_prefix");
  max_word_characters_ = fields.count("max_input_chars_per_word", kMaxWordCharacters);
  fields.done();
}

void WordPiece::append_ids(std::string_view word, std::vector<int64_t>& ids) const {
  size_t before = ids.size();
  if (characters_of(word) <= max_word_characters_ && append_known(word, ids)) return;
  ids.resize(before);
  int32_t unknown = vocabulary_.id(unknown_);
  if (unknown < 0)
    throw UserError(ErrorCode::tokenizer, "a word cannot be composed of tokens, and the unk_token '" + unknown_ + "' is not in the vocab");
  ids.push_back(unknown);
}

bool WordPiece::append_known(std::string_view word, std::vector<int64_t>& ids) const {
  std::string buffer;
  for (size_t begin = 0; begin < word.size();) {
    std::string_view rest = word.substr(begin);
    if (begin > 0) {
      buffer = prefix_;
      buffer += rest;
      rest = buffer;
    }
    size_t prefix = begin > 0 ? prefix_.size() : 0, end = rest.size();
    int32_t id = -1;
    for (; end > prefix; previous_character(rest, end)) {
      if (end > vocabulary_.longest()) continue;
      id = vocabulary_.id(rest.substr(0, end));
      if (id >= 0) break;
    }
    if (id < 0) return false;
    ids.push_back(id);
    begin += end - prefix;
  }
  return true;
}

}  // namespace tenon::tokens
