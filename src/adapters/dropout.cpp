// Dropout in training mode: what the adapters of a call drop.
#include <algorithm>

#include "adapters/active_adapters.h"

namespace tenon::adapters {

at::Tensor ActiveAdapters::draw(const at::Tensor& x) {
  bool draws = std::any_of(sets_.begin(), sets_.end(), [](const Set& set) {
    return std::any_of(set.begin(), set.end(), [](const ActiveAdapter& active) { return active.adapter->draws_in_training(); });
  });
  if (!draws) return make_no_draws();
  auto [record, dropping] = make_draws([&](const at::Generator& generator) { return draw_masks(x, generator); });
  use_masks(std::move(dropping));
  return record;
}

void ActiveAdapters::draw_again(const at::Tensor& draws, const at::Tensor& x) {
  use_masks(find_draws(draws, [&](const at::Generator& generator) { return draw_masks(x, generator); }));
}

DroppingSets ActiveAdapters::draw_masks(const at::Tensor& x, const at::Generator& generator) const {
  DroppingSets out(sets_.size());
  for (size_t set = 0; set < sets_.size(); ++set) {
    bool draws = false;
    at::Tensor samples = samples_of(ranges_of(set), x);
    std::vector<LayerAdapterPointer> all;
    for (const AdapterPointer& adapter : entries_[set]->adapters)
      for (const LayerAdapterPointer& layer_adapter : adapter->layer_adapters[layer_index_]) {
        bool draws_now = layer_adapter->draws_in_training();
        draws |= draws_now;
        all.push_back(draws_now ? layer_adapter->dropping(samples, layer_, generator) : layer_adapter);
      }
    if (draws) out[set] = std::move(all);
  }
  return out;
}

void ActiveAdapters::use_masks(DroppingSetsPointer dropping) {
  dropping_ = std::move(dropping);
  for (size_t set = 0; set < sets_.size(); ++set)
    for (size_t i = 0; is_dropping(set) && i < sets_[set].size(); ++i) sets_[set][i].adapter = (*dropping_)[set][i].get();
}

void ActiveAdapters::apply_to_set(size_t set, at::Tensor& y, const at::Tensor& x) const {
  std::vector<SampleRange> ranges = ranges_of(set);
  at::Tensor out = apply_to_sample(sets_[set], prepare_all(sets_[set], /*for_input=*/false), samples_of(ranges, y), samples_of(ranges, x));
  int64_t done = 0;
  for (const SampleRange& range : ranges) {
    y.narrow(0, range.first, range.count).copy_(out.narrow(0, done, range.count));
    done += range.count;
  }
}

}  // namespace tenon::adapters
