// A user's tree of torch::nn modules, whose code knows nothing of banks. Weights and biases of its layers carry a dispatch key of their own
// and a mark that says whose they are, so that ops with such a tensor come by here first. torch::nn::Linear is two or three ops: the weight
// is transposed, multiplied with, and for inputs of more than two dimensions the bias is added to the product in place.
#include <torch/library.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <map>
#include <optional>

#include "adapters/host.h"
#include "base/error.h"
#include "models/seam.h"

namespace tenon::adapters {

namespace {

constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

// A layer of the tree.
struct Place {
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  Kind kind;
  Seam seam;
  at::Tensor standard;
  bool has_bias;
  Weak weight, bias;  // which own their place

  // The whole layer, while gradients are recorded.
  at::Tensor train(const at::Tensor& x) const {
    return models::train(seam, x, at::Tensor(weight.lock()), has_bias ? at::Tensor(bias.lock()) : at::Tensor());
  }
};
using Places = std::vector<std::shared_ptr<Place>>;

enum class Role { weight, transposed, bias, product };

// Of a tensor: what it is, and to which layers. Tied layers share their weight.
struct Mark : c10::BackendMeta {
  Mark(Role role, Places places) : role(role), places(std::move(places)) {}
  Role role;
  Places places;
  std::optional<Place::Weak> input;  // of the layer, for its product without bias
};

// Lets a tensor have another set of keys.
struct Keys : c10::TensorImpl {
  static void set(const at::Tensor& tensor, c10::DispatchKeySet keys) { tensor.unsafeGetTensorImpl()->*(&Keys::key_set_) = keys; }
};

const Mark* mark_of(const c10::IValue& value, Role role) {
  if (!value.isTensor() || !value.toTensor().defined()) return nullptr;
  const auto* mark = dynamic_cast<const Mark*>(value.toTensor().unsafeGetTensorImpl()->get_backend_meta());
  return mark && mark->role == role ? mark : nullptr;
}

void put_mark(const at::Tensor& tensor, Role role, Places places) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Mark>(role, std::move(places)));
  Keys::set(tensor, tensor.key_set().add(kKey));
}

void take_mark(const at::Tensor& tensor) {
  tensor.unsafeGetTensorImpl()->set_backend_meta({});
  Keys::set(tensor, tensor.key_set().remove(kKey));
}

const Place* find_place(const Mark* mark, Kind kind) {
  if (!mark) return nullptr;
  for (const auto& place : mark->places)
    if (place->kind == kind) return place.get();
  return nullptr;
}

// Rows of calls without any, unless a scope around the call has its own.
models::PinScope pin_standard(const Place& place) { return {place.standard, place.seam.bank, /*is_given=*/false}; }

// The arguments of an op that is a whole layer.
struct Whole {
  Kind kind;
  size_t weight, input;
};

