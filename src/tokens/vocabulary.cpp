#include "tokens/vocabulary.h"

#include <algorithm>

namespace tenon::tokens {

Vocabulary::Vocabulary(const Json& object, const std::string& where) {
  ids_.reserve(object.size());
  for (const auto& [token, value] : object.items()) {
    int32_t id = token_id_of(value, where + ": the token '" + token + "'");
    if (!add(token, id)) refuse(where + ": the id " + std::to_string(id) + " belongs to two tokens, one of them '" + token + "'");
  }
}

bool Vocabulary::add(const std::string& token, int32_t id) {
  if (this->token(id)) return false;
  auto [entry, is_new] = ids_.emplace(token, id);
  if (!is_new) return false;
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(id + 1);
  tokens_[id] = &entry->first;
  longest_ = std::max(longest_, token.size());
  return true;
}

}  // namespace tenon::tokens
