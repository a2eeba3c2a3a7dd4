#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/TensorOperators.h>

#include "adapters/input_dropout.h"
#include "adapters/lora/lora.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

// Computes y + scale B A x.
class Lora : public LayerAdapter {
 public:
  Lora(at::Tensor a, at::Tensor b, double scale) : a_(std::move(a)), b_(std::move(b)), scale_(scale) {}

  std::vector<TensorField> tensor_fields() override { return {{"lora_A.weight", &a_}, {"lora_B.weight", &b_}}; }
  bool is_additive() const override { return true; }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor&, const Layer& layer,
                             double factor) const override {
    return (y + added(x, layer) * (scale_ * factor)).to(y.scalar_type());
  }
  Base merged(const Layer& layer, double factor) const override {
    return {layer.base.weight + delta(layer, factor).to(layer.base.weight.scalar_type()), layer.base.bias};
  }
  // added() returns the term that is added to the layer's result, without the scale; delta() the matrix that is added to its weight.
  virtual at::Tensor added(const at::Tensor& x, const Layer& layer) const = 0;
  virtual at::Tensor delta(const Layer& layer, double factor) const = 0;
  double scale() const { return scale_; }

  void set_dropout(double probability) { dropout_ = InputDropout(probability); }
  const InputDropout& dropout() const { return dropout_; }
  bool draws_in_training() const override { return dropout_.is_on(); }
  LayerAdapterPointer dropping(const at::Tensor& x, const Layer&, const at::Generator& generator) const override {
    auto out = copy();
    static_cast<Lora&>(*out).dropout_.draw(x, generator);
    return out;
  }
  at::Tensor drop_input(const at::Tensor& x) const override { return dropout_.apply(x); }

 protected:
  at::Tensor a_, b_;
  double scale_;
  InputDropout dropout_;
};

// LoRA with an optional bias on B.
class BiasedLora : public Lora {
 public:
  BiasedLora(at::Tensor a, at::Tensor b, at::Tensor bias, double scale) : Lora(std::move(a), std::move(b), scale), bias_(std::move(bias)) {}

  std::vector<TensorField> tensor_fields() override {
    std::vector<TensorField> out = Lora::tensor_fields();
    if (bias_.defined()) out.push_back({"lora_B.bias", &bias_});
    return out;
  }
  Base merged(const Layer& layer, double factor) const override {
    Base out = Lora::merged(layer, factor);
    if (!bias_.defined()) return out;
    if (!layer.base.bias.defined())
      throw UserError(ErrorCode::adapter, layer.path + " has no bias that lora_bias can be merged into. Use the adapter without merging.");
    out.bias = layer.base.bias + (bias_ * (scale_ * factor)).to(layer.base.bias.scalar_type());
    return out;
  }

 protected:
  at::Tensor bias_;  // The bias of B; may be undefined.
};

class LoraLinear : public Cloneable<LoraLinear, BiasedLora> {
 public:
  using Cloneable::Cloneable;
  bool has_low_rank() const override { return !bias_.defined() && a_.scalar_type() == at::kFloat; }
  LowRank low_rank(double factor) const override { return {a_, b_, {}, {}, scale_ * factor}; }
  at::Tensor added(const at::Tensor& x, const Layer&) const override {
    return at::linear(at::linear(drop_input(x.to(a_.scalar_type())), a_), b_, bias_);
  }
  at::Tensor delta(const Layer& layer, double factor) const override {
    at::Tensor out = b_.matmul(a_) * (scale_ * factor);
    return layer.kind == LayerKind::conv1d ? out.t() : out;
  }

 protected:
  // The low-rank kernel reads column-major factors.
  void prepack() override { a_ = to_column_major(a_), b_ = to_column_major(b_); }
};

class LoraEmbedding : public Cloneable<LoraEmbedding, Lora> {
 public:
  using Cloneable::Cloneable;
  std::vector<TensorField> tensor_fields() override { return {{"lora_embedding_A", &a_}, {"lora_embedding_B", &b_}}; }
  at::Tensor added(const at::Tensor& ids, const Layer&) const override { return at::linear(at::embedding(a_.t(), ids), b_); }
  at::Tensor delta(const Layer&, double factor) const override { return (b_.matmul(a_) * (scale_ * factor)).t(); }
};

class LoraConv2d : public Cloneable<LoraConv2d, BiasedLora> {
 public:
  using Cloneable::Cloneable;
  at::Tensor added(const at::Tensor& x, const Layer& layer) const override {
    return at::conv2d(at::conv2d(drop_input(x.to(a_.scalar_type())), a_, {}, layer.stride, layer.padding), b_, bias_);
  }
  at::Tensor delta(const Layer& layer, double factor) const override {
    return (b_.flatten(1).matmul(a_.flatten(1)) * (scale_ * factor)).view(layer.base.weight.sizes());
  }
};

// DoRA: the weight with LoRA merged, with each output's vector scaled to a trained norm. The bias is not scaled.
class Dora : public Cloneable<Dora> {
 public:
  Dora(std::shared_ptr<const Lora> lora, at::Tensor magnitude)
      : lora_(std::move(lora)), magnitude_(std::move(magnitude)), dropout_(lora_->dropout()) {
    for (auto& [name, tensor] : lora_->tensors()) inner_.push_back({name, tensor});
  }