const Whole* find_whole(const std::string& name) {
  static const std::map<std::string, Whole> all = {{"aten::linear", {Kind::linear, 1, 0}},
                                                   {"aten::conv2d", {Kind::conv2d, 1, 0}},
                                                   {"aten::conv2d.padding", {Kind::conv2d, 1, 0}},
                                                   {"aten::embedding", {Kind::embedding, 0, 1}},
                                                   {"aten::layer_norm", {Kind::layer_norm, 2, 0}}};
  auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

bool is_one(const c10::IValue& value) { return value.toScalar().equal(1); }

class Visit {
 public:
  Visit(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), first_(stack.size() - op.schema().arguments().size()) {}

  void run() {
    const std::string name = c10::toString(op_.operator_name());
    if (const Whole* whole = find_whole(name)) return run_whole(*whole);
    if (name == "aten::t") return run_transpose();
    if (name == "aten::addmm") return run_addmm();
    if (name == "aten::matmul") return run_matmul();
    if (name == "aten::add_.Tensor") return run_add();
    op_.callBoxed(&stack_);
  }

 private:
  c10::IValue& argument(size_t i) { return stack_[first_ + i]; }

  void run_whole(const Whole& whole) {
    const Place* place = find_place(mark_of(argument(whole.weight), Role::weight), whole.kind);
    if (!place) return op_.callBoxed(&stack_);
    run_layer(*place, whole.input, whole.kind == Kind::linear || whole.kind == Kind::conv2d);
  }

  void run_layer(const Place& place, size_t input, bool turns) {
    auto pin = pin_standard(place);
    at::Tensor x = argument(input).toTensor();
    if (turns && models::trains(place.seam)) return give(place.train(x));
    if (turns) argument(input) = models::turn(place.seam, x);
    op_.callBoxed(&stack_);
    stack_.back() = models::finish(place.seam, x, stack_.back().toTensor());
  }

  // As the op's result.
  void give(at::Tensor y) {
    torch::jit::drop(stack_, stack_.size() - first_);
    stack_.emplace_back(std::move(y));
  }

  void run_transpose() {
    const Mark* mark = mark_of(argument(0), Role::weight);
    Places places = mark ? mark->places : Places();
    op_.callBoxed(&stack_);
    if (!places.empty()) put_mark(stack_.back().toTensor(), Role::transposed, std::move(places));
  }

  void run_addmm() {
    const Place* place = find_place(mark_of(argument(2), Role::transposed), Kind::linear);
    const Mark* bias = mark_of(argument(0), Role::bias);
    bool is_layer = place && bias && bias->places[0].get() == place && is_one(argument(3)) && is_one(argument(4));
    if (!is_layer) return op_.callBoxed(&stack_);
    run_layer(*place, /*input=*/1, /*turns=*/true);
  }

  void run_matmul() {
    const Mark* mark = mark_of(argument(1), Role::transposed);
    const Place* place = find_place(mark, Kind::linear);
    if (!place) return op_.callBoxed(&stack_);
    if (!place->has_bias) return run_layer(*place, /*input=*/0, /*turns=*/true);
    Places places = mark->places;
    auto pin = pin_standard(*place);
    at::Tensor x = argument(0).toTensor();
    if (!models::trains(place->seam)) argument(0) = models::turn(place->seam, x);  // else the bias brings everything
    op_.callBoxed(&stack_);
    at::Tensor y = stack_.back().toTensor();
    auto product = c10::make_intrusive<Mark>(Role::product, std::move(places));
    product->input = Place::Weak(x.getIntrusivePtr());
    y.unsafeGetTensorImpl()->set_backend_meta(std::move(product));
  }

  // What is left of a layer whose product was without its bias; all of it while gradients are recorded. Written to the tensor that the
  // caller has.
  void run_add() {
    const Mark* product = mark_of(argument(0), Role::product);
    const Mark* bias = mark_of(argument(1), Role::bias);
    const Place* place = find_place(product, Kind::linear);
    if (!place || !bias || bias->places[0].get() != place || !is_one(argument(2))) return op_.callBoxed(&stack_);
    at::Tensor x(product->input->lock());
    at::Tensor y = argument(0).toTensor(), b = argument(1).toTensor();
    if (!x.defined()) throw UserError(ErrorCode::adapter, "the input of a layer is gone before its bias was added");
    Places places = product->places;  // which outlive the mark
    y.unsafeGetTensorImpl()->set_backend_meta({});
    auto pin = pin_standard(*place);
    if (models::trains(place->seam)) {
      y.copy_(place->train(x));
    } else {
      y.add_(b);
      models::finish(place->seam, x, y);
    }
    give(y);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  size_t first_;
};

void come_by(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard past(kKey);
  Visit(op, *stack).run();
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&come_by>()); }

// Convolutions that look at their places in one plain way.
std::optional<Layer> conv_layer(const torch::nn::Conv2dImpl& conv, const std::string& path) {
  const auto& o = conv.options;
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&o.padding());
  bool is_plain = padding && (*padding)->at(0) == (*padding)->at(1) && o.stride()->at(0) == o.stride()->at(1) && o.dilation()->at(0) == 1 &&
                  o.dilation()->at(1) == 1 && o.groups() == 1 && std::holds_alternative<torch::enumtype::kZeros>(o.padding_mode());
  if (!is_plain) return {};
  return Layer{path, Kind::conv2d, {conv.weight, conv.bias}, o.stride()->at(0), (*padding)->at(0)};
}

