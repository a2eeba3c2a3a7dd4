#include "tokens/tokenizer_model.h"

#include "tokens/bpe.h"
#include "tokens/word_piece.h"

namespace tenon::tokens {

std::unique_ptr<TokenizerModel> tokenizer_model_of(const Json& value) {
  JsonFields fields(value, "model");
  // Early versions of the format have no "type".
  std::string otherwise = fields.has("merges") ? "BPE" : fields.has("max_input_chars_per_word") ? "WordPiece" : "without a type";
  std::string type = fields.text_or("type", otherwise);
  if (type == "BPE") return std::make_unique<Bpe>(value);
  if (type == "WordPiece") return std::make_unique<WordPiece>(value);
  refuse("the model '" + type + "' is not supported; BPE and WordPiece are");
}

}  // namespace tenon::tokens
