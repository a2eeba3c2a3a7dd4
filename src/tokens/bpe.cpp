#include "tokens/bpe.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

Bpe::Bpe(const Json& value) : Bpe(JsonFields(value, "model BPE")) {}

Bpe::Bpe(JsonFields fields) : vocabulary_(fields.object("vocab"), fields.where()) {
  fields.find("type");
  if (fields.find("dropout")) refuse("model BPE: 'dropout' is only used in training; set it to null");
  if (fields.find("unk_token")) unknown_ = fields.text("unk_token");
  prefix_ = fields.text_or("continuing_subword_prefix", "");
  suffix_ = fields.text_or("end_of_word_suffix", "");
  fuse_unknown_ = fields.flag_or("fuse_unk", false);
  byte_fallback_ = fields.flag_or("byte_fallback", false);
  ignore_merges_ = fields.flag_or("ignore_merges", false);
  read_merges(fields.list("merges"));
  fields.done();
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    byte_ids_[byte] = vocabulary_.id(name);
  }
}

void Bpe::read_merges(const Json& list) {
  merges_.reserve(list.size());
  int32_t rank = 0;
  for (const Json& merge : list) {
    if (merge.is_string()) {
      const std::string& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        refuse("model BPE: the merge '" + text + "' is not two tokens separated by a space");
      add_merge(text.substr(0, space), text.substr(space + 1), rank++);
    } else {
      if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
        refuse("model BPE: a merge must be a string of two tokens or a list of two, not " + merge.dump().substr(0, 60));
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), rank++);
    }
  }
}

void Bpe::add_merge(const std::string& left, const std::string& right, int32_t rank) {
  auto known = [&](const std::string& token) {
    int32_t id = vocabulary_.id(token);
    if (id < 0)
      refuse("model BPE: the merge of '" + left + "' and '" + right + "' needs the token '" + token + "', which is not in the vocab");
    return id;
  };
  int32_t a = known(left), b = known(right);
  if (right.size() < prefix_.size()) refuse("model BPE: the merge of '" + left + "' and '" + right + "' has no continuing_subword_prefix");
  merges_.set(a, b, {rank, known(left + right.substr(prefix_.size()))});
}

int32_t Bpe::unknown_id() const {
  int32_t id = vocabulary_.id(*unknown_);
  if (id < 0) throw UserError(ErrorCode::tokenizer, "a character is not in the vocab, and neither is the unk_token '" + *unknown_ + "'");
  return id;
}

bool Bpe::append_bytes(std::string_view character, std::vector<int32_t>& symbols) const {
  auto id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (std::any_of(character.begin(), character.end(), [&](char byte) { return id(byte) < 0; })) return false;
  for (char byte : character) symbols.push_back(id(byte));
  return true;
}

std::vector<int32_t> Bpe::characters_of(std::string_view word) const {
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  // An unknown token is pending: further unknown characters may be fused into it. Byte tokens are emitted before it, as in the reference.
  bool unknown_pending = false;
  std::string affixed;
  for (size_t at = 0; at < word.size();) {
    size_t begin = at;
    next_character(word, at);
    std::string_view character = word.substr(begin, at - begin);
    bool first = begin == 0, last = at == word.size();
    if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
      affixed = first ? "" : prefix_;
      affixed += character;
      if (last) affixed += suffix_;
      character = affixed;
    }
    int32_t id = vocabulary_.id(character);
    if (id < 0) {
      if (byte_fallback_ && append_bytes(character, symbols)) continue;
      if (!unknown_) continue;
      if (unknown_pending && !fuse_unknown_) symbols.push_back(unknown_id());
      unknown_pending = true;
      continue;
    }
    if (unknown_pending) symbols.push_back(unknown_id());
    unknown_pending = false;
    symbols.push_back(id);
  }
  if (unknown_pending) symbols.push_back(unknown_id());
  return symbols;
}

void Bpe::append_ids(std::string_view word, std::vector<int64_t>& ids) const {
  if (ignore_merges_) {
    int32_t id = vocabulary_.id(word);
    if (id >= 0) return ids.push_back(id);
  }
  if (cache_.append(word, ids)) return;
  std::vector<int32_t> symbols = characters_of(word);
  merges_.apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  cache_.insert(word, symbols);
}

}  // namespace tenon::tokens
