#include "adapters/active_adapters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "bridge/parallel.h"

namespace tenon::adapters {

ActiveAdapters::ActiveAdapters(const at::Tensor& pin, int64_t bank, int64_t layer_index, int64_t batch)
    : core_(Core::find(bank)),
      table_(Core::pinned(pin)),
      layer_index_(static_cast<size_t>(layer_index)),
      layer_(core_->layer(layer_index_)) {
  const int64_t* rows = pin.const_data_ptr<int64_t>() + 1;
  int64_t count = pin.numel() - 1;
  has_one_set_ = count == 1 || batch == 1;
  bool differs = std::any_of(rows, rows + count, [&](int64_t row) { return row != rows[0]; });
  if (batch == 1 && differs) {
    // An embedding of positions, for example, is computed once for all samples.
    for (int64_t i = 0; i < count; ++i)
      if (table_->entries[static_cast<size_t>(rows[i])].acts_on(layer_index_))
        throw UserError(ErrorCode::adapter, layer_.path +
                                                " is computed once for all rows of the batch, so all of them need the same adapter there. "
                                                "Use rows() with one name for all, or an adapter without this layer.");
  } else if (!has_one_set_ && count != batch) {
    throw UserError(ErrorCode::adapter, "there are " + std::to_string(count) + " rows for a batch of " + std::to_string(batch) +
                                            ". Give one name for each row of the batch.");
  }
  std::vector<std::pair<int64_t, size_t>> known;  // Pairs of an entry's index and the index of its set.
  for (int64_t i = 0; i < (has_one_set_ ? 1 : batch); ++i) {
    auto found = std::find_if(known.begin(), known.end(), [&](const auto& pair) { return pair.first == rows[i]; });
    if (found == known.end()) {
      found = known.insert(known.end(), {rows[i], sets_.size()});
      add_set(table_->entries[static_cast<size_t>(rows[i])]);
    }
    if (!ranges_.empty() && ranges_.back().set == found->second) ++ranges_.back().count;
    else ranges_.push_back({i, 1, found->second});
  }
  if (has_one_set_) ranges_[0].count = batch;
}

void ActiveAdapters::add_set(const BankEntry& entry) {
  Set set;
  for (const AdapterPointer& adapter : entry.adapters)
    for (const LayerAdapterPointer& layer_adapter : adapter->layer_adapters[layer_index_]) {
      is_active_ = true, has_input_transform_ |= adapter->has_input_transform && layer_adapter->transforms_input(layer_);
      set.push_back({layer_adapter.get(), adapter->factor});
    }
  sets_.push_back(std::move(set));
  entries_.push_back(&entry);
}

const LayerAdapter* ActiveAdapters::find_base_user() const {
  for (const Set& set : sets_)
    for (const ActiveAdapter& active : set)
      if (active.adapter->uses_base(layer_)) return active.adapter;
  return nullptr;
}

bool ActiveAdapters::is_additive() const {
  for (const Set& set : sets_)
    for (const ActiveAdapter& active : set)
      if (!active.adapter->is_additive() || active.adapter->transforms_weight(layer_)) return false;
  return true;
}

bool ActiveAdapters::has_input_transform(const Set& set) const {
  return std::any_of(set.begin(), set.end(), [&](const ActiveAdapter& active) { return active.adapter->transforms_input(layer_); });
}

// Returns sample i in the shape that layer adapters expect, or the whole batch if all samples have the same set.
at::Tensor ActiveAdapters::sample_of(const at::Tensor& batch, int64_t i) const {
  if (has_one_set_) return batch;
  return layer_.kind == LayerKind::conv2d ? batch.narrow(0, i, 1) : batch.select(0, i);
}

// Returns the layer with its weight and bias replaced by those of the set's adapters.
Layer ActiveAdapters::effective_layer(const Set& set, bool* has_weight) const {
  Layer seen = layer_;
  for (const ActiveAdapter& active : set) {
    auto replacement = active.adapter->replacement();
    if (!replacement) continue;
    if (replacement->weight.defined()) seen.base.weight = replacement->weight, *has_weight = true;
    if (replacement->bias.defined()) seen.base.bias = replacement->bias;
  }
  return seen;
}

std::vector<at::Tensor> ActiveAdapters::prepare_all(const Set& set, bool for_input) const {
  bool has_weight = false;
  Layer seen = effective_layer(set, &has_weight);
  std::vector<at::Tensor> out;
  for (const ActiveAdapter& active : set) {
    bool is_wanted =
        active.adapter->transforms_input(layer_) ? for_input || has_weight : !for_input && !active.adapter->transforms_weight(layer_);
    out.push_back(is_wanted ? active.adapter->prepare(seen, active.factor) : at::Tensor());
  }
  return out;
}

at::Tensor ActiveAdapters::transform_sample(const Set& set, const std::vector<at::Tensor>& prepared, at::Tensor x) const {
  auto transform = [&](size_t i, bool in_reverse) {
    const LayerAdapter& layer_adapter = *set[i].adapter;
    if (layer_adapter.transforms_input(layer_) && layer_adapter.transforms_in_reverse() == in_reverse)
      x = layer_adapter.transform_input(x, prepared[i], layer_);
  };
  for (size_t i = 0; i < set.size(); ++i) transform(i, false);
  for (size_t i = set.size(); i-- > 0;) transform(i, true);
  return x;
}

at::Tensor ActiveAdapters::apply_to_sample(const Set& set, const std::vector<at::Tensor>& prepared, at::Tensor y,
                                           const at::Tensor& x) const {
  bool is_new = false;
  Layer seen = effective_layer(set, &is_new);
  if (!is_new && seen.base.bias.defined() && !seen.base.bias.is_same(layer_.base.bias))
    y = (y + layer_.along_outputs(seen.base.bias - layer_.base.bias)).to(y.scalar_type());
  auto fold = [&](const ActiveAdapter& active, bool in_reverse) {
    if (active.adapter->transforms_weight(layer_) && active.adapter->transforms_in_reverse() == in_reverse)
      seen.base = active.adapter->merged(seen, active.factor), is_new = true;
  };
  for (const ActiveAdapter& active : set) fold(active, true);
  for (auto active = set.rbegin(); active != set.rend(); ++active) fold(*active, false);
  if (is_new) y = seen.run(transform_sample(set, prepared, x)).to(y.scalar_type());
  for (size_t i = 0; i < set.size(); ++i) y = set[i].adapter->apply_to_output(y, x, prepared[i], seen, set[i].factor);
  return y;
}

ActiveAdapters::TrainableSet ActiveAdapters::trainable_set(size_t set, const at::Tensor& trained) const {
  TrainableSet out;
  for (const AdapterPointer& adapter : entries_[set]->adapters)
    for (size_t i = 0; i < adapter->layer_adapters[layer_index_].size(); ++i) {
      LayerAdapterPointer layer_adapter = is_dropping(set) ? (*dropping_)[set][out.set.size()] : adapter->layer_adapters[layer_index_][i];
      if (!adapter->trained.empty()) {
        int64_t first = adapter->trained[layer_index_][i];
        std::vector<at::Tensor> leaves;
        size_t begin = out.parameters.size();
        for (const auto& [name, tensor] : layer_adapter->tensors()) {
          leaves.push_back(trained.narrow(0, first, tensor.numel()).view(tensor.sizes()).detach().requires_grad_());
          out.parameters.push_back({leaves.back(), first});
          first += tensor.numel();
        }
        // The use count follows the parameters.
        bool can_skip = layer_adapter->skip_probability().value_or(0) > 0;
        for (size_t k = begin; can_skip && k < out.parameters.size(); ++k) out.parameters[k].use_count = first;
        layer_adapter = layer_adapter->with(leaves);
      }
      out.set.push_back({layer_adapter.get(), adapter->factor});
      out.layer_adapters.push_back(std::move(layer_adapter));
    }
  return out;
}

std::vector<ActiveAdapters::SampleRange> ActiveAdapters::ranges_of(size_t set) const {
  std::vector<SampleRange> out;
  std::copy_if(ranges_.begin(), ranges_.end(), std::back_inserter(out), [&](const SampleRange& range) { return range.set == set; });
  return out;
}

at::Tensor ActiveAdapters::samples_of(const std::vector<SampleRange>& ranges, const at::Tensor& batch) {
  if (ranges.size() == 1) return batch.narrow(0, ranges[0].first, ranges[0].count);
  std::vector<at::Tensor> all;
  for (const SampleRange& range : ranges) all.push_back(batch.narrow(0, range.first, range.count));
  return at::cat(all);
}

// Differentiates with libtorch's autograd and returns the gradients in the order that `differentiate` expects.
std::vector<at::Tensor> ActiveAdapters::gradients_of(const at::Tensor& out, const TrainableSet& leaves,
                                                     const std::vector<at::Tensor>& samples, const at::Tensor& grad) {
  std::vector<at::Tensor> wanted;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(wanted), [](const at::Tensor& sample) { return sample.requires_grad(); });
  for (const FlatSlice& parameter : leaves.parameters) wanted.push_back(parameter.tensor);
  if (!out.requires_grad()) return std::vector<at::Tensor>(wanted.size());
  return torch::autograd::grad({out}, wanted, {grad}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
}

bool ActiveAdapters::are_products(const Set& set) const {
  return layer_.is_linear() && std::all_of(set.begin(), set.end(), [](const ActiveAdapter& active) {
           if (!active.adapter->has_low_rank()) return false;
           LowRank what = active.adapter->low_rank(active.factor);
           return !what.middle.defined() && !what.outer.defined();
         });
}

// The gradients of y + scale B A x, the form of most adapters. Only A x is recomputed.
std::vector<at::Tensor> ActiveAdapters::product_gradients(const TrainableSet& leaves, const at::Tensor& y, const at::Tensor& x,
                                                          const at::Tensor& grad) const {
  at::NoGradGuard no_grad;
  at::Tensor from = grad.reshape({-1, layer_.outputs()}).to(at::kFloat), wide = x.to(at::kFloat), of_x;
  std::vector<at::Tensor> found(leaves.parameters.size());
  auto put = [&](const at::Tensor& parameter, auto&& gradient) {
    for (size_t i = 0; i < found.size(); ++i)
      if (leaves.parameters[i].tensor.is_same(parameter)) found[i] = gradient();
  };
  for (const ActiveAdapter& active : leaves.set) {
    LowRank what = active.adapter->low_rank(active.factor);
    at::Tensor given = active.adapter->drop_input(wide).reshape({-1, layer_.inputs()});
    at::Tensor inner = from.mm(what.b).mul_(what.scale);  // The gradient of A x.
    put(what.a, [&] { return inner.t().mm(given); });
    put(what.b, [&] { return from.t().mm(given.mm(what.a.t()).mul_(what.scale)); });
    if (!x.requires_grad()) continue;
    at::Tensor through = active.adapter->drop_input(inner.mm(what.a).view(x.sizes()));
    of_x = of_x.defined() ? of_x.add_(through) : through;
  }
  if (x.requires_grad()) found.insert(found.begin(), of_x.to(x.scalar_type()));
  if (y.requires_grad()) found.insert(found.begin(), grad);
  return found;
}

template <class W, class F>
void ActiveAdapters::differentiate(const at::Tensor& grad, const std::vector<std::pair<at::Tensor, at::Tensor*>>& by,
                                   const at::Tensor& trained, at::Tensor& trained_grad, W&& is_affected, F&& gradients) const {
  // The backward ops run below autograd, which is enabled again here.
  auto local = c10::impl::tls_local_dispatch_key_set();
  c10::impl::ForceDispatchKeyGuard keys(
      local.included_, local.excluded_ - c10::autograd_dispatch_keyset - c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView));
  for (size_t set = 0; set < sets_.size(); ++set) {
    if (!is_affected(sets_[set])) continue;
    at::AutoGradMode on(true);
    std::vector<SampleRange> ranges = ranges_of(set);
    TrainableSet leaves = trainable_set(set, trained);
    std::vector<at::Tensor> samples;
    for (const auto& [value, to] : by) samples.push_back(samples_of(ranges, value).detach().requires_grad_(to != nullptr));
    std::vector<at::Tensor> found = gradients(leaves, samples, samples_of(ranges, grad));
    at::NoGradGuard no_grad;
    size_t next = 0;
    for (const auto& [value, to] : by) {
      if (!to) continue;
      const at::Tensor& gradient = found[next++];
      if (gradient.defined() && ranges.size() == 1 && ranges[0].count == value.size(0)) {
        *to = gradient;
        continue;
      }
      if (!to->defined()) *to = at::zeros_like(value, at::MemoryFormat::Contiguous);
      int64_t first = 0;
      for (const SampleRange& range : ranges) {
        at::Tensor target = to->narrow(0, range.first, range.count);
        gradient.defined() ? target.copy_(gradient.narrow(0, first, range.count)) : target.zero_();
        first += range.count;
      }
    }
    for (const FlatSlice& parameter : leaves.parameters) {
      const at::Tensor& gradient = found[next++];
      if (!gradient.defined()) continue;
      trained_grad.narrow(0, parameter.first, parameter.tensor.numel()).view(parameter.tensor.sizes()).add_(gradient);
      if (parameter.use_count >= 0) trained_grad.narrow(0, parameter.use_count, 1).fill_(1);
    }
  }
}

