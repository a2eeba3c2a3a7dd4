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
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tenon::adapters {

namespace {

// A tensor over a piece of another's memory; autograd knows nothing of it.
at::Tensor piece_of(const at::Tensor& whole, int64_t first, at::IntArrayRef sizes) {
  at::NoGradGuard no_grad;
  at::Tensor out = at::empty({0}, whole.options());
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return out.set_(whole.storage(), first, sizes, strides);
}

// Backward of the flat tensor as a function of its parts.
class SplitGradient : public torch::autograd::Node {
 public:
  explicit SplitGradient(const std::vector<at::Tensor>& parts) {
    for (const at::Tensor& part : parts) {
      add_next_edge(torch::autograd::impl::gradient_edge(part));
      sizes_.push_back(part.sizes().vec());
    }
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    at::NoGradGuard no_grad;
    torch::autograd::variable_list out(sizes_.size());
    if (!grads[0].defined()) return out;
    at::Tensor whole = grads[0].contiguous();
    int64_t first = whole.storage_offset();
    for (size_t i = 0; i < sizes_.size(); ++i) {
      out[i] = piece_of(whole, first, sizes_[i]);  // Not a view: optimizers detach gradients in place.
      first += out[i].numel();
    }
    return out;
  }

 private:
  std::vector<std::vector<int64_t>> sizes_;
};

// Copies of all tensors; what is one tensor in two parts stays one.
void settle(Adapter& adapter) {
  std::vector<std::pair<at::Tensor, at::Tensor>> known;
  for (auto& parts : adapter.parts)
    for (PartPointer& part : parts) {
      auto old = part->tensors();
      if (old.empty()) continue;
      auto twin = std::find_if(known.begin(), known.end(), [&](const auto& pair) {
        return old[0].first.empty() && pair.first.const_data_ptr() == old[0].second.const_data_ptr();
      });
      if (twin != known.end()) {
        part = part->with({twin->second});
        continue;
      }
      part = part->settled();
      auto now = part->tensors();
      for (size_t i = 0; i < old.size(); ++i) known.emplace_back(old[i].second, now[i].second);
    }
}

// No method drops anything yet.
void refuse_dropout(const Adapter& adapter) {
  const auto config = nlohmann::json::parse(adapter.config);
  for (const auto& [field, value] : config.items())
    if (field.ends_with("dropout") && value.is_number() && value != 0)
      throw UserError(ErrorCode::adapter, "the adapter \"" + adapter.name + "\" asks for " + field + " " + value.dump() +
                                              ", which training does not support; make it 0 in adapter_config.json");
}

constexpr int64_t kLeast = 2;  // sizes 0 and 1 would be programs of their own

}  // namespace

Flat::Flat() : whole_(at::zeros({kLeast}, at::kFloat)) {}

void Flat::lay_out(const std::vector<at::Tensor>& parts) {
  at::NoGradGuard no_grad;
  int64_t count = 0;
  for (const at::Tensor& part : parts) count += part.numel();
  int64_t room = std::max(whole_.numel(), static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count))));
  at::Tensor memory = at::zeros({room}, at::kFloat);
  parts_.clear();
  int64_t first = 0;
  for (const at::Tensor& part : parts) {
    parts_.push_back(piece_of(memory, first, part.sizes()));
    parts_.back().copy_(part);
    parts_.back().requires_grad_();
    first += part.numel();
  }
  whole_.set_data(memory);
  torch::autograd::impl::bump_version(whole_);  // a backward of before is refused
  torch::autograd::set_history(whole_, c10::make_intrusive<SplitGradient>(parts_));
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
      throw UserError(ErrorCode::adapter, "the parameter " + name + " of an adapter that trains was given data of another type or shape. " +
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

std::vector<at::Tensor> Training::wholes() const {
  std::vector<at::Tensor> out;
  for (size_t flat : flat_of_) out.push_back(flats_[flat].whole());
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
    refuse_dropout(*adapter);
    for (const auto& parts : adapter->parts)
      for (const PartPointer& part : parts)
        for (const auto& [name, tensor] : part->tensors())
          if (tensor.scalar_type() != at::kFloat)
            throw UserError(ErrorCode::adapter, "the adapter \"" + adapter->name + "\" is not f32, which alone trains");
  }
  parameters_->gather();
  // Those that trained keep what they learnt, in memory of their own.
  std::vector<std::shared_ptr<Adapter>> out;
  for (const AdapterPointer& adapter : before) {
    auto settled = std::make_shared<Adapter>(*adapter);
    settled->trained.clear();
    settle(*settled);
    out.push_back(std::move(settled));
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
  struct Place {
    at::Tensor tensor;
    int64_t first;
  };
  std::vector<std::vector<Place>> places(flats_.size());
  std::vector<int64_t> ends(flats_.size(), 0);
  for (size_t i = 0; i < layers.size(); ++i)
    for (const auto& adapter : training)
      for (const PartPointer& part : adapter->parts[i]) {
        auto tensors = part->tensors();
        size_t flat = flat_of_[i];
        adapter->trained[i].push_back(ends[flat]);
        if (tensors.empty()) continue;
        auto twin = std::find_if(places[flat].begin(), places[flat].end(),
                                 [&](const Place& place) { return place.tensor.is_same(tensors[0].second); });
        if (tensors[0].first.empty() && twin != places[flat].end()) {
          adapter->trained[i].back() = twin->first;
          continue;
        }
        for (const auto& [name, tensor] : tensors) {
          places[flat].push_back({tensor, ends[flat]});
          ends[flat] += tensor.numel();
        }
      }
  for (size_t flat = 0; flat < flats_.size(); ++flat) {
    std::vector<at::Tensor> tensors;
    for (const Place& place : places[flat]) tensors.push_back(place.tensor);
    flats_[flat].lay_out(tensors);
  }
  std::vector<TrainedParameters::Parameter> parameters;
  for (size_t i = 0; i < layers.size(); ++i)
    for (const auto& adapter : training)
      for (size_t k = 0; k < adapter->parts[i].size(); ++k) {
        PartPointer& part = adapter->parts[i][k];
        const auto& known = places[flat_of_[i]];
        auto place = std::find_if(known.begin(), known.end(), [&](const Place& p) { return p.first == adapter->trained[i][k]; });
        std::vector<at::Tensor> pieces;
        for (const auto& [name, tensor] : part->tensors()) {
          const at::Tensor& leaf = flats_[flat_of_[i]].parts()[static_cast<size_t>(place++ - known.begin())];
          pieces.push_back(leaf.detach());
          if (name.empty()) continue;
          leaves_[adapter->name].emplace_back(layers[i].path + "." + name, leaf);
          parameters.push_back({layers[i].path + "." + name, leaf, pieces.back()});
        }
        part = part->with(pieces);
      }
  parameters_->set(std::move(parameters));
  return {out.begin(), out.end()};
}

}  // namespace tenon::adapters
