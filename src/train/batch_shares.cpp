#include "train/batch_shares.h"

#include <algorithm>

namespace tenon::train {
namespace {

using Indices = std::vector<size_t>;

// The first `count` examples, repeated if there are fewer.
Indices first_examples(const Batches& batches, size_t batches_to_read, size_t count) {
  Indices out;
  for (size_t i = 0; i < std::min(batches_to_read, batches.size()); ++i) out.insert(out.end(), batches[i].begin(), batches[i].end());
  size_t found = out.size();
  while (found > 0 && out.size() < count) out.push_back(out[out.size() - found]);
  return out;
}

Indices part_of(const Indices& batch, size_t part, size_t rank) {
  size_t begin = std::min(part * rank, batch.size()), end = std::min(begin + part, batch.size());
  return {batch.begin() + static_cast<int64_t>(begin), batch.begin() + static_cast<int64_t>(end)};
}

Batches share_of_split(const Batches& batches, const ShareRules& rules) {
  Batches out;
  size_t part = rules.batch_size / rules.ranks;
  for (Indices batch : batches) {
    bool is_full = batch.size() == rules.batch_size;
    if (!is_full && rules.drop_last) break;
    if (!is_full && rules.even_batches) {
      Indices filling = first_examples(batches, 1, rules.batch_size);
      batch.insert(batch.end(), filling.begin(), filling.end());
    }
    if (Indices own = part_of(batch, part, rules.rank); !own.empty()) out.push_back(own);
  }
  return out;
}

}  // namespace

Batches make_batches(const std::vector<size_t>& order, size_t batch_size, bool drop_last) {
  Batches out;
  for (size_t first = 0; first < order.size(); first += batch_size) {
    size_t end = std::min(first + batch_size, order.size());
    if (drop_last && end - first < batch_size) break;
    out.emplace_back(order.begin() + static_cast<int64_t>(first), order.begin() + static_cast<int64_t>(end));
  }
  return out;
}

Batches share_of(const Batches& batches, const ShareRules& rules) {
  if (rules.ranks == 1) return batches;
  if (rules.split_batches) return share_of_split(batches, rules);
  Batches out;
  Indices filling = first_examples(batches, rules.ranks, rules.ranks * rules.batch_size);
  size_t filled = 0;
  for (size_t round = 0; round < batches.size(); round += rules.ranks) {
    bool is_complete = round + rules.ranks <= batches.size() && batches[round + rules.ranks - 1].size() == rules.batch_size;
    if (!is_complete && rules.drop_last) break;
    for (size_t rank = 0; rank < rules.ranks; ++rank) {
      Indices batch = round + rank < batches.size() ? batches[round + rank] : Indices();
      if (rules.even_batches)
        while (batch.size() < rules.batch_size) batch.push_back(filling[filled++]);
      if (rank == rules.rank && !batch.empty()) out.push_back(batch);
    }
  }
  return out;
}

}  // namespace tenon::train