ActiveAdapters::AdapterGradients ActiveAdapters::transform_input_backward(const at::Tensor& grad, const at::Tensor& x,
                                                                          const at::Tensor& trained) const {
  AdapterGradients out{// Samples without an input transform keep the incoming gradient.
                       {},
                       grad.clone(at::MemoryFormat::Contiguous),
                       at::zeros_like(trained)};
  auto is_affected = [&](const Set& set) { return has_input_transform(set); };
  differentiate(
      grad, {{x, &out.x}}, trained, out.trained, is_affected, [&](const TrainableSet& leaves, const auto& samples, const at::Tensor& from) {
        return gradients_of(transform_sample(leaves.set, prepare_all(leaves.set, /*for_input=*/true), samples[0]), leaves, samples, from);
      });
  return out;
}

ActiveAdapters::AdapterGradients ActiveAdapters::apply_to_output_backward(const at::Tensor& grad, const at::Tensor& y, const at::Tensor& x,
                                                                          const at::Tensor& trained, bool needs_x) const {
  bool is_additive = this->is_additive();
  AdapterGradients out{is_additive ? grad : grad.clone(at::MemoryFormat::Contiguous), {}, at::zeros_like(trained)};
  auto is_affected = [](const Set& set) { return !set.empty(); };
  // The gradient of an additive adapter does not depend on y, so `grad` serves as a tensor of the same size.
  differentiate(grad, {{is_additive ? grad : y, is_additive ? nullptr : &out.y}, {x, needs_x ? &out.x : nullptr}}, trained, out.trained,
                is_affected, [&](const TrainableSet& leaves, const auto& samples, const at::Tensor& from) {
                  if (are_products(leaves.set)) return product_gradients(leaves, samples[0], samples[1], from);
                  return gradients_of(apply_to_sample(leaves.set, prepare_all(leaves.set, /*for_input=*/false), samples[0], samples[1]),
                                      leaves, samples, from);
                });
  return out;
}

