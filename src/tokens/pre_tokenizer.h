// The field "pre_tokenizer": splits a text into words. No token crosses the boundary of a word.
#pragma once

#include <functional>

#include "tokens/json_fields.h"
#include "tokens/text_segment.h"

namespace tenon::tokens {

using PreTokenizer = std::function<void(TextSegments&)>;

PreTokenizer pre_tokenizer_of(const Json& value);

// Options of Metaspace, for both the pre-tokenizer and the decoder: the character that replaces a space, and whether it is prepended.
struct Metaspace {
  enum class Prepend { always, first, never };
  std::string character;
  Prepend prepend;
  bool split;
};
Metaspace metaspace_of(JsonFields& fields);

}  // namespace tenon::tokens
