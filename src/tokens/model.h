// The field "model": ids of one word. Models are read-only after loading; what they remember of words guards itself.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tokens/fields.h"
#include "tokens/vocabulary.h"

namespace tenon::tokens {

class Model {
 public:
  virtual ~Model() = default;
  virtual void append_ids(std::string_view word, std::vector<int64_t>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

std::unique_ptr<Model> model_of(const Json& value);

}  // namespace tenon::tokens