// Whether the low-rank loop can compute all adapters of the set.
bool ActiveAdapters::has_low_rank(const Set& set, const at::Tensor& y, const at::Tensor& x) const {
  return layer_.is_linear() && adapters::has_low_rank(y.scalar_type()) && x.scalar_type() == y.scalar_type() && x.is_contiguous() &&
         y.is_contiguous() &&
         std::all_of(set.begin(), set.end(), [](const ActiveAdapter& active) { return active.adapter->has_low_rank(); });
}

void ActiveAdapters::apply_low_rank(const std::vector<SampleRange>& ranges, at::Tensor& y, const at::Tensor& x) const {
  struct TokenBlock {
    const Set* set;
    int64_t first, count;  // The range of tokens.
  };
  std::vector<TokenBlock> blocks;
  int64_t tokens = y.numel() / layer_.outputs() / y.size(0);
  for (const SampleRange& range : ranges)
    for (int64_t t = 0; t < range.count * tokens; t += kTokensPerBlock)
      blocks.push_back({&sets_[range.set], range.first * tokens + t, std::min(kTokensPerBlock, range.count * tokens - t)});
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.data_ptr());
  int64_t inputs = layer_.inputs(), outputs = layer_.outputs(), size = static_cast<int64_t>(y.itemsize());
  bridge::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    LowRankScratch scratch;
    auto sums_of = [](const TokenBlock& block) {
      std::vector<LowRank> out;
      for (const ActiveAdapter& active : *block.set) out.push_back(active.adapter->low_rank(active.factor).in_column_major());
      return out;
    };
    std::vector<LowRank> sums = sums_of(blocks[static_cast<size_t>(begin)]), next;
    for (int64_t i = begin; i < end; ++i) {
      const auto& [set, first, count] = blocks[static_cast<size_t>(i)];
      bool changes = i + 1 < end && set != blocks[static_cast<size_t>(i + 1)].set;
      if (changes) next = sums_of(blocks[static_cast<size_t>(i + 1)]);
      LowRankBatch batch{y.scalar_type(), inputs, outputs, count, from + first * inputs * size, to + first * outputs * size};
      for (size_t k = 0; k < sums.size(); ++k)
        add_low_rank(sums[k], batch, scratch, k + 1 < sums.size() ? sums[k + 1] : (changes ? next : sums).front());
      if (changes) sums.swap(next);
    }
  });
}

