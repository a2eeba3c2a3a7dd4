#include "adapters/training.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.h"

namespace tenon::adapters {

namespace {

// Returns a tensor that aliases a range of another without being a view for autograd.
at::Tensor slice_of(const at::Tensor& tensor, int64_t first, at::IntArrayRef sizes) {
  at::NoGradGuard no_grad;
  at::Tensor out = at::empty({0}, tensor.options());
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return out.set_(tensor.storage(), first, sizes, strides);
}

// The backward of the flat tensor as a function of its parameters. A parameter that took no part gets no gradient. A parameter with a
// constraint gets the constrained values, with which the forward has computed.
class SplitGradient : public torch::autograd::Node {
 public:
  SplitGradient(const std::vector<FlatSlice>& slices, const std::vector<at::Tensor>& leaves) {
    for (size_t i = 0; i < slices.size(); ++i) {
      add_next_edge(torch::autograd::impl::gradient_edge(leaves[i]));
      ranges_.push_back({leaves[i].sizes().vec(), slices[i].first, slices[i].use_count});
      if (slices[i].constraint) constrained_.emplace_back(leaves[i], slices[i].constraint);
    }
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    at::NoGradGuard no_grad;
    torch::autograd::variable_list out(ranges_.size());
    if (!grads[0].defined()) return out;
    // data() has a version of its own: other nodes of this backward may have saved the leaf.
    for (const auto& [leaf, constraint] : constrained_) leaf.data().copy_(constraint(leaf));
    at::Tensor tensor = grads[0].contiguous();
    int64_t known = -1;  // The use count that was read last; all parameters of a layer adapter have the same one.
    bool is_used = true;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const ParameterRange& range = ranges_[i];
      if (range.use_count >= 0 && range.use_count != known) {
        known = range.use_count;
        // An op instead of a pointer, because compiled programs must notice that the host reads a result.
        is_used = tensor.narrow(0, known, 1).item<float>() != 0;
      }
      if (range.use_count >= 0 && !is_used) continue;
      // An alias instead of a view, because optimizers detach gradients in place.
      out[i] = slice_of(tensor, tensor.storage_offset() + range.first, range.sizes);
    }
    return out;
  }

 private:
  struct ParameterRange {
    std::vector<int64_t> sizes;
    int64_t first, use_count;
  };
  std::vector<ParameterRange> ranges_;
  std::vector<std::pair<at::Tensor, Constraint>> constrained_;
};

// Copies all tensors of the adapter. A tensor that two layer adapters share stays shared.
void copy_tensors(Adapter& adapter) {
  std::vector<std::pair<at::Tensor, at::Tensor>> known;
  for (auto& layer_adapters : adapter.layer_adapters)
    for (LayerAdapterPointer& layer_adapter : layer_adapters) {
      auto old = layer_adapter->tensors();
      if (old.empty()) continue;
      auto twin = std::find_if(known.begin(), known.end(), [&](const auto& pair) {
        return old[0].first.empty() && pair.first.const_data_ptr() == old[0].second.const_data_ptr();
      });
      if (twin != known.end()) {
        layer_adapter = layer_adapter->with({twin->second});
        continue;
      }
      layer_adapter = layer_adapter->prepacked_copy();
      auto now = layer_adapter->tensors();
      for (size_t i = 0; i < old.size(); ++i) known.emplace_back(old[i].second, now[i].second);
    }
}

constexpr int64_t kMinFlatSize = 2;  // Sizes 0 and 1 would be recorded as separate graphs.

}  // namespace

FlatParameters::FlatParameters() : tensor_(at::zeros({kMinFlatSize}, at::kFloat)) {}

void FlatParameters::set_parameters(const std::vector<FlatSlice>& slices, int64_t size) {
  at::NoGradGuard no_grad;
  int64_t count = 0;
  for (const FlatSlice& slice : slices) count += slice.tensor.numel();
  // Only parameters are rounded up: a use count must not double the size of parameters whose number is a power of two.
  int64_t needed = std::max(size, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count))));
  at::Tensor memory = at::zeros({std::max(tensor_.numel(), needed)}, at::kFloat);
  leaves_.clear();
  for (const FlatSlice& slice : slices) {
    leaves_.push_back(slice_of(memory, slice.first, slice.tensor.sizes()));
    leaves_.back().copy_(slice.tensor);
    leaves_.back().requires_grad_();
  }
  tensor_.set_data(memory);
  torch::autograd::impl::bump_version(tensor_);  // The backward of an older graph fails instead of reading the new parameters.
  torch::autograd::set_history(tensor_, c10::make_intrusive<SplitGradient>(slices, leaves_));
}

void TrainedParameters::set(std::vector<Parameter> parameters) {
  std::lock_guard lock(mutex_);
  parameters_ = std::move(parameters);
}

void TrainedParameters::gather() {
  std::lock_guard lock(mutex_);
  for (auto& [name, leaf, home] : parameters_) {
    if (leaf.const_data_ptr() == home.const_data_ptr()) continue;
    if (leaf.scalar_type() != home.scalar_type() || leaf.sizes() != home.sizes())
      throw UserError(ErrorCode::adapter, "the parameter " + name + " of an adapter in training was given data of another type or shape. " +
                                              "Give it f32 data of shape " + c10::str(home.sizes()) + ".");
    at::NoGradGuard no_grad;
    home.copy_(leaf);
    leaf.set_data(home);
  }
}

