// The ops of libtorch's dispatcher through which layers meet adapters. Which adapters act is data of `pin`, so that graphs do not
// know of them.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "adapters/acting.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

using at::Tensor;

Tensor bank_pin(const Tensor& rows, int64_t bank) { return Core::find(bank)->pin(rows); }
Tensor bank_pin_shape(const Tensor& rows, int64_t) { return at::empty({rows.numel() + 1}, rows.options()); }

// `lends`: where nothing turns, x itself may be returned.
Tensor bank_turn(const Tensor& x, const Tensor& pin, int64_t bank, int64_t layer, bool lends) {
  Acting acting(pin, bank, layer, x.size(0));
  if (acting.turns()) return acting.turn(x);
  return lends && x.is_contiguous() ? x : x.clone(at::MemoryFormat::Contiguous);
}
Tensor bank_turn_shape(const Tensor& x, const Tensor&, int64_t, int64_t, bool) { return at::empty(x.sizes(), x.options()); }

void bank_finish_(Tensor& y, const Tensor& x, const Tensor& pin, int64_t bank, int64_t layer) {
  Acting acting(pin, bank, layer, y.size(0));
  if (acting.acts()) acting.finish(y, x);
}
void bank_finish_shape(Tensor&, const Tensor&, const Tensor&, int64_t, int64_t) {}

// A whole layer while gradients are recorded. `trained` holds the parameters of this layer that train.
Tensor train_layer(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Tensor& pin, const Tensor&, int64_t bank,
                   int64_t layer) {
  Acting acting(pin, bank, layer, x.size(0));
  Tensor given = x.contiguous(), y = acting.layer().over(weight, bias).run(acting.turns() ? acting.turn(given) : given);
  if (!y.is_contiguous()) y = y.contiguous();
  if (acting.acts()) acting.finish(y, given);
  return y;
}
Tensor train_layer_shape(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Tensor&, const Tensor&,
                         int64_t bank, int64_t layer) {
  Tensor y = Core::find(bank)->layer(static_cast<size_t>(layer)).over(weight, bias).run(x);
  return at::empty(y.sizes(), y.options());
}

// Of what trains, and of x, weight and bias, if they are asked for.
std::tuple<Tensor, Tensor, Tensor, Tensor> train_layer_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                                                const std::optional<Tensor>& bias, const Tensor& pin, const Tensor& trained,
                                                                int64_t bank, int64_t layer, std::array<bool, 3> asks) {
  auto [asks_x, asks_weight, asks_bias] = asks;
  Acting acting(pin, bank, layer, x.size(0));
  Layer base = acting.layer().over(weight, bias);
  bool needs_y = !acting.adds();
  Tensor turned = acting.turns() && (asks_weight || needs_y) ? acting.turn(x) : x;
  Acting::Gradients behind{grad, {}, {}};
  if (acting.acts()) behind = acting.finish_backward(grad, needs_y ? base.run(turned) : Tensor(), x, trained, asks_x);
  Layer::Gradients found = base.backward(behind.y, turned, {asks_x || acting.turns(), asks_weight, asks_bias});
  if (acting.turns()) {
    Acting::Gradients before = acting.turn_backward(found.x, x, trained);
    found.x = before.x, behind.trained.add_(before.trained);
  }
  if (behind.x.defined()) found.x.add_(behind.x);
  auto given = [&](const Tensor& t, bool asked) { return asked ? t.contiguous() : at::empty({0}, x.options()); };
  return {given(found.x, asks_x), behind.trained.defined() ? behind.trained : at::zeros_like(trained), given(found.weight, asks_weight),
          given(found.bias, asks_bias)};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> train_layer_backward_shape(const Tensor&, const Tensor& x, const Tensor& weight,
                                                                      const std::optional<Tensor>& bias, const Tensor&,
                                                                      const Tensor& trained, int64_t, int64_t, std::array<bool, 3> asks) {
  auto like = [&](const Tensor& t, bool asked) { return asked ? at::empty(t.sizes(), t.options()) : at::empty({0}, x.options()); };
  return {like(x, asks[0]), at::empty_like(trained), like(weight, asks[1]), like(bias.value_or(Tensor()), asks[2])};
}

// What adapters make of a layer's result, for layers whose inputs no method turns.
Tensor train_finish(const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor&, int64_t bank, int64_t layer) {
  Tensor out = y.clone(at::MemoryFormat::Contiguous);
  bank_finish_(out, x, pin, bank, layer);
  return out;
}
Tensor train_finish_shape(const Tensor& y, const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t) {
  return at::empty(y.sizes(), y.options());
}

std::tuple<Tensor, Tensor, Tensor> train_finish_backward(const Tensor& grad, const Tensor& y, const Tensor& x, const Tensor& pin,
                                                         const Tensor& trained, int64_t bank, int64_t layer) {
  auto found = Acting(pin, bank, layer, y.size(0)).finish_backward(grad, y, x, trained, c10::isFloatingType(x.scalar_type()));
  auto own = [&](const Tensor& t) { return t.is_alias_of(grad) ? t.clone(at::MemoryFormat::Contiguous) : t.contiguous(); };
  return {own(found.y), found.x.defined() ? own(found.x) : at::zeros_like(x, at::MemoryFormat::Contiguous), found.trained};
}
std::tuple<Tensor, Tensor, Tensor> train_finish_backward_shape(const Tensor&, const Tensor& y, const Tensor& x, const Tensor&,
                                                               const Tensor& trained, int64_t, int64_t) {
  return {at::empty(y.sizes(), y.options()), at::empty(x.sizes(), x.options()), at::empty_like(trained)};
}

// The op that a kernel is of; found once.
template <auto kKernel>
const auto& op(const char* name) {
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<std::remove_pointer_t<decltype(kKernel)>>();
  return handle;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_once() {
  if (at::GradMode::is_enabled()) throw UserError(ErrorCode::adapter, "adapters have no second derivative (create_graph)");
}

void check_base(const Tensor& pin, int64_t bank, int64_t layer, int64_t batch) {
  auto core = Core::find(bank);
  const Layer& base = core->layer(static_cast<size_t>(layer));
  if (!base.trains()) return;
  Acting acting(pin, bank, layer, batch);
  const Part* part = acting.find_base_user();
  if (!part) return;
  auto asks = [](const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  std::string name = asks(base.base.weight) || asks(base.own.weight) ? "weight" : "bias";
  throw UserError(ErrorCode::adapter, base.path + "." + name + " requires grad, and " + part->method() + " needs a frozen base " + name +
                                          ". Call requires_grad_(false) on the base, or bank.freeze_base().");
}

struct TrainLayer : torch::autograd::Function<TrainLayer> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                        const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
    check_base(pin, bank, layer, x.size(0));
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weight, bias.value_or(Tensor()), pin, trained});
    context->saved_data["bank"] = bank, context->saved_data["layer"] = layer;
    context->saved_data["asks_x"] = x.requires_grad();
    context->saved_data["asks_weight"] = weight.requires_grad();
    context->saved_data["asks_bias"] = bias && bias->requires_grad();
    return op<&train_layer>("tenon::train_layer").call(x, weight, bias, pin, trained, bank, layer);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    check_once();
    auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    bool asks_x = data["asks_x"].toBool(), asks_weight = data["asks_weight"].toBool(), asks_bias = data["asks_bias"].toBool();
    std::optional<Tensor> bias = saved[2].defined() ? std::optional(saved[2]) : std::nullopt;
    auto [x, trained, of_weight, of_bias] = op<&train_layer_backward>("tenon::train_layer_backward")
                                                .call(grads[0], saved[0], saved[1], bias, saved[3], saved[4], data["bank"].toInt(),
                                                      data["layer"].toInt(), {asks_x, asks_weight, asks_bias});
    return {
        asks_x ? x : Tensor(), asks_weight ? of_weight : Tensor(), asks_bias ? of_bias : Tensor(), Tensor(), trained, Tensor(), Tensor()};
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
  return TrainLayer::apply(x, weight, bias, pin, trained, bank, layer);
}
Tensor train_finish_autograd(const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
  return TrainFinish::apply(y, x, pin, trained, bank, layer);
}