template <class W, class F>
void ActiveAdapters::write_samples(at::Tensor& to, W&& is_wanted, F&& compute) const {
  std::vector<std::pair<size_t, int64_t>> samples;  // Pairs of a set and the index of a sample.
  for (const SampleRange& range : ranges_) {
    if (!is_wanted(range)) continue;
    for (int64_t i = range.first; i < (has_one_set_ ? 1 : range.first + range.count); ++i) samples.emplace_back(range.set, i);
  }
  if (samples.empty()) return;
  auto write = [&](size_t set, int64_t i) {
    at::Tensor target = sample_of(to, i), out = compute(set, i, target);
    if (!out.is_same(target)) target.copy_(out);
  };
  if (has_one_set_) return write(samples[0].first, samples[0].second);
  std::exception_ptr failed;
  std::mutex mutex;
  // A single sample runs in a parallel loop too: libtorch may round a product differently outside of one, where it uses several threads.
  auto count = static_cast<int64_t>(samples.size());
  bridge::parallel_for(0, std::max<int64_t>(count, 2), 1, [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowAutograd below;
    at::NoGradGuard no_grad;
    try {
      for (int64_t k = begin; k < std::min(end, count); ++k)
        write(samples[static_cast<size_t>(k)].first, samples[static_cast<size_t>(k)].second);
    } catch (...) {
      std::lock_guard lock(mutex);
      failed = std::current_exception();
    }
  });
  if (failed) std::rethrow_exception(failed);
}

