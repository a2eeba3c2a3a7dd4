#include "models/resnet/model.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

#include "models/inputs.h"

namespace tenon::models {

namespace {

// A convolution, a batch norm and an optional activation.
class ResnetConv : public Module {
 public:
  ResnetConv(const Weights& from, int64_t in, int64_t out, int64_t kernel, int64_t stride, Activation act)
      : act_(act),
        convolution_(from / "convolution", in, out, kernel, stride, kernel / 2, /*has_bias=*/false),
        normalization_(from / "normalization", out) {
    put_child("convolution", convolution_), put_child("normalization", normalization_);
  }
  at::Tensor forward(const at::Tensor& x) const {
    at::Tensor y = normalization_.forward(convolution_.forward(x));
    return act_ ? act_(y) : y;
  }

 private:
  Activation act_;
  Conv2d convolution_;
  BatchNorm normalization_;
};

class ResnetBlock : public Module {
 public:
  ResnetBlock(const ResnetConfig& c, const Weights& from, int64_t in, int64_t out, int64_t stride) : act_(c.act) {
    Weights inside = from / "layer";
    if (c.bottleneck) {
      int64_t narrow = out / 4;
      layer_.add(inside / 0, in, narrow, 1, c.downsample_in_bottleneck ? stride : 1, c.act);
      layer_.add(inside / 1, narrow, narrow, 3, c.downsample_in_bottleneck ? 1 : stride, c.act);
      layer_.add(inside / 2, narrow, out, 1, 1, nullptr);
    } else {
      layer_.add(inside / 0, in, out, 3, stride, c.act);
      layer_.add(inside / 1, out, out, 3, 1, nullptr);
    }
    if (in != out || stride != 1) {
      shortcut_ = std::make_unique<ResnetConv>(from / "shortcut", in, out, 1, stride, nullptr);
      put_child("shortcut", *shortcut_);
    }
    put_child("layer", layer_);
  }
  at::Tensor forward(const at::Tensor& x) const {
    at::Tensor y = x;
    for (const auto& convolution : layer_) y = convolution->forward(y);
    return act_(y + (shortcut_ ? shortcut_->forward(x) : x));
  }

 private:
  Activation act_;
  ModuleList<ResnetConv> layer_;
  std::unique_ptr<ResnetConv> shortcut_;
};

class ResnetStage : public Module {
 public:
  ResnetStage(const ResnetConfig& c, const Weights& from, int64_t in, int64_t out, int64_t stride, int64_t depth) {
    for (int64_t i = 0; i < depth; ++i) layers_.add(c, from / "layers" / i, i ? out : in, out, i ? 1 : stride);
    put_child("layers", layers_);
  }
  at::Tensor forward(at::Tensor x) const {
    for (const auto& block : layers_) x = block->forward(x);
    return x;
  }

 private:
  ModuleList<ResnetBlock> layers_;
};

// A module whose only purpose is to give its child a name.
template <class M>
class OneChild : public Module {
 public:
  template <class... Args>
  explicit OneChild(const std::string& name, Args&&... args) : inner(std::forward<Args>(args)...) {
    put_child(name, inner);
  }
  M inner;
};

class ResnetBody : public Module {
 public:
  ResnetBody(const ResnetConfig& c, const Weights& from)
      : embedder_("embedder", from / "embedder" / "embedder", c.channels, c.embedding, 7, 2, c.act), encoder_("stages") {
    int64_t in = c.embedding;
    for (size_t i = 0; i < c.widths.size(); ++i) {
      encoder_.inner.add(c, from / "encoder" / "stages" / static_cast<int64_t>(i), in, c.widths[i],
                         i > 0 || c.downsample_in_first_stage ? 2 : 1, c.depths[i]);
      in = c.widths[i];
    }
    put_child("embedder", embedder_), put_child("encoder", encoder_);
  }
  at::Tensor forward(const at::Tensor& pixels) const {
    at::Tensor x = at::max_pool2d(embedder_.inner.forward(pixels), 3, 2, 1);
    for (const auto& stage : encoder_.inner) x = stage->forward(x);
    return at::adaptive_avg_pool2d(x, {1, 1});
  }

 private:
  OneChild<ResnetConv> embedder_;
  OneChild<ModuleList<ResnetStage>> encoder_;
};

class Resnet : public Model {
 public:
  Resnet(const ResnetConfig& c, const Weights& from)
      : channels_(c.channels), resnet_(c, from / "resnet"), classifier_("1", from / "classifier" / 1, c.widths.back(), c.labels, true) {
    put_child("resnet", resnet_), put_child("classifier", classifier_);
  }
  at::Tensor compute(const at::Tensor& pixels, const at::Tensor&, const at::Tensor&) override {
    check_pixels(pixels, channels_);
    at::Tensor x = resnet_.forward(pixels.to(classifier_.inner.weight.scalar_type()));
    return classifier_.inner.forward(x.flatten(1));
  }

 private:
  int64_t channels_;
  ResnetBody resnet_;
  OneChild<Linear> classifier_;
};

}  // namespace

std::shared_ptr<Model> make_resnet(const Fields& fields, const Weights& weights) {
  return std::make_shared<Resnet>(read_resnet_config(fields), weights);
}

}  // namespace tenon::models
