// The dispatcher ops through which layers apply adapters. The tensor `pin` determines which adapters act, so graphs do not depend on them.
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "adapters/active_adapters.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

using at::Tensor;

Tensor bank_pin(const Tensor& rows, int64_t bank) { return Core::find(bank)->pin(rows); }
Tensor bank_pin_shape(const Tensor& rows, int64_t) { return at::empty({rows.numel() + 1}, rows.options()); }

// If `may_alias`, x itself is returned where no input transform acts.
Tensor bank_transform_input(const Tensor& x, const Tensor& pin, int64_t bank, int64_t layer, bool may_alias) {
  ActiveAdapters active(pin, bank, layer, x.size(0));
  if (active.has_input_transform()) return active.transform_input(x);
  return may_alias && x.is_contiguous() ? x : x.clone(at::MemoryFormat::Contiguous);
}
Tensor bank_transform_input_shape(const Tensor& x, const Tensor&, int64_t, int64_t, bool) { return at::empty(x.sizes(), x.options()); }

void bank_apply_(Tensor& y, const Tensor& x, const Tensor& pin, int64_t bank, int64_t layer) {
  ActiveAdapters active(pin, bank, layer, y.size(0));
  if (active.is_active()) active.apply_to_output(y, x);
}
void bank_apply_shape(Tensor&, const Tensor&, const Tensor&, int64_t, int64_t) {}

Tensor run_layer(const ActiveAdapters& active, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  Tensor given = x.contiguous(),
         y = active.layer().over(weight, bias).run(active.has_input_transform() ? active.transform_input(given) : given);
  if (!y.is_contiguous()) y = y.contiguous();
  if (active.is_active()) active.apply_to_output(y, given);
  return y;
}

// Computes a whole layer while gradients are recorded. `trained` holds the layer's trained parameters.
Tensor train_layer(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Tensor& pin, const Tensor&, int64_t bank,
                   int64_t layer) {
  return run_layer(ActiveAdapters(pin, bank, layer, x.size(0)), x, weight, bias);
}
Tensor train_layer_shape(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Tensor&, const Tensor&,
                         int64_t bank, int64_t layer) {
  Tensor y = Core::find(bank)->layer(static_cast<size_t>(layer)).over(weight, bias).run(x);
  return at::empty(y.sizes(), y.options());
}

// The same in training mode, in which adapters may drop something. Also returns a record of what they drew (draws.h). It is an op of its
// own because ops that draw are executed in the order of the program.
std::tuple<Tensor, Tensor> train_layer_dropout(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Tensor& pin,
                                               const Tensor&, int64_t bank, int64_t layer) {
  ActiveAdapters active(pin, bank, layer, x.size(0));
  Tensor draws = active.draw(x);
  return {run_layer(active, x, weight, bias), draws};
}
std::tuple<Tensor, Tensor> train_layer_dropout_shape(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                                     const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
  return {train_layer_shape(x, weight, bias, pin, trained, bank, layer), at::empty({draws_size()}, x.options().dtype(at::kByte))};
}

// Returns the gradients of x, of the trained parameters, of the weight and of the bias. `output_mask` says which of x, weight and bias get
// one.
using LayerGradientTuple = std::tuple<Tensor, Tensor, Tensor, Tensor>;
LayerGradientTuple gradients_of_layer(const ActiveAdapters& active, const Tensor& grad, const Tensor& x, const Tensor& weight,
                                      const std::optional<Tensor>& bias, const Tensor& trained, std::array<bool, 3> output_mask) {
  auto [needs_x, needs_weight, needs_bias] = output_mask;
  Layer base = active.layer().over(weight, bias);
  bool needs_y = !active.is_additive();
  Tensor transformed = active.has_input_transform() && (needs_weight || needs_y) ? active.transform_input(x) : x;
  ActiveAdapters::AdapterGradients after{grad, {}, {}};
  if (active.is_active()) after = active.apply_to_output_backward(grad, needs_y ? base.run(transformed) : Tensor(), x, trained, needs_x);
  Layer::LayerGradients found = base.backward(after.y, transformed, {needs_x || active.has_input_transform(), needs_weight, needs_bias});
  if (active.has_input_transform()) {
    ActiveAdapters::AdapterGradients before = active.transform_input_backward(found.x, x, trained);
    found.x = before.x, after.trained.add_(before.trained);
  }
  if (after.x.defined()) found.x.add_(after.x);
  auto given = [&](const Tensor& t, bool is_wanted) { return is_wanted ? t.contiguous() : at::empty({0}, x.options()); };
  return {given(found.x, needs_x), after.trained.defined() ? after.trained : at::zeros_like(trained), given(found.weight, needs_weight),
          given(found.bias, needs_bias)};
}

