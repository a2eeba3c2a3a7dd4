// The host for a user's tree of torch::nn modules, whose code does not know of banks. The weights and biases of its layers carry an extra
// dispatch key and a tag that names their layer, so the dispatcher calls the fallback below first for any op on such a tensor.
// torch::nn::Linear is two or three ops: it transposes the weight, multiplies, and for inputs of more than two dimensions adds the bias to
// the product in place.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <map>
#include <optional>

#include "adapters/host.h"
#include "base/error.h"
#include "bridge/dispatch_keys.h"
#include "models/adapter_site.h"

namespace tenon::adapters {

namespace {

constexpr auto kKey = bridge::kTreeLayerKey;

// A layer of the tree.
struct TreeLayer {
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  LayerKind kind;
  AdapterSite site;
  at::Tensor default_rows;
  bool has_bias;
  Weak weight, bias;  // Weak references, since the tensors own this object through their tags.

  // Computes the whole layer while gradients are recorded.
  at::Tensor train(const at::Tensor& x) const {
    return models::train_layer(site, x, at::Tensor(weight.lock()), has_bias ? at::Tensor(bias.lock()) : at::Tensor());
  }
};
using TreeLayers = std::vector<std::shared_ptr<TreeLayer>>;

enum class Role { weight, transposed, bias, product };

// The role of a tensor and the layers that use it. Tied layers share their weight.
struct LayerTag : c10::BackendMeta {
  LayerTag(Role role, TreeLayers layers) : role(role), layers(std::move(layers)) {}
  Role role;
  TreeLayers layers;
  std::optional<TreeLayer::Weak> input;  // The layer's input, if the tensor is its product without the bias.
};

// Gives access to the protected dispatch key set of a tensor.
struct Keys : c10::TensorImpl {
  static void set(const at::Tensor& tensor, c10::DispatchKeySet keys) { tensor.unsafeGetTensorImpl()->*(&Keys::key_set_) = keys; }
};

const LayerTag* tag_of(const c10::IValue& value, Role role) {
  if (!value.isTensor() || !value.toTensor().defined()) return nullptr;
  const auto* tag = dynamic_cast<const LayerTag*>(value.toTensor().unsafeGetTensorImpl()->get_backend_meta());
  return tag && tag->role == role ? tag : nullptr;
}

void set_tag(const at::Tensor& tensor, Role role, TreeLayers layers) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<LayerTag>(role, std::move(layers)));
  Keys::set(tensor, tensor.key_set().add(kKey));
}

void remove_tag(const at::Tensor& tensor) {
  tensor.unsafeGetTensorImpl()->set_backend_meta({});
  Keys::set(tensor, tensor.key_set().remove(kKey));
}

const TreeLayer* find_layer(const LayerTag* tag, LayerKind kind) {
  if (!tag) return nullptr;
  for (const auto& layer : tag->layers)
    if (layer->kind == kind) return layer.get();
  return nullptr;
}

// Pins the default rows, unless an enclosing scope has pinned others.
models::PinScope pin_default(const TreeLayer& layer) { return {layer.default_rows, layer.site.bank, /*is_given=*/false}; }

// An op that computes a whole layer, with the positions of its arguments.
struct LayerOp {
  LayerKind kind;
  size_t weight, input;
};

