// The ops of libtorch's dispatcher through which layers meet adapters. Which adapters act is data of `pin`, so that graphs do not
// know of them.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
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

// While gradients are recorded. `trained` holds the parameters of this layer that train.
Tensor train_turn(const Tensor& x, const Tensor& pin, const Tensor&, int64_t bank, int64_t layer) {
  return bank_turn(x, pin, bank, layer, /*lends=*/false);
}
Tensor train_turn_shape(const Tensor& x, const Tensor&, const Tensor&, int64_t, int64_t) { return at::empty(x.sizes(), x.options()); }

Tensor train_finish(const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor&, int64_t bank, int64_t layer) {
  Tensor out = y.clone(at::MemoryFormat::Contiguous);
  bank_finish_(out, x, pin, bank, layer);
  return out;
}
Tensor train_finish_shape(const Tensor& y, const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t) {
  return at::empty(y.sizes(), y.options());
}

std::tuple<Tensor, Tensor> train_turn_backward(const Tensor& grad, const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank,
                                               int64_t layer) {
  auto found = Acting(pin, bank, layer, x.size(0)).turn_backward(grad, x, trained);
  return {found.x, found.trained};
}
std::tuple<Tensor, Tensor> train_turn_backward_shape(const Tensor&, const Tensor& x, const Tensor&, const Tensor& trained, int64_t,
                                                     int64_t) {
  return {at::empty(x.sizes(), x.options()), at::empty_like(trained)};
}

std::tuple<Tensor, Tensor, Tensor> train_finish_backward(const Tensor& grad, const Tensor& y, const Tensor& x, const Tensor& pin,
                                                         const Tensor& trained, int64_t bank, int64_t layer) {
  auto found = Acting(pin, bank, layer, y.size(0)).finish_backward(grad, y, x, trained);
  return {found.y, found.x, found.trained};
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

struct TrainTurn : torch::autograd::Function<TrainTurn> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, pin, trained});
    context->saved_data["bank"] = bank, context->saved_data["layer"] = layer;
    return op<&train_turn>("tenon::train_turn").call(x, pin, trained, bank, layer);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    check_once();
    auto saved = context->get_saved_variables();
    auto [x, trained] =
        op<&train_turn_backward>("tenon::train_turn_backward")
            .call(grads[0], saved[0], saved[1], saved[2], context->saved_data["bank"].toInt(), context->saved_data["layer"].toInt());
    return {x, Tensor(), trained, Tensor(), Tensor()};
  }
};

struct TrainFinish : torch::autograd::Function<TrainFinish> {
  static Tensor forward(AutogradContext* context, const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank,
                        int64_t layer) {
    const Layer& base = Core::find(bank)->layer(static_cast<size_t>(layer));
    if (base.trains() && Acting(pin, bank, layer, y.size(0)).uses_base())
      throw UserError(ErrorCode::adapter, base.path + " trains itself, under an adapter that would have to know of it");
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

Tensor train_turn_autograd(const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
  return TrainTurn::apply(x, pin, trained, bank, layer);
}
Tensor train_finish_autograd(const Tensor& y, const Tensor& x, const Tensor& pin, const Tensor& trained, int64_t bank, int64_t layer) {
  return TrainFinish::apply(y, x, pin, trained, bank, layer);
}

TORCH_LIBRARY_FRAGMENT(tenon, library) {
  library.def("bank_pin(Tensor rows, int bank) -> Tensor");
  library.def("bank_turn(Tensor x, Tensor pin, int bank, int layer, bool lends) -> Tensor");
  library.def("bank_finish_(Tensor(a!) y, Tensor x, Tensor pin, int bank, int layer) -> ()");
  library.def("train_turn(Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> Tensor");
  library.def("train_finish(Tensor y, Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> Tensor");
  library.def("train_turn_backward(Tensor grad, Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> (Tensor, Tensor)");
  library.def(
      "train_finish_backward(Tensor grad, Tensor y, Tensor x, Tensor pin, Tensor trained, int bank, int layer) -> (Tensor, Tensor, "
      "Tensor)");
}
TORCH_LIBRARY_IMPL(tenon, CPU, library) {
  library.impl("bank_pin", bank_pin);
  library.impl("bank_turn", bank_turn);
  library.impl("bank_finish_", bank_finish_);
  library.impl("train_turn", train_turn);
  library.impl("train_finish", train_finish);
  library.impl("train_turn_backward", train_turn_backward);
  library.impl("train_finish_backward", train_finish_backward);
}
TORCH_LIBRARY_IMPL(tenon, Meta, library) {
  library.impl("bank_pin", bank_pin_shape);
  library.impl("bank_turn", bank_turn_shape);
  library.impl("bank_finish_", bank_finish_shape);
  library.impl("train_turn", train_turn_shape);
  library.impl("train_finish", train_finish_shape);
  library.impl("train_turn_backward", train_turn_backward_shape);
  library.impl("train_finish_backward", train_finish_backward_shape);
}
TORCH_LIBRARY_IMPL(tenon, Autograd, library) {
  library.impl("train_turn", train_turn_autograd);
  library.impl("train_finish", train_finish_autograd);
}

}  // namespace

std::shared_ptr<Core> make_core(std::vector<Layer> layers) {
  auto core = std::make_shared<Core>(std::move(layers));
  core->number_ = Core::enter(core);
  return core;
}

}  // namespace tenon::adapters