LayerGradientTuple train_layer_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                        const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer,
                                        std::array<bool, 3> output_mask) {
  return gradients_of_layer(ActiveAdapters(pin, bank, layer, x.size(0)), grad, x, weight, bias, trained, output_mask);
}
LayerGradientTuple train_layer_backward_shape(const Tensor&, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                              const Tensor&, const Tensor& trained, int64_t, int64_t, std::array<bool, 3> output_mask) {
  auto like = [&](const Tensor& t, bool is_wanted) { return is_wanted ? at::empty(t.sizes(), t.options()) : at::empty({0}, x.options()); };
  return {like(x, output_mask[0]), at::empty_like(trained), like(weight, output_mask[1]), like(bias.value_or(Tensor()), output_mask[2])};
}

LayerGradientTuple train_layer_dropout_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                                const std::optional<Tensor>& bias, const Tensor& pin, const Tensor& trained,
                                                const Tensor& draws, int64_t bank, int64_t layer, std::array<bool, 3> output_mask) {
  ActiveAdapters active(pin, bank, layer, x.size(0));
  active.draw_again(draws, x);
  return gradients_of_layer(active, grad, x, weight, bias, trained, output_mask);
}
LayerGradientTuple train_layer_dropout_backward_shape(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                                      const std::optional<Tensor>& bias, const Tensor& pin, const Tensor& trained,
                                                      const Tensor&, int64_t bank, int64_t layer, std::array<bool, 3> output_mask) {
  return train_layer_backward_shape(grad, x, weight, bias, pin, trained, bank, layer, output_mask);
}

// Applies adapters to the result of a layer that has no input transforms.
Tensor train_finish(const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor&, int64_t bank, int64_t layer) {
  Tensor out = y.clone(at::MemoryFormat::Contiguous);
  bank_apply_(out, x, pin, bank, layer);
  return out;
}
Tensor train_finish_shape(const Tensor& y, const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t) {
  return at::empty(y.sizes(), y.options());
}

std::tuple<Tensor, Tensor, Tensor> train_finish_backward(const Tensor& grad, const Tensor& y, const Tensor& x, const Tensor& pin,
                                                         const Tensor& trained, int64_t bank, int64_t layer) {
  auto found =
      ActiveAdapters(pin, bank, layer, y.size(0)).apply_to_output_backward(grad, y, x, trained, c10::isFloatingType(x.scalar_type()));
  auto own = [&](const Tensor& t) { return t.is_alias_of(grad) ? t.clone(at::MemoryFormat::Contiguous) : t.contiguous(); };
  return {own(found.y), found.x.defined() ? own(found.x) : at::zeros_like(x, at::MemoryFormat::Contiguous), found.trained};
}
std::tuple<Tensor, Tensor, Tensor> train_finish_backward_shape(const Tensor&, const Tensor& y, const Tensor& x, const Tensor&,
                                                               const Tensor& trained, int64_t, int64_t) {
  return {at::empty(y.sizes(), y.options()), at::empty(x.sizes(), x.options()), at::empty_like(trained)};
}