std::optional<Layer> layer_of(torch::nn::Module& module, const std::string& path) {
  if (auto* linear = module.as<torch::nn::LinearImpl>()) return Layer{path, Kind::linear, {linear->weight, linear->bias}};
  if (auto* embedding = module.as<torch::nn::EmbeddingImpl>()) return Layer{path, Kind::embedding, {embedding->weight, {}}};
  if (auto* conv = module.as<torch::nn::Conv2dImpl>()) return conv_layer(*conv, path);
  auto* norm = module.as<torch::nn::LayerNormImpl>();
  if (!norm || !norm->weight.defined() || norm->weight.dim() != 1) return {};
  return Layer{path, Kind::layer_norm, {norm->weight, norm->bias}, 1, 0, norm->options.eps()};
}

class TreeHost : public Host {
 public:
  explicit TreeHost(std::shared_ptr<torch::nn::Module> tree) : tree_(std::move(tree)) {
    tenon::detail::check_not_null(tree_ == nullptr, "the tree of a bank");
    for (auto& module : tree_->named_modules())
      if (auto layer = layer_of(*module.value(), module.key())) {
        if (layer->base.weight.key_set().has(kKey))
          throw UserError(ErrorCode::adapter, layer->path + " has a bank already. Load into that one, or destroy it first.");
        layers_.push_back(*layer);
      }
  }

  // With weights that do not come by here when adapters compute with them.
  std::vector<Layer> layers() const override {
    std::vector<Layer> out = layers_;
    for (Layer& layer : out) {
      layer.own = layer.base;
      layer.base.weight = layer.base.weight.detach();
      if (layer.base.bias.defined()) layer.base.bias = layer.base.bias.detach();
    }
    return out;
  }

  void attach(int64_t bank, const at::Tensor& standard, const std::vector<at::Tensor>& trained) override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const auto& [weight, bias] = layers_[i].base;
      Seam seam{bank, static_cast<int64_t>(i), trained[i]};
      auto place = std::make_shared<Place>(Place{layers_[i].kind, seam, standard, bias.defined(), Place::Weak(weight.getIntrusivePtr()),
                                                 Place::Weak(bias.defined() ? bias.getIntrusivePtr() : weight.getIntrusivePtr())});
      const Mark* tied = mark_of(weight, Role::weight);
      Places places = tied ? tied->places : Places();
      places.push_back(place);
      put_mark(weight, Role::weight, std::move(places));
      if (bias.defined() && place->kind == Kind::linear) put_mark(bias, Role::bias, {place});
    }
  }

  void detach() override {
    for (const Layer& layer : layers_) {
      take_mark(layer.base.weight);
      if (layer.base.bias.defined()) take_mark(layer.base.bias);
    }
  }

  void freeze() override {
    for (const at::Tensor& parameter : tree_->parameters()) freeze_leaf(parameter);
  }

  void need_attached() const override {
    for (const Layer& layer : layers_)
      if (!layer.base.weight.key_set().has(kKey))
        throw UserError(ErrorCode::adapter,
                        "the weight of " + layer.path + " was replaced since the bank was made; load and convert before");
  }

 private:
  std::shared_ptr<torch::nn::Module> tree_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Host> make_host(std::shared_ptr<torch::nn::Module> tree) { return std::make_unique<TreeHost>(std::move(tree)); }

}  // namespace tenon::adapters
