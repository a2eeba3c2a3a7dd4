#include "models/adapter_site.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/per_thread.h"

namespace tenon {

namespace {

// The pinned rows of the call that runs on this thread, and the id of their bank.
struct Pin {
  at::Tensor rows;
  int64_t bank = 0;
};
Pin& pin_of_thread() { return per_thread<Pin>(); }

using BankPinOp = at::Tensor(const at::Tensor&, int64_t);
using BankTransformInputOp = at::Tensor(const at::Tensor&, const at::Tensor&, int64_t, int64_t, bool);
using BankApplyOp = void(at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t, int64_t);
using TrainLayerOp = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, const at::Tensor&,
                                const at::Tensor&, int64_t, int64_t);
using TrainLayerDropoutOp = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                                               const at::Tensor&, const at::Tensor&, int64_t, int64_t);
using TrainFinishOp = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t, int64_t);

template <class Signature>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Throws UserError if the model has no bank or the tensor cannot be rows.
void check_rows(const at::Tensor& rows, int64_t bank) {
  if (bank == 0)
    throw UserError(
        ErrorCode::adapter,
        "rows were given to a model that has no bank: the bank that made them no longer exists, or is the bank of another model. "
        "Make a tenon::Bank on this model, and the rows with its rows().");
  if (!rows.defined() || rows.scalar_type() != at::kLong || rows.dim() != 1)
    throw UserError(ErrorCode::adapter, "rows must be an int64 tensor of one dimension. Make them with rows() of the model's bank.");
}

[[noreturn]] void refuse_count(const Rows& rows, int64_t batch) {
  throw UserError(ErrorCode::adapter, "there are " + std::to_string(rows.entries.numel()) + " rows for a batch of " +
                                          std::to_string(batch) + ". Give one name for each row of the batch.");
}

bool has_pinned_bank(const AdapterSite& site) { return site.bank != 0 && site.bank == pin_of_thread().bank; }

}  // namespace

namespace models {

PinScope::PinScope(const at::Tensor& rows, int64_t bank, bool is_given)
    : before_(pin_of_thread().rows), bank_before_(pin_of_thread().bank) {
  if (is_given) check_rows(rows, bank);
  if (bank == 0 || (bank == pin_of_thread().bank && !is_given)) return;
  static const auto op = find<BankPinOp>("tenon::bank_pin");
  pin_of_thread().rows = op.call(rows, bank);
  pin_of_thread().bank = bank;
}

PinScope::~PinScope() { pin_of_thread().rows = std::move(before_), pin_of_thread().bank = bank_before_; }

}  // namespace models

at::Tensor Model::forward(const at::Tensor& input, const at::Tensor& mask, const at::Tensor& types) {
  models::PinScope pin(rows_, bank_, /*is_given=*/false);
  return compute(input, mask, types);
}

at::Tensor Model::forward(const at::Tensor& input, const Rows& rows, const at::Tensor& mask, const at::Tensor& types) {
  models::PinScope pin(rows.entries, bank_, /*is_given=*/true);
  bool has_batch = input.defined() && input.dim() > 0;  // Otherwise compute() refuses the input.
  if (has_batch && rows.entries.numel() != input.size(0)) refuse_count(rows, input.size(0));
  return compute(input, mask, types);
}

namespace models {

at::Tensor transform_input(const AdapterSite& site, const at::Tensor& x) {
  if (!has_pinned_bank(site)) return x;
  static const auto op = find<BankTransformInputOp>("tenon::bank_transform_input");
  return op.call(x, pin_of_thread().rows, site.bank, site.layer, /*may_alias=*/false);
}

at::Tensor apply_to_output(const AdapterSite& site, const at::Tensor& x, at::Tensor y) {
  if (!has_pinned_bank(site)) return y;
  static const auto op = find<BankApplyOp>("tenon::bank_apply_");
  static const auto train = find<TrainFinishOp>("tenon::train_finish");
  if (at::GradMode::is_enabled()) return train.call(y, x, pin_of_thread().rows, site.trained, site.bank, site.layer);
  op.call(y, x, pin_of_thread().rows, site.bank, site.layer);
  return y;
}

bool records_gradients(const AdapterSite& site) { return has_pinned_bank(site) && at::GradMode::is_enabled(); }

at::Tensor train_layer(const AdapterSite& site, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  static const auto op = find<TrainLayerOp>("tenon::train_layer");
  static const auto with_dropout = find<TrainLayerDropoutOp>("tenon::train_layer_dropout");
  std::optional<at::Tensor> given = bias.defined() ? std::optional(bias) : std::nullopt;
  if (site.is_training && site.is_training())
    return std::get<0>(with_dropout.call(x, weight, given, pin_of_thread().rows, site.trained, site.bank, site.layer));
  return op.call(x, weight, given, pin_of_thread().rows, site.trained, site.bank, site.layer);
}

}  // namespace models
}  // namespace tenon