at::Tensor ActiveAdapters::transform_input(const at::Tensor& x) const {
  std::vector<std::vector<at::Tensor>> prepared;
  std::vector<bool> transforms;
  for (const Set& set : sets_) {
    transforms.push_back(has_input_transform(set));
    prepared.push_back(transforms.back() ? prepare_all(set, /*for_input=*/true) : std::vector<at::Tensor>());
  }
  at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  write_samples(
      out, [&](const SampleRange& range) { return transforms[range.set]; },
      [&](size_t set, int64_t i, const at::Tensor&) { return transform_sample(sets_[set], prepared[set], sample_of(x, i)); });
  return out;
}

void ActiveAdapters::apply_to_output(at::Tensor& y, const at::Tensor& x) const {
  if (y.numel() == 0) return;
  std::vector<SampleRange> low;
  std::vector<std::optional<std::vector<at::Tensor>>> prepared(sets_.size());
  auto is_wanted = [&](const SampleRange& range) {
    const Set& set = sets_[range.set];
    if (is_dropping(range.set) && !has_one_set_) return false;  // apply_to_set computes it.
    bool is_low = has_low_rank(set, y, x) && !is_dropping(range.set);
    if (is_low && !set.empty()) low.push_back(range);
    if (is_low || set.empty()) return false;
    if (!prepared[range.set]) prepared[range.set] = prepare_all(set, /*for_input=*/false);
    return true;
  };
  write_samples(y, is_wanted, [&](size_t set, int64_t i, const at::Tensor& sample) {
    return apply_to_sample(sets_[set], *prepared[set], sample, sample_of(x, i));
  });
  if (!low.empty()) apply_low_rank(low, y, x);
  for (size_t set = 0; set < sets_.size() && !has_one_set_; ++set)
    if (is_dropping(set)) apply_to_set(set, y, x);
}

}  // namespace tenon::adapters
