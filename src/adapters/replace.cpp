#include "adapters/replace.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/where.h>
#include <ATen/TensorOperators.h>

namespace tenon::adapters {

namespace {

class Replacement : public Cloneable<Replacement> {
 public:
  Replacement(Base base, std::string weight_name, std::string bias_name)
      : base_(std::move(base)), weight_name_(std::move(weight_name)), bias_name_(std::move(bias_name)) {}

  std::vector<TensorField> tensor_fields() override {
    std::vector<TensorField> out;
    if (base_.weight.defined() && !weight_name_.empty()) out.push_back({weight_name_, &base_.weight});
    if (base_.bias.defined()) out.push_back({bias_name_, &base_.bias});
    return out;
  }
  bool acts_alone() const override { return base_.weight.defined(); }
  const char* method() const override {
    if (!base_.weight.defined()) return "a trained bias";
    return weight_name_.starts_with("ln_tuning") ? "LN tuning" : "a copy of the layer (modules_to_save)";
  }
  bool has_scale() const override { return false; }
  std::optional<Base> replacement() const override { return base_; }
  bool is_additive() const override { return !base_.weight.defined(); }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor&, const at::Tensor&, const Layer&, double) const override { return y; }
  Base merged(const Layer& layer, double) const override {
    auto as = [](const at::Tensor& ours, const at::Tensor& theirs) { return ours.defined() ? ours.to(theirs.scalar_type()) : theirs; };
    return {as(base_.weight, layer.base.weight), as(base_.bias, layer.base.bias)};
  }

 private:
  Base base_;
  std::string weight_name_, bias_name_;
};

class Tokens : public Cloneable<Tokens> {
 public:
  Tokens(at::Tensor ids, at::Tensor rows, std::string name) : ids_(std::move(ids)), rows_(std::move(rows)), name_(std::move(name)) {}

  std::vector<TensorField> tensor_fields() override { return {{name_, &rows_}}; }
  bool acts_alone() const override { return true; }
  bool has_scale() const override { return false; }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor&, const Layer& layer, double) const override {
    if (layer.is_linear()) {
      at::Tensor bias = layer.base.bias;
      if (bias.defined()) bias = bias.index_select(0, ids_).to(rows_.scalar_type());
      return y.index_copy(-1, ids_, at::linear(x.to(rows_.scalar_type()), rows_, bias).to(y.scalar_type()));
    }
    at::Tensor is_one = x.unsqueeze(-1).eq(ids_);
    at::Tensor ours = rows_.index_select(0, is_one.to(at::kLong).argmax(-1).flatten()).view_as(y).to(y.scalar_type());
    return at::where(is_one.any(-1, /*keepdim=*/true), ours, y);
  }
  Base merged(const Layer& layer, double) const override {
    return {layer.base.weight.index_copy(0, ids_, rows_.to(layer.base.weight.scalar_type())), layer.base.bias};
  }

 private:
  at::Tensor ids_, rows_;
  std::string name_;
};

}  // namespace

LayerAdapterPointer make_replacement(Base base, std::string weight_name, std::string bias_name) {
  return std::make_shared<Replacement>(std::move(base), std::move(weight_name), std::move(bias_name));
}

LayerAdapterPointer make_tokens(at::Tensor ids, at::Tensor rows, std::string name) {
  return std::make_shared<Tokens>(std::move(ids), std::move(rows), std::move(name));
}

}  // namespace tenon::adapters
