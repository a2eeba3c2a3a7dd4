// Deriving: the replayer follows a known stream with other sizes. The geometry of results is inferred, and a stream with the
// new sizes is written without running the ops.
#include "capture/replayer.h"
#include "capture/shapes.h"
#include "capture/tensors.h"

namespace tenon::capture {

Geometry Replayer::geometry_on_tape(const at::Tensor& tensor, int32_t storage) const {
  Geometry g = geometry_of(tensor);
  g.offset -= storages_[storage].shift / static_cast<int64_t>(tensor.itemsize());
  return g;
}

// Starts a derived stream with a copy of the known stream's prefix.
bool Replayer::start_deriving(const c10::OperatorHandle& op, const Stack& stack) {
  const TapeOp* entry = is_deriving() ? nullptr : expected();
  if (!entry || !options_.may_derive) return false;
  if (!matcher_.matches_except_sizes(*entry, op, stack)) return false;
  base_ = stream_;
  shared_ops_ = cursor_;
  derived_ = std::make_shared<Stream>();
  derived_->tape = prefix(base_->tape, cursor_, position_at(base_->tape, cursor_));
  derived_->tape.storages = base_->tape.storages;
  derived_->tape.externals = base_->tape.externals;
  derived_->tape.scalars = base_->tape.scalars;
  derived_->id = SIZE_MAX;  // The id is assigned when the stream is added.
  has_rule_.assign(cursor_, 1);
  stream_ = derived_;
  state_ = ReplayState::deriving;
  return true;
}

const TapeOp* Replayer::derive(const TapeOp& base, const Stack& stack) {
  TapeOp op = base;
  Tape& tape = derived_->tape;
  size_t first = stack.size() - op.args.size();
  auto refresh = [&](TensorRef& ref, const at::Tensor& tensor) {
    if (!ref.defined()) return;
    ref.geometry = geometry_on_tape(tensor, ref.storage);
    tape.storages[ref.storage].bytes = storage_of(tensor.unsafeGetTensorImpl())->nbytes();
  };
  if (!op.immediate) {
    for (size_t i = 0; i < op.args.size(); ++i) {
      const c10::IValue& given = stack[first + i];
      if (auto* ref = std::get_if<TensorRef>(&op.args[i])) {
        refresh(*ref, given.toTensor());
      } else if (auto* list = std::get_if<TensorListRef>(&op.args[i])) {
        for (size_t k = 0; k < list->items.size(); ++k)
          if (list->items[k].defined()) refresh(list->items[k], given.toListRef()[k].toTensor());
      } else if (auto* value = std::get_if<c10::IValue>(&op.args[i]); value && (value->isInt() || value->isIntList())) {
        *value = given;
      }
    }
    for (TapeWrite& write : op.writes) {
      const TapeArgument& arg = op.args[write.argument];
      if (const auto* ref = std::get_if<TensorRef>(&arg)) write.ref = *ref;
      else write.ref = std::get<TensorListRef>(arg).items[write.item];
    }
  }
  auto inferred = op.immediate ? std::nullopt : infer_results(op, base);
  if (inferred && !set_result_geometries(op, *inferred)) return nullptr;
  has_rule_.push_back(inferred.has_value());
  tape.ops.push_back(std::move(op));
  return &tape.ops.back();
}

// Returns false if the number of results differs from the known stream's.
bool Replayer::set_result_geometries(TapeOp& op, std::vector<Geometry>& inferred) {
  size_t next = 0;
  for (TapeResult& result : op.results)
    for (size_t i = 0; i < result.items.size(); ++i) {
      TensorRef& ref = result.items[i];
      if (next >= inferred.size()) return false;
      Geometry& g = inferred[next++];
      if (!ref.defined()) continue;
      const Origin& origin = result.origins[i];
      ref.geometry = std::move(g);
      if (origin.argument < 0) {
        int64_t last = ref.geometry.offset;
        bool empty = false;
        for (size_t d = 0; d < ref.geometry.sizes.size(); ++d) {
          empty |= ref.geometry.sizes[d] == 0;
          last += (ref.geometry.sizes[d] - 1) * ref.geometry.strides[d];
        }
        derived_->tape.storages[ref.storage].bytes = empty ? 0 : static_cast<size_t>(last + 1) * c10::elementSize(ref.geometry.dtype);
      }
    }
  return next == inferred.size();
}

// Takes the results' geometry from a derived op that has run.
void Replayer::record_real_results(const Stack& stack) {
  TapeOp& op = derived_->tape.ops.back();
  for (size_t r = 0; r < op.results.size(); ++r) {
    TapeResult& result = op.results[r];
    size_t i = 0;
    for_each_tensor(stack[stack.size() - op.results.size() + r], [&](const at::Tensor& tensor) {
      size_t at = i++;
      if (at >= result.items.size() || !result.items[at].defined() || !is_plain(tensor.unsafeGetTensorImpl())) {
        derivable_ = false;
        return;
      }
      TensorRef& ref = result.items[at];
      int32_t memory = storages_.find(storage_of(tensor.unsafeGetTensorImpl()));
      derivable_ &= memory == (result.origins[at].argument < 0 ? -1 : ref.storage);
      ref.geometry = geometry_on_tape(tensor, ref.storage);
      derived_->tape.storages[ref.storage].bytes = storage_of(tensor.unsafeGetTensorImpl())->nbytes();
    });
    if (!result.items.empty() && result.items[0].defined()) derivable_ &= i == result.items.size();
  }
}

}  // namespace tenon::capture
