// WordPiece: the longest token that begins a word, then the longest that continues it, and so on; a word that cannot be made of
// tokens is the unknown token as a whole.
#pragma once

#include <string>

#include "tokens/model.h"

namespace tenon::tokens {

class WordPiece : public Model {
 public:
  explicit WordPiece(const Json& value);
  void append_ids(std::string_view word, std::vector<int64_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  explicit WordPiece(Fields fields);
  bool append_known(std::string_view word, std::vector<int64_t>& ids) const;

  Vocabulary vocabulary_;
  std::string unknown_, prefix_;
  size_t longest_word_;  // characters
};

}  // namespace tenon::tokens
