#include "tokens/piece.h"

#include "base/error.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

void check_growth(size_t bytes, size_t bytes_before) {
  if (bytes > (size_t{1} << 20) + 64 * bytes_before)
    throw UserError(ErrorCode::tokenizer,
                    "tokenizer.json: its steps make " + std::to_string(bytes) + " bytes of " + std::to_string(bytes_before));
}

Pieces::Pieces(std::string_view text) : given_(text.size()) {
  if (text.empty()) return;
  size_t first = 0;
  next_character(text, first);
  pieces_.push_back({text, first, -1});
}

Piece Pieces::keep(Normalized text) {
  kept_ += text.text.size();
  check_growth(kept_, given_);
  texts_.push_back(std::move(text.text));
  return {texts_.back(), text.from_start, -1};
}

}  // namespace tenon::tokens
