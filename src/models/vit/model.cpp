#include "models/vit/model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>

#include "base/error.h"
#include "models/inputs.h"

namespace tenon::models {

namespace {

class VitPatches : public Module {
 public:
  VitPatches(const VitConfig& c, const Weights& from) : projection_(from / "projection", c.channels, c.width, c.patch, c.patch, 0, true) {
    put_child("projection", projection_);
  }
  at::Tensor forward(const at::Tensor& pixels) const { return projection_.forward(pixels).flatten(2).transpose(1, 2); }

 private:
  Conv2d projection_;
};

class VitEmbeddings : public Module {
 public:
  VitEmbeddings(const VitConfig& c, const Weights& from)
      : dropout_(c.dropout),
        cls_token_(put_parameter("cls_token", from.take("cls_token", {1, 1, c.width}))),
        position_embeddings_(put_parameter("position_embeddings",
                                           from.take("position_embeddings", {1, (c.image / c.patch) * (c.image / c.patch) + 1, c.width}))),
        patch_embeddings_(c, from / "patch_embeddings") {
    put_child("patch_embeddings", patch_embeddings_);
  }
  at::Tensor forward(const at::Tensor& pixels) const {
    at::Tensor x = patch_embeddings_.forward(pixels.to(cls_token_.scalar_type()));
    x = at::cat({cls_token_.expand({x.size(0), -1, -1}), x}, 1) + position_embeddings_;
    return at::dropout(x, dropout_, is_training());
  }

 private:
  double dropout_;
  at::Tensor &cls_token_, &position_embeddings_;
  VitPatches patch_embeddings_;
};

class VitAttention : public Module {
 public:
  VitAttention(const VitConfig& c, const Weights& from)
      : head_size_(c.width / c.heads),
        dropout_(c.attention_dropout),
        q_proj_(from / "q_proj", c.width, c.width, c.qkv_bias),
        k_proj_(from / "k_proj", c.width, c.width, c.qkv_bias),
        v_proj_(from / "v_proj", c.width, c.width, c.qkv_bias),
        o_proj_(from / "o_proj", c.width, c.width, true) {
    put_child("q_proj", q_proj_), put_child("k_proj", k_proj_), put_child("v_proj", v_proj_), put_child("o_proj", o_proj_);
  }
  at::Tensor forward(const at::Tensor& x) const {
    auto heads = [&](const Linear& product) { return split_heads(product.forward(x), head_size_); };
    at::Tensor q = heads(q_proj_), k = heads(k_proj_), v = heads(v_proj_);  // The order of the products is that of their dropout masks.
    return o_proj_.forward(merge_heads(attend(q, k, v, {}, /*causal=*/false, is_training() ? dropout_ : 0)));
  }

 private:
  int64_t head_size_;
  double dropout_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
};

class VitMlp : public Module {
 public:
  VitMlp(const VitConfig& c, const Weights& from)
      : act_(c.act), fc1_(from / "fc1", c.width, c.inner, true), fc2_(from / "fc2", c.inner, c.width, true) {
    put_child("fc1", fc1_), put_child("fc2", fc2_);
  }
  at::Tensor forward(const at::Tensor& x) const { return fc2_.forward(act_(fc1_.forward(x))); }

 private:
  Activation act_;
  Linear fc1_, fc2_;
};

class VitLayer : public Module {
 public:
  VitLayer(const VitConfig& c, const Weights& from)
      : dropout_(c.dropout),
        attention_(c, from / "attention"),
        layernorm_before_(from / "layernorm_before", c.width, c.epsilon),
        layernorm_after_(from / "layernorm_after", c.width, c.epsilon),
        mlp_(c, from / "mlp") {
    put_child("attention", attention_), put_child("layernorm_before", layernorm_before_);
    put_child("layernorm_after", layernorm_after_), put_child("mlp", mlp_);
  }
  at::Tensor forward(const at::Tensor& x) const {
    at::Tensor h = at::dropout(attention_.forward(layernorm_before_.forward(x)), dropout_, is_training()) + x;
    return at::dropout(mlp_.forward(layernorm_after_.forward(h)), dropout_, is_training()) + h;
  }

 private:
  double dropout_;
  VitAttention attention_;
  LayerNorm layernorm_before_, layernorm_after_;
  VitMlp mlp_;
};

class VitBody : public Module {
 public:
  VitBody(const VitConfig& c, const Weights& from)
      : embeddings_(c, from / "embeddings"), layernorm_(from / "layernorm", c.width, c.epsilon) {
    for (int64_t i = 0; i < c.layers; ++i) layers_.add(c, from / "layers" / i);
    put_child("embeddings", embeddings_), put_child("layers", layers_), put_child("layernorm", layernorm_);
  }
  at::Tensor forward(const at::Tensor& pixels) const {
    at::Tensor x = embeddings_.forward(pixels);
    for (const auto& layer : layers_) x = layer->forward(x);
    return layernorm_.forward(x);
  }

 private:
  VitEmbeddings embeddings_;
  ModuleList<VitLayer> layers_;
  LayerNorm layernorm_;
};

class Vit : public Model {
 public:
  Vit(const VitConfig& c, const Weights& from)
      : image_(c.image), channels_(c.channels), vit_(c, from / "vit"), classifier_(from / "classifier", c.width, c.labels, true) {
    put_child("vit", vit_), put_child("classifier", classifier_);
  }
  at::Tensor compute(const at::Tensor& pixels, const at::Tensor&, const at::Tensor&) override {
    check_pixels(pixels, channels_);
    if (pixels.size(2) != image_ || pixels.size(3) != image_)
      throw UserError(ErrorCode::shape, "a ViT for images of " + std::to_string(image_) + " x " + std::to_string(image_) +
                                            " pixels was given a tensor of another shape. Resize the images.");
    return classifier_.forward(vit_.forward(pixels).select(1, 0));
  }
  std::string file_name(const std::string& name) const override { return vit_file_name(name); }

 private:
  int64_t image_, channels_;
  VitBody vit_;
  Linear classifier_;
};

}  // namespace

std::shared_ptr<Model> make_vit(const Fields& fields, const Weights& weights) {
  return std::make_shared<Vit>(read_vit_config(fields), weights.renamed(vit_file_name));
}

}  // namespace tenon::models