// Returns the handle of the op that the kernel implements. The lookup runs once per kernel.
template <auto kKernel>
const auto& op(const char* name) {
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<std::remove_pointer_t<decltype(kKernel)>>();
  return handle;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_once() {
  if (at::GradMode::is_enabled())
    throw UserError(ErrorCode::adapter, "adapters do not support second derivatives. Call backward() or grad() without create_graph.");
}

void check_base(const Tensor& pin, int64_t bank, int64_t layer, int64_t batch) {
  auto core = Core::find(bank);
  const Layer& base = core->layer(static_cast<size_t>(layer));
  if (!base.trains()) return;
  ActiveAdapters active(pin, bank, layer, batch);
  const LayerAdapter* layer_adapter = active.find_base_user();
  if (!layer_adapter) return;
  auto requires_grad = [](const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  std::string name = requires_grad(base.base.weight) || requires_grad(base.own.weight) ? "weight" : "bias";
  throw UserError(ErrorCode::adapter, base.path + "." + name + " requires grad, and " + layer_adapter->method() + " needs a frozen base " +
                                          name + ". Call requires_grad_(false) on the base, or bank.freeze_base().");
}

// Both ops of a layer. `is_training` chooses the one with dropout, whose second result is the record of its draws.
struct TrainLayer : torch::autograd::Function<TrainLayer> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                               const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer, bool is_training) {
    check_base(pin, bank, layer, x.size(0));
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["bank"] = bank, context->saved_data["layer"] = layer;
    context->saved_data["needs_x"] = x.requires_grad();
    context->saved_data["needs_weight"] = weight.requires_grad();
    context->saved_data["needs_bias"] = bias && bias->requires_grad();
    variable_list saved = {x, weight, bias.value_or(Tensor()), pin, trained}, out;
    if (is_training) {
      auto [y, draws] = op<&train_layer_dropout>("tenon::train_layer_dropout").call(x, weight, bias, pin, trained, bank, layer);
      context->mark_non_differentiable({draws});
      context->set_materialize_grads(false);  // Otherwise backward would receive zeros for the draws.
      saved.push_back(draws);
      out = {y, draws};
    } else {
      out = {op<&train_layer>("tenon::train_layer").call(x, weight, bias, pin, trained, bank, layer)};
    }
    context->save_for_backward(std::move(saved));
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    check_once();
    if (!grads[0].defined()) return variable_list(8);
    auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    bool needs_x = data["needs_x"].toBool(), needs_weight = data["needs_weight"].toBool(), needs_bias = data["needs_bias"].toBool();
    std::array<bool, 3> mask{needs_x, needs_weight, needs_bias};
    int64_t bank = data["bank"].toInt(), layer = data["layer"].toInt();
    std::optional<Tensor> bias = saved[2].defined() ? std::optional(saved[2]) : std::nullopt;
    auto [x, trained, of_weight, of_bias] =
        saved.size() > 5 ? op<&train_layer_dropout_backward>("tenon::train_layer_dropout_backward")
                               .call(grads[0], saved[0], saved[1], bias, saved[3], saved[4], saved[5], bank, layer, mask)
                         : op<&train_layer_backward>("tenon::train_layer_backward")
                               .call(grads[0], saved[0], saved[1], bias, saved[3], saved[4], bank, layer, mask);
    Tensor none;
    return {needs_x ? x : none, needs_weight ? of_weight : none, needs_bias ? of_bias : none, none, trained, none, none, none};
  }
};

struct TrainFinish : torch::autograd::Function<TrainFinish> {
  static Tensor forward(AutogradContext* context, const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank,
                        int64_t layer) {
    check_base(pin, bank, layer, y.size(0));
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({y, x, pin, trained});
    context->saved_data["bank"] = bank, context->saved_data["layer"] = layer;
    return op<&train_finish>("tenon::train_finish").call(y, x, pin, trained, bank, layer);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    check_once();
    auto saved = context->get_saved_variables();
    auto [y, x, trained] = op<&train_finish_backward>("tenon::train_finish_backward")
                               .call(grads[0], saved[0], saved[1], saved[2], saved[3], context->saved_data["bank"].toInt(),
                                     context->saved_data["layer"].toInt());
    return {y, c10::isFloatingType(saved[1].scalar_type()) ? x : Tensor(), Tensor(), trained, Tensor(), Tensor()};
  }
};

