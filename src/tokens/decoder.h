// The field "decoder": from tokens back to text. Steps work on a list of texts, which are joined in the end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tokens/fields.h"

namespace tenon::tokens {

struct Decoder {
  using Step = std::function<void(std::vector<std::string>&)>;
  std::vector<Step> steps;
  bool is_byte_level = false;  // and nothing else: tokens are bytes, whatever stands around them

  std::string text_of(std::vector<std::string> tokens) const;
};

Decoder decoder_of(const Json& value);

}  // namespace tenon::tokens