Training::Training(const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    auto twin = std::find_if(layers.data(), &layer, [&](const Layer& other) { return other.base.weight.is_alias_of(layer.base.weight); });
    flat_of_.push_back(twin == &layer ? flats_.size() : flat_of_[static_cast<size_t>(twin - layers.data())]);
    if (twin == &layer) flats_.emplace_back();
  }
}

std::vector<at::Tensor> Training::flat_tensors() const {
  std::vector<at::Tensor> out;
  for (size_t flat : flat_of_) out.push_back(flats_[flat].tensor());
  return out;
}

std::vector<std::string> Training::names() const {
  std::vector<std::string> out;
  for (const auto& [name, leaves] : leaves_) out.push_back(name);
  return out;
}

std::vector<AdapterPointer> Training::train(const std::vector<AdapterPointer>& wanted, const std::vector<AdapterPointer>& before,
                                            const std::vector<Layer>& layers) {
  for (const AdapterPointer& adapter : wanted) {
    for (const auto& layer_adapters : adapter->layer_adapters)
      for (const LayerAdapterPointer& layer_adapter : layer_adapters)
        for (const auto& [name, tensor] : layer_adapter->tensors())
          if (tensor.scalar_type() != at::kFloat)
            throw UserError(ErrorCode::adapter,
                            "the adapter \"" + adapter->name + "\" is not f32, and only f32 adapters can be trained. Save it in F32.");
  }
  parameters_->gather();
  // Adapters that are no longer trained keep their values in memory of their own.
  std::vector<std::shared_ptr<Adapter>> out;
  for (const AdapterPointer& adapter : before) {
    auto copied = std::make_shared<Adapter>(*adapter);
    copied->trained.clear();
    copy_tensors(*copied);
    out.push_back(std::move(copied));
  }
  leaves_.clear();
  std::vector<std::shared_ptr<Adapter>> training;
  for (const AdapterPointer& adapter : wanted) {
    auto known = std::find_if(out.begin(), out.end(), [&](const auto& other) { return other->name == adapter->name; });
    if (known == out.end()) known = out.insert(out.end(), std::make_shared<Adapter>(*adapter));
    training.push_back(*known);
    training.back()->trained.assign(layers.size(), {});
    leaves_[adapter->name];
  }
  std::vector<std::vector<FlatSlice>> slices_of_flat(flats_.size());
  std::vector<int64_t> ends(flats_.size(), 0);
  for (size_t i = 0; i < layers.size(); ++i)
    for (const auto& adapter : training)
      for (const LayerAdapterPointer& layer_adapter : adapter->layer_adapters[i]) {
        auto tensors = layer_adapter->tensors();
        size_t flat = flat_of_[i];
        adapter->trained[i].push_back(ends[flat]);
        if (tensors.empty()) continue;
        auto twin = std::find_if(slices_of_flat[flat].begin(), slices_of_flat[flat].end(),
                                 [&](const FlatSlice& known) { return known.tensor.is_same(tensors[0].second); });
        if (tensors[0].first.empty() && twin != slices_of_flat[flat].end()) {
          adapter->trained[i].back() = twin->first;
          continue;
        }
        size_t begin = slices_of_flat[flat].size();
        for (const auto& [name, tensor] : tensors) {
          slices_of_flat[flat].push_back({tensor, ends[flat], /*use_count=*/-1, layer_adapter->constraint()});
          ends[flat] += tensor.numel();
        }
        std::optional<double> skips = layer_adapter->skip_probability();
        if (!skips) continue;
        // The use count has its element even if the probability is 0, so that graphs do not depend on the probability.
        int64_t use_count = ends[flat]++;
        for (size_t k = begin; *skips > 0 && k < slices_of_flat[flat].size(); ++k) slices_of_flat[flat][k].use_count = use_count;
      }
  for (size_t flat = 0; flat < flats_.size(); ++flat) flats_[flat].set_parameters(slices_of_flat[flat], ends[flat]);
  std::vector<TrainedParameters::Parameter> parameters;
  for (size_t i = 0; i < layers.size(); ++i)
    for (const auto& adapter : training)
      for (size_t k = 0; k < adapter->layer_adapters[i].size(); ++k) {
        LayerAdapterPointer& layer_adapter = adapter->layer_adapters[i][k];
        const auto& known = slices_of_flat[flat_of_[i]];
        auto slice = std::find_if(known.begin(), known.end(), [&](const FlatSlice& p) { return p.first == adapter->trained[i][k]; });
        std::vector<at::Tensor> slices;
        for (const auto& [name, tensor] : layer_adapter->tensors()) {
          const at::Tensor& leaf = flats_[flat_of_[i]].leaves()[static_cast<size_t>(slice++ - known.begin())];
          slices.push_back(leaf.detach());
          if (name.empty()) continue;
          leaves_[adapter->name].emplace_back(layers[i].path + "." + name, leaf);
          parameters.push_back({layers[i].path + "." + name, leaf, slices.back()});
        }
        layer_adapter = layer_adapter->with(slices);
      }
  parameters_->set(std::move(parameters));
  return {out.begin(), out.end()};
}

}  // namespace tenon::adapters
