// Tokens and their ids, both ways. Ids are unique, but need not be without gaps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokens/fields.h"

namespace tenon::tokens {

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Json& object, const std::string& where);
  Vocabulary(const Vocabulary&) = delete;  // tokens_ points into ids_
  Vocabulary& operator=(const Vocabulary&) = delete;

  int32_t id(std::string_view token) const {  // or -1
    auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  const std::string* token(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(tokens_.size()) ? tokens_[id] : nullptr; }
  size_t size() const { return ids_.size(); }
  size_t longest() const { return longest_; }  // bytes of the longest token

  // False if the token or the id is there already.
  bool add(const std::string& token, int32_t id);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;
  size_t longest_ = 0;
};

}  // namespace tenon::tokens
