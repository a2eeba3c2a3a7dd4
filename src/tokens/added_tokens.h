// The field "added_tokens": tokens that are found in a text as they are written, before any model sees it. Some are looked for in the
// text as given, the others in the normalized one; of those that begin at one place the longest counts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokens/normalizer.h"
#include "tokens/piece.h"
#include "tokens/regex.h"
#include "tokens/vocabulary.h"

namespace tenon::tokens {

class AddedTokens {
 public:
  // `value` may be null. Ids must be those that the reference gives: of the model's token, or the next free one.
  AddedTokens(const Json* value, const Vocabulary& model, const Normalizer& normalizer);

  void cut_given(Pieces& pieces, const Piece& piece) const { cut(pieces, piece, given_); }
  void cut_normalized(Pieces& pieces, const Piece& piece) const { cut(pieces, piece, normalized_); }

  int32_t id(std::string_view token) const { return ids_.id(token); }
  // As it looks after normalization, if it is looked for there.
  const std::string* token(int64_t id) const;
  bool is_special(const std::string& token) const { return special_.count(token) > 0; }
  size_t beyond_model() const { return beyond_model_; }

 private:
  struct Token {
    bool single_word, lstrip, rstrip;
  };

  class Trie {
   public:
    bool add(std::string_view text, int32_t id);  // false if it is there already
    // The longest text that begins at `at`: its id, or -1, and where it ends.
    int32_t longest(std::string_view text, size_t at, size_t& end) const;
    bool empty() const { return ids_.size() == 1; }

   private:
    std::unordered_map<uint64_t, int32_t> next_;  // by node and byte
    std::vector<int32_t> ids_ = {-1};             // by node
    std::array<bool, 256> begins_ = {};
  };

  void add(Fields fields, const Vocabulary& model, const Normalizer& normalizer);
  void cut(Pieces& pieces, const Piece& piece, const Trie& trie) const;
  bool is_single_word(std::string_view text, size_t begin, size_t end) const;
  bool is_word(std::string_view character) const;

  Vocabulary ids_;
  std::unordered_map<int64_t, Token> tokens_;
  std::unordered_map<int64_t, std::string> normalized_forms_;
  std::unordered_set<std::string> special_;
  Trie given_, normalized_;
  Regex word_;
  size_t beyond_model_ = 0;
};

}  // namespace tenon::tokens
