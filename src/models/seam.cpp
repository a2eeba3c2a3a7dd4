#include "models/seam.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

namespace tenon {

namespace {

thread_local at::Tensor t_pin;  // rows of the call that runs on this thread

using BankPin = at::Tensor(const at::Tensor&, int64_t);
using BankTurn = at::Tensor(const at::Tensor&, const at::Tensor&, int64_t, int64_t, bool);
using BankFinish = void(at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t, int64_t);
using TrainTurn = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t, int64_t);
using TrainFinish = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t, int64_t);

template <class Signature>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

bool meets_bank(const Module& layer) { return layer.seam().bank != 0 && t_pin.defined(); }

}  // namespace

Model::Call::Call(const Model& model, const Rows* rows) : before_(t_pin) {
  t_pin = at::Tensor();
  if (model.bank_ == 0) return;
  static const auto op = find<BankPin>("tenon::bank_pin");
  t_pin = op.call(rows ? rows->entries : model.rows_, model.bank_);
}

Model::Call::~Call() { t_pin = std::move(before_); }

at::Tensor Model::forward(const at::Tensor& input, const at::Tensor& mask, const at::Tensor& types) {
  Call call(*this, nullptr);
  return compute(input, mask, types);
}

at::Tensor Model::forward(const at::Tensor& input, const Rows& rows, const at::Tensor& mask, const at::Tensor& types) {
  Call call(*this, &rows);
  return compute(input, mask, types);
}

namespace models {

at::Tensor turn(const Module& layer, const at::Tensor& x) {
  if (!meets_bank(layer)) return x;
  const Seam& seam = layer.seam();
  static const auto op = find<BankTurn>("tenon::bank_turn");
  static const auto train = find<TrainTurn>("tenon::train_turn");
  if (at::GradMode::is_enabled()) return train.call(x, t_pin, seam.trained, seam.bank, seam.layer);
  return op.call(x, t_pin, seam.bank, seam.layer, /*lends=*/false);
}

at::Tensor finish(const Module& layer, const at::Tensor& x, at::Tensor y) {
  if (!meets_bank(layer)) return y;
  const Seam& seam = layer.seam();
  static const auto op = find<BankFinish>("tenon::bank_finish_");
  static const auto train = find<TrainFinish>("tenon::train_finish");
  if (at::GradMode::is_enabled()) return train.call(y, x, t_pin, seam.trained, seam.bank, seam.layer);
  op.call(y, x, t_pin, seam.bank, seam.layer);
  return y;
}

}  // namespace models
}  // namespace tenon
