// Caches the ids of words. Striped: each stripe has its own lock, which keeps contention between threads low.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokens/string_hash.h"

namespace tenon::tokens {

class WordCache {
 public:
  // Appends the ids of a cached word, or returns false.
  bool append(std::string_view word, std::vector<int64_t>& ids) {
    if (word.size() > kMaxWordBytes) return false;
    size_t hash = std::hash<std::string_view>()(word);
    Stripe& stripe = stripes_[hash % kStripes];
    std::lock_guard lock(stripe.mutex);
    auto found = stripe.words.find(word);
    if (found == stripe.words.end()) return false;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    return true;
  }

  void insert(std::string_view word, const std::vector<int32_t>& ids) {
    if (word.size() > kMaxWordBytes) return;
    Stripe& stripe = stripes_[std::hash<std::string_view>()(word) % kStripes];
    std::lock_guard lock(stripe.mutex);
    if (stripe.words.size() < kMaxWordsPerStripe) stripe.words.emplace(word, ids);
  }

 private:
  // Bounds the cache to 65,536 words of at most 64 bytes, a few megabytes. Estimates, not measured.
  static constexpr size_t kStripes = 16, kMaxWordsPerStripe = 4096, kMaxWordBytes = 64;

  struct Stripe {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<int32_t>, StringHash, std::equal_to<>> words;
  };
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace tenon::tokens
