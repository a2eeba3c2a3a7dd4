// The field "model": maps a word to ids. Models are read-only after loading, except for word caches, which are thread-safe.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tokens/json_fields.h"
#include "tokens/vocabulary.h"

namespace tenon::tokens {

class TokenizerModel {
 public:
  virtual ~TokenizerModel() = default;
  virtual void append_ids(std::string_view word, std::vector<int64_t>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

std::unique_ptr<TokenizerModel> tokenizer_model_of(const Json& value);

}  // namespace tenon::tokens
