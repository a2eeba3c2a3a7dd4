#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/TensorOperators.h>

#include "adapters/lora/lora.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

// y + scale B A x.
class Lora : public Part {
 public:
  Lora(at::Tensor a, at::Tensor b, double scale) : a_(std::move(a)), b_(std::move(b)), scale_(scale) {}

  std::vector<Slot> slots() override { return {{"lora_A.weight", &a_}, {"lora_B.weight", &b_}}; }
  bool adds() const override { return true; }
  at::Tensor finish(const at::Tensor& y, const at::Tensor& x, const at::Tensor&, const Layer& layer, double factor) const override {
    return (y + added(x, layer) * (scale_ * factor)).to(y.scalar_type());
  }
  Base merged(const Layer& layer, double factor) const override {
    return {layer.base.weight + delta(layer, factor).to(layer.base.weight.scalar_type()), layer.base.bias};
  }
  // What is added to the layer's result, but for the scale; and to its weight.
  virtual at::Tensor added(const at::Tensor& x, const Layer& layer) const = 0;
  virtual at::Tensor delta(const Layer& layer, double factor) const = 0;
  double scale() const { return scale_; }

 protected:
  at::Tensor a_, b_;
  double scale_;
};

// With a bias on B, or without.
class BiasedLora : public Lora {
 public:
  BiasedLora(at::Tensor a, at::Tensor b, at::Tensor bias, double scale) : Lora(std::move(a), std::move(b), scale), bias_(std::move(bias)) {}

  std::vector<Slot> slots() override {
    std::vector<Slot> out = Lora::slots();
    if (bias_.defined()) out.push_back({"lora_B.bias", &bias_});
    return out;
  }
  Base merged(const Layer& layer, double factor) const override {
    Base out = Lora::merged(layer, factor);
    if (!bias_.defined()) return out;
    if (!layer.base.bias.defined())
      throw UserError(ErrorCode::adapter,
                      layer.path + " has no bias that lora_bias could be merged into. Use the adapter without merging.");
    out.bias = layer.base.bias + (bias_ * (scale_ * factor)).to(layer.base.bias.scalar_type());
    return out;
  }

 protected:
  at::Tensor bias_;  // Of B; may be undefined.
};

class LoraLinear : public PartOf<LoraLinear, BiasedLora> {
 public:
  using PartOf::PartOf;
  bool has_low_rank() const override { return !bias_.defined() && a_.scalar_type() == at::kFloat; }
  LowRank low_rank(double factor) const override { return {a_, b_, {}, {}, scale_ * factor}; }
  at::Tensor added(const at::Tensor& x, const Layer&) const override {
    return at::linear(at::linear(x.to(a_.scalar_type()), a_), b_, bias_);
  }
  at::Tensor delta(const Layer& layer, double factor) const override {
    at::Tensor out = b_.matmul(a_) * (scale_ * factor);
    return layer.kind == Kind::turned_linear ? out.t() : out;
  }

 protected:
  // As the loop for low ranks reads them.
  void settle() override { a_ = by_columns(a_), b_ = by_columns(b_); }
};

class LoraEmbedding : public PartOf<LoraEmbedding, Lora> {
 public:
  using PartOf::PartOf;
  std::vector<Slot> slots() override { return {{"lora_embedding_A", &a_}, {"lora_embedding_B", &b_}}; }
  at::Tensor added(const at::Tensor& ids, const Layer&) const override { return at::linear(at::embedding(a_.t(), ids), b_); }
  at::Tensor delta(const Layer&, double factor) const override { return (b_.matmul(a_) * (scale_ * factor)).t(); }
};

class LoraConv2d : public PartOf<LoraConv2d, BiasedLora> {
 public:
  using PartOf::PartOf;
  at::Tensor added(const at::Tensor& x, const Layer& layer) const override {
    return at::conv2d(at::conv2d(x.to(a_.scalar_type()), a_, {}, layer.stride, layer.padding), b_, bias_);
  }
  at::Tensor delta(const Layer& layer, double factor) const override {
    return (b_.flatten(1).matmul(a_.flatten(1)) * (scale_ * factor)).view(layer.base.weight.sizes());
  }
};

// The weight with LoRA in it, each output scaled to a length that is trained. The bias is not scaled.
class Dora : public PartOf<Dora> {
 public:
  Dora(std::shared_ptr<const Lora> lora, at::Tensor magnitude) : lora_(std::move(lora)), magnitude_(std::move(magnitude)) {
    for (auto& [name, tensor] : lora_->tensors()) inner_.push_back({name, tensor});
  }

