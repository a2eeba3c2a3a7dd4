#include "tokens/merges.h"

#include <algorithm>

namespace tenon::tokens {

namespace {

struct Symbol {
  int32_t id;  // Token id, or -1 if it was merged into a symbol before it.
  int32_t previous, next;
};

struct MergeCandidate {
  int32_t rank, position, id;
  // std::make_heap puts the largest first, so the order is reversed.
  bool operator<(const MergeCandidate& other) const { return rank != other.rank ? rank > other.rank : position > other.position; }
};

}  // namespace

void Merges::reserve(size_t merges) {
  int bits = 1;
  while ((size_t{1} << bits) < merges * 2 + 1) ++bits;
  shift_ = 64 - bits;
  buckets_.assign(size_t{1} << bits, MergeBucket{});
}

void Merges::set(int32_t left, int32_t right, Merge merge) {
  uint64_t pair = pair_of(left, right);
  size_t at = home(pair);
  while (buckets_[at].pair != kNone && buckets_[at].pair != pair) at = (at + 1) & (buckets_.size() - 1);
  buckets_[at] = {pair, merge};
}

const Merge* Merges::find(int32_t left, int32_t right) const {
  uint64_t pair = pair_of(left, right);
  for (size_t at = home(pair);; at = (at + 1) & (buckets_.size() - 1)) {
    if (buckets_[at].pair == pair) return &buckets_[at].merge;
    if (buckets_[at].pair == kNone) return nullptr;
  }
}

void Merges::apply(std::vector<int32_t>& symbols) const {
  int32_t count = static_cast<int32_t>(symbols.size());
  if (count < 2) return;
  std::vector<Symbol> list(count);
  for (int32_t i = 0; i < count; ++i) list[i] = {symbols[i], i - 1, i + 1 < count ? i + 1 : -1};
  std::vector<MergeCandidate> queue;
  auto consider = [&](int32_t left, int32_t right) {
    const Merge* merge = find(list[left].id, list[right].id);
    if (merge) queue.push_back({merge->rank, left, merge->id});
    return merge != nullptr;
  };
  for (int32_t i = 0; i + 1 < count; ++i) consider(i, i + 1);
  std::make_heap(queue.begin(), queue.end());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end());
    MergeCandidate best = queue.back();
    queue.pop_back();
    Symbol& left = list[best.position];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = list[left.next];
    const Merge* merge = find(left.id, right.id);
    if (!merge || merge->id != best.id) continue;  // Stale: one of the two symbols was merged since.
    left.id = best.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) list[left.next].previous = best.position;
    if (left.previous >= 0 && consider(left.previous, best.position)) std::push_heap(queue.begin(), queue.end());
    if (left.next >= 0 && consider(best.position, left.next)) std::push_heap(queue.begin(), queue.end());
  }
  symbols.clear();
  for (int32_t i = 0; i >= 0; i = list[i].next) symbols.push_back(list[i].id);
}

}  // namespace tenon::tokens