const LayerOp* find_layer_op(const std::string& name) {
  static const std::map<std::string, LayerOp> all = {{"aten::linear", {LayerKind::linear, 1, 0}},
                                                     {"aten::conv2d", {LayerKind::conv2d, 1, 0}},
                                                     {"aten::conv2d.padding", {LayerKind::conv2d, 1, 0}},
                                                     {"aten::embedding", {LayerKind::embedding, 0, 1}},
                                                     {"aten::layer_norm", {LayerKind::layer_norm, 2, 0}}};
  auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

bool is_one(const c10::IValue& value) { return value.toScalar().equal(1); }

class TaggedOp {
 public:
  TaggedOp(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), first_(stack.size() - op.schema().arguments().size()) {}

  void run() {
    const std::string name = c10::toString(op_.operator_name());
    if (const LayerOp* op = find_layer_op(name)) return run_layer_op(*op);
    if (name == "aten::t") return run_transpose();
    if (name == "aten::addmm") return run_addmm();
    if (name == "aten::matmul") return run_matmul();
    if (name == "aten::add_.Tensor") return run_add();
    op_.callBoxed(&stack_);
  }

 private:
  c10::IValue& argument(size_t i) { return stack_[first_ + i]; }

  void run_layer_op(const LayerOp& op) {
    const TreeLayer* layer = find_layer(tag_of(argument(op.weight), Role::weight), op.kind);
    if (!layer) return op_.callBoxed(&stack_);
    run_layer(*layer, op.input, op.kind == LayerKind::linear || op.kind == LayerKind::conv2d);
  }

  void run_layer(const TreeLayer& layer, size_t input, bool transforms_input) {
    auto pin = pin_default(layer);
    at::Tensor x = argument(input).toTensor();
    if (transforms_input && models::records_gradients(layer.site)) return give(layer.train(x));
    if (transforms_input) argument(input) = models::transform_input(layer.site, x);
    op_.callBoxed(&stack_);
    stack_.back() = models::apply_to_output(layer.site, x, stack_.back().toTensor());
  }

  // Replaces the op's arguments on the stack by its result.
  void give(at::Tensor y) {
    torch::jit::drop(stack_, stack_.size() - first_);
    stack_.emplace_back(std::move(y));
  }

  void run_transpose() {
    const LayerTag* tag = tag_of(argument(0), Role::weight);
    TreeLayers layers = tag ? tag->layers : TreeLayers();
    op_.callBoxed(&stack_);
    if (!layers.empty()) set_tag(stack_.back().toTensor(), Role::transposed, std::move(layers));
  }

  void run_addmm() {
    const TreeLayer* layer = find_layer(tag_of(argument(2), Role::transposed), LayerKind::linear);
    const LayerTag* bias = tag_of(argument(0), Role::bias);
    bool is_layer = layer && bias && bias->layers[0].get() == layer && is_one(argument(3)) && is_one(argument(4));
    if (!is_layer) return op_.callBoxed(&stack_);
    run_layer(*layer, /*input=*/1, /*transforms_input=*/true);
  }

  void run_matmul() {
    const LayerTag* tag = tag_of(argument(1), Role::transposed);
    const TreeLayer* layer = find_layer(tag, LayerKind::linear);
    if (!layer) return op_.callBoxed(&stack_);
    if (!layer->has_bias) return run_layer(*layer, /*input=*/0, /*transforms_input=*/true);
    TreeLayers layers = tag->layers;
    auto pin = pin_default(*layer);
    at::Tensor x = argument(0).toTensor();
    // While gradients are recorded, run_add computes the whole layer.
    if (!models::records_gradients(layer->site)) argument(0) = models::transform_input(layer->site, x);
    op_.callBoxed(&stack_);
    at::Tensor y = stack_.back().toTensor();
    auto product = c10::make_intrusive<LayerTag>(Role::product, std::move(layers));
    product->input = TreeLayer::Weak(x.getIntrusivePtr());
    y.unsafeGetTensorImpl()->set_backend_meta(std::move(product));
  }

  // Adds the bias to a layer's product and applies the adapters or, while gradients are recorded, computes the whole layer. Writes to the
  // caller's tensor.
  void run_add() {
    const LayerTag* product = tag_of(argument(0), Role::product);
    const LayerTag* bias = tag_of(argument(1), Role::bias);
    const TreeLayer* layer = find_layer(product, LayerKind::linear);
    if (!layer || !bias || bias->layers[0].get() != layer || !is_one(argument(2))) return op_.callBoxed(&stack_);
    at::Tensor x(product->input->lock());
    at::Tensor y = argument(0).toTensor(), b = argument(1).toTensor();
    if (!x.defined())
      throw UserError(ErrorCode::adapter,
                      "the input of a linear layer was released before the layer's bias was added. Keep it alive until forward() returns.");
    TreeLayers layers = product->layers;  // Keeps the layers alive after the tag is removed.
    y.unsafeGetTensorImpl()->set_backend_meta({});
    auto pin = pin_default(*layer);
    if (models::records_gradients(layer->site)) {
      y.copy_(layer->train(x));
    } else {
      y.add_(b);
      models::apply_to_output(layer->site, x, y);
    }
    give(y);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  size_t first_;
};

void handle_tagged_op(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard past(kKey);
  TaggedOp(op, *stack).run();
}

void take_key() {
  static const bool taken = bridge::take_dispatch_key(kKey, torch::CppFunction::makeFromBoxedFunction<&handle_tagged_op>());
  (void)taken;
}

// Only convolutions with symmetric stride and padding and without dilation, groups or a padding mode are supported.
std::optional<Layer> conv_layer(const torch::nn::Conv2dImpl& conv, const std::string& path) {
  const auto& o = conv.options;
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&o.padding());
  bool is_plain = padding && (*padding)->at(0) == (*padding)->at(1) && o.stride()->at(0) == o.stride()->at(1) && o.dilation()->at(0) == 1 &&
                  o.dilation()->at(1) == 1 && o.groups() == 1 && std::holds_alternative<torch::enumtype::kZeros>(o.padding_mode());
  if (!is_plain) return {};
  return Layer{path, LayerKind::conv2d, {conv.weight, conv.bias}, o.stride()->at(0), (*padding)->at(0)};
}

std::optional<Layer> layer_of(torch::nn::Module& module, const std::string& path) {
  if (auto* linear = module.as<torch::nn::LinearImpl>()) return Layer{path, LayerKind::linear, {linear->weight, linear->bias}};
  if (auto* embedding = module.as<torch::nn::EmbeddingImpl>()) return Layer{path, LayerKind::embedding, {embedding->weight, {}}};
  if (auto* conv = module.as<torch::nn::Conv2dImpl>()) return conv_layer(*conv, path);
  auto* norm = module.as<torch::nn::LayerNormImpl>();
  if (!norm || !norm->weight.defined() || norm->weight.dim() != 1) return {};
  return Layer{path, LayerKind::layer_norm, {norm->weight, norm->bias}, 1, 0, norm->options.eps()};
}

class TreeHost : public Host {
 public:
  explicit TreeHost(std::shared_ptr<torch::nn::Module> tree) : tree_(std::move(tree)) {
    tenon::detail::check_not_null(tree_ == nullptr, "the tree of a bank");
    take_key();
    for (auto& module : tree_->named_modules())
      if (auto layer = layer_of(*module.value(), module.key())) {
        if (layer->base.weight.key_set().has(kKey))
          throw UserError(ErrorCode::adapter, layer->path + " has a bank already. Load into that one, or destroy it first.");
        layers_.push_back(*layer);
        modules_.emplace_back(module.value());
      }
  }

  // The layers' tensors are aliases without the dispatch key, so that adapters can compute with them directly.
  std::vector<Layer> layers() const override {
    std::vector<Layer> out = layers_;
    for (Layer& layer : out) {
      layer.own = layer.base;
      layer.base.weight = layer.base.weight.detach();
      if (layer.base.bias.defined()) layer.base.bias = layer.base.bias.detach();
    }
    return out;
  }

  ModelFacts facts() const override {
    ModelFacts out;
    for (const auto& parameter : tree_->named_parameters()) out.parameters.emplace_back(parameter.key(), parameter.value());
    return out;
  }

  void attach(int64_t bank, const at::Tensor& default_rows, const std::vector<at::Tensor>& trained) override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const auto& [weight, bias] = layers_[i].base;
      auto is_training = [weak = modules_[i]] {
        auto module = weak.lock();
        return module && module->is_training();
      };
      AdapterSite site{bank, static_cast<int64_t>(i), trained[i], is_training};
      auto layer = std::make_shared<TreeLayer>(
          TreeLayer{layers_[i].kind, site, default_rows, bias.defined(), TreeLayer::Weak(weight.getIntrusivePtr()),
                    TreeLayer::Weak(bias.defined() ? bias.getIntrusivePtr() : weight.getIntrusivePtr())});
      const LayerTag* tied = tag_of(weight, Role::weight);
      TreeLayers layers = tied ? tied->layers : TreeLayers();
      layers.push_back(layer);
      set_tag(weight, Role::weight, std::move(layers));
      if (bias.defined() && layer->kind == LayerKind::linear) set_tag(bias, Role::bias, {layer});
    }
  }

  void detach() override {
    for (const Layer& layer : layers_) {
      remove_tag(layer.base.weight);
      if (layer.base.bias.defined()) remove_tag(layer.base.bias);
    }
  }

  void freeze() override {
    for (const at::Tensor& parameter : tree_->parameters()) freeze_leaf(parameter);
  }

  void need_attached() const override {
    for (const Layer& layer : layers_)
      if (!layer.base.weight.key_set().has(kKey))
        throw UserError(
            ErrorCode::adapter,
            "the weight of " + layer.path + " was replaced after the bank was made. Load and convert the model first, then make the bank.");
  }

 private:
  std::shared_ptr<torch::nn::Module> tree_;
  std::vector<Layer> layers_;
  std::vector<std::weak_ptr<torch::nn::Module>> modules_;  // The module of each layer.
};

}  // namespace

std::unique_ptr<Host> make_host(std::shared_ptr<torch::nn::Module> tree) { return std::make_unique<TreeHost>(std::move(tree)); }

}  // namespace tenon::adapters
