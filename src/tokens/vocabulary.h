// A bidirectional map between tokens and ids. Ids are unique and may have gaps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokens/json_fields.h"
#include "tokens/string_hash.h"

namespace tenon::tokens {

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Json& object, const std::string& where);
  Vocabulary(const Vocabulary&) = delete;  // The pointers in tokens_ refer to keys of ids_.
  Vocabulary& operator=(const Vocabulary&) = delete;

  // Returns -1 if the token is unknown.
  int32_t id(std::string_view token) const {
    auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  const std::string* token(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(tokens_.size()) ? tokens_[id] : nullptr; }
  size_t size() const { return ids_.size(); }
  size_t longest() const { return longest_; }  // Size of the longest token in bytes.

  // Returns false if the token or the id exists already.
  bool add(const std::string& token, int32_t id);

 private:
  std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;
  size_t longest_ = 0;
};

}  // namespace tenon::tokens