TORCH_LIBRARY_FRAGMENT(tenon, library) {
  library.def("bank_pin(Tensor rows, int bank) -> Tensor");
  library.def("bank_turn(Tensor x, Tensor pin, int bank, int layer, bool lends) -> Tensor");
  library.def("bank_finish_(Tensor(a!) y, Tensor x, Tensor pin, int bank, int layer) -> ()");
  library.def("train_layer(Tensor x, Tensor weight, Tensor? bias, Tensor pin, Tensor trained, int bank, int layer) -> Tensor");
  library.def("train_finish(Tensor y, Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> Tensor");
  library.def(
      "train_layer_backward(Tensor grad, Tensor x, Tensor weight, Tensor? bias, Tensor pin, Tensor trained, int bank, int layer, "
      "bool[3] asks) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "train_finish_backward(Tensor grad, Tensor y, Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> (Tensor, Tensor, "
      "Tensor)");
}
TORCH_LIBRARY_IMPL(tenon, CPU, library) {
  library.impl("bank_pin", bank_pin);
  library.impl("bank_turn", bank_turn);
  library.impl("bank_finish_", bank_finish_);
  library.impl("train_layer", train_layer);
  library.impl("train_finish", train_finish);
  library.impl("train_layer_backward", train_layer_backward);
  library.impl("train_finish_backward", train_finish_backward);
}
TORCH_LIBRARY_IMPL(tenon, Meta, library) {
  library.impl("bank_pin", bank_pin_shape);
  library.impl("bank_turn", bank_turn_shape);
  library.impl("bank_finish_", bank_finish_shape);
  library.impl("train_layer", train_layer_shape);
  library.impl("train_finish", train_finish_shape);
  library.impl("train_layer_backward", train_layer_backward_shape);
  library.impl("train_finish_backward", train_finish_backward_shape);
}
TORCH_LIBRARY_IMPL(tenon, Autograd, library) {
  library.impl("train_layer", train_layer_autograd);
  library.impl("train_finish", train_finish_autograd);
}

}  // namespace

std::shared_ptr<Core> make_core(std::vector<Layer> layers) {
  auto core = std::make_shared<Core>(std::move(layers));
  core->number_ = Core::enter(core);
  return core;
}

}  // namespace tenon::adapters