Tensor train_layer_autograd(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Tensor& pin,
                            const Tensor& trained, int64_t bank, int64_t layer) {
  return TrainLayer::apply(x, weight, bias, pin, trained, bank, layer, /*is_training=*/false)[0];
}
std::tuple<Tensor, Tensor> train_layer_dropout_autograd(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                                        const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
  variable_list out = TrainLayer::apply(x, weight, bias, pin, trained, bank, layer, /*is_training=*/true);
  return {out[0], out[1]};
}
Tensor train_finish_autograd(const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
  return TrainFinish::apply(y, x, pin, trained, bank, layer);
}

TORCH_LIBRARY_FRAGMENT(tenon, library) {
  library.def("bank_pin(Tensor rows, int bank) -> Tensor");
  library.def("bank_transform_input(Tensor x, Tensor pin, int bank, int layer, bool may_alias) -> Tensor");
  library.def("bank_apply_(Tensor(a!) y, Tensor x, Tensor pin, int bank, int layer) -> ()");
  library.def("train_layer(Tensor x, Tensor weight, Tensor? bias, Tensor pin, Tensor trained, int bank, int layer) -> Tensor");
  library.def(
      "train_layer_dropout(Tensor x, Tensor weight, Tensor? bias, Tensor pin, Tensor trained, int bank, int layer) -> (Tensor, Tensor)",
      {at::Tag::nondeterministic_seeded});
  library.def("train_finish(Tensor y, Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> Tensor");
  library.def(
      "train_layer_backward(Tensor grad, Tensor x, Tensor weight, Tensor? bias, Tensor pin, Tensor trained, int bank, int layer, "
      "bool[3] output_mask) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "train_layer_dropout_backward(Tensor grad, Tensor x, Tensor weight, Tensor? bias, Tensor pin, Tensor trained, Tensor draws, int "
      "bank, "
      "int layer, bool[3] output_mask) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "train_finish_backward(Tensor grad, Tensor y, Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> (Tensor, Tensor, "
      "Tensor)");
}
TORCH_LIBRARY_IMPL(tenon, CPU, library) {
  library.impl("bank_pin", bank_pin);
  library.impl("bank_transform_input", bank_transform_input);
  library.impl("bank_apply_", bank_apply_);
  library.impl("train_layer", train_layer);
  library.impl("train_layer_dropout", train_layer_dropout);
  library.impl("train_finish", train_finish);
  library.impl("train_layer_backward", train_layer_backward);
  library.impl("train_layer_dropout_backward", train_layer_dropout_backward);
  library.impl("train_finish_backward", train_finish_backward);
}
TORCH_LIBRARY_IMPL(tenon, Meta, library) {
  library.impl("bank_pin", bank_pin_shape);
  library.impl("bank_transform_input", bank_transform_input_shape);
  library.impl("bank_apply_", bank_apply_shape);
  library.impl("train_layer", train_layer_shape);
  library.impl("train_layer_dropout", train_layer_dropout_shape);
  library.impl("train_finish", train_finish_shape);
  library.impl("train_layer_backward", train_layer_backward_shape);
  library.impl("train_layer_dropout_backward", train_layer_dropout_backward_shape);
  library.impl("train_finish_backward", train_finish_backward_shape);
}
TORCH_LIBRARY_IMPL(tenon, Autograd, library) {
  library.impl("train_layer", train_layer_autograd);
  library.impl("train_layer_dropout", train_layer_dropout_autograd);
  library.impl("train_finish", train_finish_autograd);
}

}  // namespace

std::shared_ptr<Core> make_core(std::vector<Layer> layers) {
  auto core = std::make_shared<Core>(std::move(layers));
  core->id_ = Core::register_core(core);
  return core;
}

}  // namespace tenon::adapters
