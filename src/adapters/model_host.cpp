// The host for Tenon's own models, whose layers call the bank themselves (models/adapter_site.h).
#include <tenon/family.h>

#include "adapters/host.h"
#include "base/error.h"
#include "formats/config.h"

namespace tenon::adapters {

namespace {

class ModelHost : public Host {
 public:
  explicit ModelHost(std::shared_ptr<Model> model) : model_(std::move(model)) {
    detail::check_not_null(model_ == nullptr, "the model of a bank");
    if (*model_->bank() != 0) throw UserError(ErrorCode::adapter, "the model has a bank already. Load into that one, or destroy it first.");
    find(*model_, "");
  }

  std::vector<Layer> layers() const override { return layers_; }
  ModelFacts facts() const override {
    ModelFacts out;
    out.parameters = model_->named_parameters();
    for (const Layer& layer : layers_)
      if (layer.path == "lm_head" || layer.path.ends_with("predictions.decoder")) out.output_embedding = layer.path;
    if (model_->config().empty()) return out;
    auto config = formats::Config::parse(model_->config(), "config.json");
    out.model_type = config.text_or("model_type", "");
    if (config.has("architectures"))
      if (auto names = config.texts("architectures"); !names.empty()) out.architecture = names[0];
    return out;
  }
  void attach(int64_t bank, const at::Tensor& default_rows, const std::vector<at::Tensor>& trained) override {
    for (size_t i = 0; i < modules_.size(); ++i) {
      auto is_training = [module = modules_[i]] { return module->is_training(); };
      modules_[i]->set_adapter_site({bank, static_cast<int64_t>(i), trained[i], is_training});
    }
    model_->set_bank(bank, default_rows, trained);
  }
  void detach() override {
    for (Module* module : modules_) module->set_adapter_site({});
    model_->set_bank(0, {}, {});
  }

  void freeze() override {
    for (const at::Tensor& parameter : model_->parameters()) freeze_leaf(parameter);
  }

 private:
  void find(Module& module, const std::string& path) {
    std::optional<Layer> layer;
    if (auto* linear = dynamic_cast<Linear*>(&module)) {
      bool is_transposed = linear->layout() == Linear::WeightLayout::input_first;
      layer = {path, is_transposed ? LayerKind::conv1d : LayerKind::linear, {linear->weight, linear->bias}};
    } else if (auto* embedding = dynamic_cast<Embedding*>(&module)) {
      layer = {path, LayerKind::embedding, {embedding->weight, {}}};
    } else if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
      layer = {path, LayerKind::conv2d, {conv->weight, conv->bias}, conv->stride(), conv->padding()};
    } else if (auto* norm = dynamic_cast<LayerNorm*>(&module)) {
      layer = {path, LayerKind::layer_norm, {norm->weight, norm->bias}, 1, 0, norm->epsilon()};
    } else if (auto* rms = dynamic_cast<RmsNorm*>(&module)) {
      layer = {path, LayerKind::rms_norm, {rms->weight, {}}, 1, 0, rms->epsilon()};
      layer->adds_one = rms->factor() == RmsNorm::Factor::one_plus_weight;
    }
    if (layer) layers_.push_back(*layer), modules_.push_back(&module);
    for (const auto& [name, child] : module.children()) find(*child, path.empty() ? name : path + "." + name);
  }

  std::shared_ptr<Model> model_;
  std::vector<Layer> layers_;
  std::vector<Module*> modules_;
};

}  // namespace

std::unique_ptr<Host> make_host(std::shared_ptr<Model> model) { return std::make_unique<ModelHost>(std::move(model)); }

}  // namespace tenon::adapters