  std::vector<TensorField> tensor_fields() override {
    std::vector<TensorField> out;
    for (auto& [name, tensor] : inner_) out.push_back({name, &tensor});
    out.push_back({"lora_magnitude_vector", &magnitude_});
    return out;
  }
  bool acts_alone() const override { return true; }
  const char* method() const override { return "DoRA"; }
  bool uses_base(const Layer&) const override { return true; }
  // Returns the trained norm divided by the current norm of each output. DoRA defines the current norm as a constant for gradients.
  at::Tensor prepare(const Layer& layer, double factor) const override {
    at::Tensor length;
    {
      at::NoGradGuard constant;
      at::Tensor weight = layer.base.weight.to(magnitude_.scalar_type()) + lora()->delta(layer, factor);
      length = at::linalg_vector_norm(weight.transpose(0, layer.outputs_dim()).flatten(1), 2, {1});
    }
    return magnitude_.flatten() / length;
  }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor& prepared, const Layer& layer,
                             double factor) const override {
    at::Tensor by = layer.along_outputs(prepared), bias = layer.base.bias;
    if (dropout_.is_drawn()) {
      // The product of the base is computed again from what is left of the input, as PEFT does.
      at::Tensor left = dropout_.apply(x.to(magnitude_.scalar_type()));
      at::Tensor product = layer.over(layer.base.weight.to(left.scalar_type()), std::nullopt).run(left);
      return (y + ((by - 1) * product + by * (lora()->added(left, layer) * (lora_->scale() * factor)))).to(y.scalar_type());
    }
    if (bias.defined()) bias = layer.along_outputs(bias);
    at::Tensor without = bias.defined() ? y - bias : y;
    at::Tensor out = y + (by - 1) * without + by * (lora()->added(x, layer) * (lora_->scale() * factor));
    return out.to(y.scalar_type());
  }
  bool draws_in_training() const override { return dropout_.is_on(); }
  LayerAdapterPointer dropping(const at::Tensor& x, const Layer&, const at::Generator& generator) const override {
    auto out = copy();
    static_cast<Dora&>(*out).dropout_.draw(x, generator);
    return out;
  }
  Base merged(const Layer& layer, double factor) const override {
    const at::Tensor& old = layer.base.weight;
    at::Tensor by = prepare(layer, factor), weight = old + lora()->delta(layer, factor).to(old.scalar_type());
    std::vector<int64_t> sizes(static_cast<size_t>(weight.dim()), 1);
    sizes[static_cast<size_t>(layer.outputs_dim())] = by.numel();
    return {(by.view(sizes) * weight).to(old.scalar_type()), layer.base.bias};
  }

 private:
  // Returns the LoRA adapter over this object's current tensors.
  std::shared_ptr<const Lora> lora() const {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : inner_) tensors.push_back(tensor);
    return std::static_pointer_cast<const Lora>(lora_->with(tensors));
  }

  std::shared_ptr<const Lora> lora_;
  std::vector<std::pair<std::string, at::Tensor>> inner_;
  at::Tensor magnitude_;
  InputDropout dropout_;
};

std::shared_ptr<const Lora> make_plain(const LoraFields& config, Files& files, const Layer& layer) {
  std::string at = kPrefix + layer.path + ".";
  auto sizes = layer.base.weight.sizes();
  int64_t r = config.rank(layer.path);
  double scale = config.scale(layer.path);
  auto with_dropout = [&](auto lora) -> std::shared_ptr<const Lora> {
    lora.set_dropout(config.dropout);
    return std::make_shared<decltype(lora)>(std::move(lora));
  };
  auto bias = [&] { return config.bias_on_b ? files.take(at + "lora_B.bias", {layer.outputs()}) : at::Tensor(); };
  switch (layer.kind) {
    case LayerKind::linear:
    case LayerKind::conv1d: {
      at::Tensor a = files.take_column_major(at + "lora_A.weight", r, layer.inputs());
      at::Tensor b = files.take_column_major(at + "lora_B.weight", layer.outputs(), r);
      return with_dropout(LoraLinear(a, b, bias(), scale));
    }
    case LayerKind::embedding: {
      if (config.bias_on_b) throw UserError(ErrorCode::adapter, layer.path + ": lora_bias is not supported for an embedding");
      at::Tensor a = files.take(at + "lora_embedding_A", {r, sizes[0]});
      return std::make_shared<LoraEmbedding>(a, files.take(at + "lora_embedding_B", {sizes[1], r}), scale);
    }
    case LayerKind::conv2d: {
      at::Tensor a = files.take(at + "lora_A.weight", {r, sizes[1], sizes[2], sizes[3]});
      at::Tensor b = files.take(at + "lora_B.weight", {sizes[0], r, 1, 1});
      return with_dropout(LoraConv2d(a, b, bias(), scale));
    }
    default:
      refuse_layer(layer, "LoRA");
  }
}

}  // namespace

LayerAdapterPointer make_lora(const LoraFields& config, Files& files, const Layer& layer) {
  auto lora = make_plain(config, files, layer);
  if (!config.dora) return lora;
  auto sizes = layer.base.weight.sizes();
  std::string name = kPrefix + layer.path + ".lora_magnitude_vector";
  if (layer.kind == LayerKind::conv2d) return std::make_shared<Dora>(lora, files.take(name, {1, sizes[0], 1, 1}));
  return std::make_shared<Dora>(lora, files.take(name, {layer.kind == LayerKind::embedding ? sizes[1] : layer.outputs()}));
}

}  // namespace tenon::adapters
