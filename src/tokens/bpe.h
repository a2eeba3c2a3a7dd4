// Byte pair encoding: a word starts as a list of characters. The adjacent pair with the lowest rank is merged, the leftmost first, until no
// pair can be merged. Uses a priority queue over a linked list: O(n log n) for a word of n characters.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tokens/merges.h"
#include "tokens/tokenizer_model.h"
#include "tokens/word_cache.h"

namespace tenon::tokens {

class Bpe : public TokenizerModel {
 public:
  explicit Bpe(const Json& value);
  void append_ids(std::string_view word, std::vector<int64_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  explicit Bpe(JsonFields fields);
  void read_merges(const Json& list);
  void add_merge(const std::string& left, const std::string& right, int32_t rank);

  std::vector<int32_t> characters_of(std::string_view word) const;
  bool append_bytes(std::string_view character, std::vector<int32_t>& symbols) const;
  int32_t unknown_id() const;

  Vocabulary vocabulary_;
  Merges merges_;
  std::optional<std::string> unknown_;
  std::string prefix_, suffix_;  // Added to characters that do not start a word, and to the last one of a word.
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
  std::array<int32_t, 256> byte_ids_;
  mutable WordCache cache_;
};

}  // namespace tenon::tokens
