// The field "added_tokens": tokens that are matched literally, before the model sees the text. Some are searched in the original text, the
// others in the normalized text. The longest token that begins at a position wins.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokens/normalizer.h"
#include "tokens/text_segment.h"
#include "tokens/tokenizer_regex.h"
#include "tokens/vocabulary.h"

namespace tenon::tokens {

class AddedTokens {
 public:
  // `value` may be null. Ids must be those that the reference assigns: the id of the model's token, or the next free id.
  AddedTokens(const Json* value, const Vocabulary& model, const Normalizer& normalizer);

  void cut_given(TextSegments& segments, const TextSegment& segment) const { cut(segments, segment, given_); }
  void cut_normalized(TextSegments& segments, const TextSegment& segment) const { cut(segments, segment, normalized_); }

  int32_t id(std::string_view token) const { return ids_.id(token); }
  // Returns the normalized form of a token that is searched in normalized text, else the token as written; null if there is none.
  const std::string* token(int64_t id) const;
  bool is_special(const std::string& token) const { return special_.count(token) > 0; }
  size_t beyond_model() const { return beyond_model_; }

 private:
  struct Token {
    bool single_word, lstrip, rstrip;
  };

  class Trie {
   public:
    bool add(std::string_view text, int32_t id);  // Returns false if the text was added before.
    // Finds the longest text that begins at `at`. Returns its id and sets `end`, or returns -1.
    int32_t longest(std::string_view text, size_t at, size_t& end) const;
    bool empty() const { return ids_.size() == 1; }

   private:
    std::unordered_map<uint64_t, int32_t> next_;  // Child node, keyed by node and byte.
    std::vector<int32_t> ids_ = {-1};             // Token id of each node, or -1.
    std::array<bool, 256> begins_ = {};
  };

  void add(JsonFields fields, const Vocabulary& model, const Normalizer& normalizer);
  void cut(TextSegments& segments, const TextSegment& segment, const Trie& trie) const;
  bool is_single_word(std::string_view text, size_t begin, size_t end) const;
  bool is_word(std::string_view character) const;

  Vocabulary ids_;
  std::unordered_map<int64_t, Token> tokens_;
  std::unordered_map<int64_t, std::string> normalized_forms_;
  std::unordered_set<std::string> special_;
  Trie given_, normalized_;
  TokenizerRegex word_;
  size_t beyond_model_ = 0;
};

}  // namespace tenon::tokens
