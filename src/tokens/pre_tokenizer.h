// The field "pre_tokenizer": how a text is cut into words, none of which a token may cross.
#pragma once

#include <functional>

#include "tokens/fields.h"
#include "tokens/piece.h"

namespace tenon::tokens {

using PreTokenizer = std::function<void(Pieces&)>;

PreTokenizer pre_tokenizer_of(const Json& value);

// Metaspace's character for a space, and whether it is put in front of a text: shared with the decoder of that name.
struct Metaspace {
  enum class Prepend { always, first, never };
  std::string character;
  Prepend prepend;
  bool split;
};
Metaspace metaspace_of(Fields& fields);

}  // namespace tenon::tokens
