#include "tokens/text_segment.h"

#include "base/error.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

// The size to which a tokenizer may expand a text, in bytes and as a multiple of the text. Safety limits, not measured.
constexpr size_t kMaxAddedBytes = size_t{1} << 20, kMaxGrowthFactor = 64;

}  // namespace

void check_growth(size_t bytes, size_t bytes_before) {
  if (bytes > kMaxAddedBytes + kMaxGrowthFactor * bytes_before)
    throw UserError(ErrorCode::tokenizer, "tokenizer.json: its steps expand a text of " + std::to_string(bytes_before) + " bytes to " +
                                              std::to_string(bytes) + " bytes; remove the steps that repeat text");
}

TextSegments::TextSegments(std::string_view text) : given_(text.size()) {
  if (text.empty()) return;
  size_t first = 0;
  next_character(text, first);
  segments_.push_back({text, first, -1});
}

TextSegment TextSegments::keep(Normalized text) {
  kept_ += text.text.size();
  check_growth(kept_, given_);
  texts_.push_back(std::move(text.text));
  return {texts_.back(), text.from_start, -1};
}

}  // namespace tenon::tokens
