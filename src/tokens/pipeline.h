// A tokenizer as its file describes it: added tokens, normalizer, pre-tokenizer, model and post-processor in this order, and the decoder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokens/added_tokens.h"
#include "tokens/decoder.h"
#include "tokens/normalizer.h"
#include "tokens/post_processor.h"
#include "tokens/pre_tokenizer.h"
#include "tokens/tokenizer_model.h"

namespace tenon::tokens {

class Pipeline {
 public:
  explicit Pipeline(std::string_view json);

  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens) const;
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const;

  std::optional<int64_t> token_id(std::string_view token) const;
  const std::string* token(int64_t id) const;  // Returns null if no token has this id.
  size_t size() const { return model_->vocabulary().size() + added_->beyond_model(); }

  // Returns null if no token has this id, or if the token is special and special tokens are skipped.
  const std::string* shown_token(int64_t id, bool skip_special_tokens) const;
  bool is_byte_level() const { return decoder_ && decoder_->is_byte_level; }

 private:
  std::unique_ptr<TokenizerModel> model_;
  Normalizer normalizer_;
  std::unique_ptr<AddedTokens> added_;
  PreTokenizer pre_tokenizer_;
  PostProcessor post_processor_;
  std::optional<Decoder> decoder_;
};

}  // namespace tenon::tokens
