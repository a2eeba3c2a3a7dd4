// WordPiece: greedily takes the longest token that begins the word, then the longest that continues it, and so on. A word that cannot be
// composed of tokens becomes one unknown token.
#pragma once

#include <string>

#include "tokens/tokenizer_model.h"

namespace tenon::tokens {

class WordPiece : public TokenizerModel {
 public:
  explicit WordPiece(const Json& value);
  void append_ids(std::string_view word, std::vector<int64_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  explicit WordPiece(JsonFields fields);
  bool append_known(std::string_view word, std::vector<int64_t>& ids) const;

  Vocabulary vocabulary_;
  std::string unknown_, prefix_;
  size_t max_word_characters_;
};

}  // namespace tenon::tokens
