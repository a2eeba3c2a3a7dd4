// Ids of words that were met before. In parts with a lock each, so that threads seldom wait for one another.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::tokens {

class WordCache {
 public:
  // Appends the word's ids, or returns false.
  bool append(std::string_view word, std::vector<int64_t>& ids) {
    if (word.size() > kWordLimit) return false;
    size_t hash = std::hash<std::string_view>()(word);
    Part& part = parts_[hash % kParts];
    std::lock_guard lock(part.mutex);
    auto found = part.words.find(word);
    if (found == part.words.end()) return false;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    return true;
  }

  void insert(std::string_view word, const std::vector<int32_t>& ids) {
    if (word.size() > kWordLimit) return;
    Part& part = parts_[std::hash<std::string_view>()(word) % kParts];
    std::lock_guard lock(part.mutex);
    if (part.words.size() < kWordsAPart) part.words.emplace(word, ids);
  }

 private:
  static constexpr size_t kParts = 16, kWordsAPart = 4096, kWordLimit = 64;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Part {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> words;
  };
  std::array<Part, kParts> parts_;
};

}  // namespace tenon::tokens
