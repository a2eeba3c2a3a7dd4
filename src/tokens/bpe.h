// Byte pair encoding: a word begins as characters; of all neighbours that may merge, those of the lowest rank do, the leftmost first,
// until none may. A queue of candidates over a linked list: n log n for a word of n characters.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tokens/merges.h"
#include "tokens/model.h"
#include "tokens/word_cache.h"

namespace tenon::tokens {

class Bpe : public Model {
 public:
  explicit Bpe(const Json& value);
  void append_ids(std::string_view word, std::vector<int64_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  explicit Bpe(Fields fields);
  void read_merges(const Json& list);
  void add_merge(const std::string& left, const std::string& right, int32_t rank);

  std::vector<int32_t> characters_of(std::string_view word) const;
  bool append_bytes(std::string_view character, std::vector<int32_t>& symbols) const;
  int32_t unknown_id() const;

  Vocabulary vocabulary_;
  Merges merges_;
  std::optional<std::string> unknown_;
  std::string prefix_, suffix_;  // of characters that do not begin, that end a word
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
  std::array<int32_t, 256> byte_ids_;
  mutable WordCache cache_;
};

}  // namespace tenon::tokens