  std::vector<Slot> slots() override {
    std::vector<Slot> out;
    for (auto& [name, tensor] : inner_) out.push_back({name, &tensor});
    out.push_back({"lora_magnitude_vector", &magnitude_});
    return out;
  }
  bool acts_alone() const override { return true; }
  const char* method() const override { return "DoRA"; }
  bool uses_base(const Layer&) const override { return true; }
  // Trained length by present length, one an output. The present length is no function of what is trained, by definition.
  at::Tensor ready(const Layer& layer, double factor) const override {
    at::Tensor length;
    {
      at::NoGradGuard constant;
      at::Tensor weight = layer.base.weight.to(magnitude_.scalar_type()) + lora()->delta(layer, factor);
      length = at::linalg_vector_norm(weight.transpose(0, layer.outputs_dim()).flatten(1), 2, {1});
    }
    return magnitude_.flatten() / length;
  }
  at::Tensor finish(const at::Tensor& y, const at::Tensor& x, const at::Tensor& ready, const Layer& layer, double factor) const override {
    at::Tensor by = layer.along_outputs(ready), bias = layer.base.bias;
    if (bias.defined()) bias = layer.along_outputs(bias);
    at::Tensor without = bias.defined() ? y - bias : y;
    at::Tensor out = y + (by - 1) * without + by * (lora()->added(x, layer) * (lora_->scale() * factor));
    return out.to(y.scalar_type());
  }
  Base merged(const Layer& layer, double factor) const override {
    const at::Tensor& old = layer.base.weight;
    at::Tensor by = ready(layer, factor), weight = old + lora()->delta(layer, factor).to(old.scalar_type());
    std::vector<int64_t> sizes(static_cast<size_t>(weight.dim()), 1);
    sizes[static_cast<size_t>(layer.outputs_dim())] = by.numel();
    return {(by.view(sizes) * weight).to(old.scalar_type()), layer.base.bias};
  }

 private:
  // Over the tensors that this part has now.
  std::shared_ptr<const Lora> lora() const {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : inner_) tensors.push_back(tensor);
    return std::static_pointer_cast<const Lora>(lora_->with(tensors));
  }

  std::shared_ptr<const Lora> lora_;
  std::vector<std::pair<std::string, at::Tensor>> inner_;
  at::Tensor magnitude_;
};

std::shared_ptr<const Lora> make_plain(const LoraConfig& config, Files& files, const Layer& layer) {
  std::string at = kPrefix + layer.path + ".";
  auto sizes = layer.base.weight.sizes();
  int64_t r = config.rank(layer.path);
  double scale = config.scale(layer.path);
  auto bias = [&] { return config.bias_on_b ? files.take(at + "lora_B.bias", {layer.outputs()}) : at::Tensor(); };
  switch (layer.kind) {
    case Kind::linear:
    case Kind::turned_linear: {
      at::Tensor a = files.take_by_columns(at + "lora_A.weight", r, layer.inputs());
      at::Tensor b = files.take_by_columns(at + "lora_B.weight", layer.outputs(), r);
      return std::make_shared<LoraLinear>(a, b, bias(), scale);
    }
    case Kind::embedding: {
      if (config.bias_on_b) throw UserError(ErrorCode::adapter, layer.path + ": lora_bias does not go with an embedding");
      at::Tensor a = files.take(at + "lora_embedding_A", {r, sizes[0]});
      return std::make_shared<LoraEmbedding>(a, files.take(at + "lora_embedding_B", {sizes[1], r}), scale);
    }
    case Kind::conv2d: {
      at::Tensor a = files.take(at + "lora_A.weight", {r, sizes[1], sizes[2], sizes[3]});
      return std::make_shared<LoraConv2d>(a, files.take(at + "lora_B.weight", {sizes[0], r, 1, 1}), bias(), scale);
    }
    default:
      refuse_layer(layer, "LoRA");
  }
}

}  // namespace

PartPointer make_lora(const LoraConfig& config, Files& files, const Layer& layer) {
  auto lora = make_plain(config, files, layer);
  if (!config.dora) return lora;
  auto sizes = layer.base.weight.sizes();
  std::string name = kPrefix + layer.path + ".lora_magnitude_vector";
  if (layer.kind == Kind::conv2d) return std::make_shared<Dora>(lora, files.take(name, {1, sizes[0], 1, 1}));
  return std::make_shared<Dora>(lora, files.take(name, {layer.kind == Kind::embedding ? sizes[1] : layer.outputs()}));
}

}  // namespace tenon::adapters
