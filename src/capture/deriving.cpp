// Deriving: the replayer follows a known stream with other sizes. The geometry of results is inferred, and a stream with the
// new sizes is written without running the ops.
#include "bridge/convert.h"
#include "capture/replayer.h"
#include "capture/shapes.h"
#include "capture/tensors.h"

namespace tenon::capture {

Geometry Replayer::geometry_on_tape(const at::Tensor& tensor, int32_t storage) const {
  Geometry g = geometry_of(tensor);
  g.offset -= storages_[storage].shift / static_cast<int64_t>(tensor.itemsize());
  return g;
}

// Finds a stream that differs from the call so far only in sizes and continues with this op. Returns null if there is none. The current
// stream comes first; while deriving it has been compared already.
std::shared_ptr<const Stream> Replayer::find_alike(const c10::OperatorHandle& op, const Stack& stack) {
  auto continues = [&](const Stream& stream) {
    if (stream.tape.ops.size() <= cursor_) return false;
    matcher_.set_tape(stream.tape);
    storages_.grow(stream.tape.storages.size());
    memory_.scalars.resize(std::max(memory_.scalars.size(), stream.tape.scalars.size()));
    return matcher_.matches_except_sizes(stream.tape.ops[cursor_], op, stack);
  };
  if (!is_deriving() && continues(*stream_)) return stream_;
  for (const auto& other : *streams_)
    if (other.get() != &known() && alike_ops(known(), *other) >= cursor_ && continues(*other)) return other;
  matcher_.set_tape(known().tape);
  return nullptr;
}

// Continues the derived stream with the ops of another one. Storages of earlier ops have the same ids in both.
void Replayer::change_base(const std::shared_ptr<const Stream>& stream) {
  TapePosition at = position_at(stream->tape, cursor_);
  auto replace_rest = [](auto& list, const auto& by, size_t first) {
    list.erase(list.begin() + static_cast<ptrdiff_t>(first), list.end());
    list.insert(list.end(), by.begin() + static_cast<ptrdiff_t>(first), by.end());
  };
  Tape& tape = derived_->tape;
  replace_rest(tape.storages, stream->tape.storages, at.storages);
  replace_rest(tape.externals, stream->tape.externals, at.externals);
  replace_rest(tape.scalars, stream->tape.scalars, at.scalars);
  tape.handles = std::max(tape.handles, stream->tape.handles);
  shared_ops_ = std::min(shared_ops_, shared_ops(*base_, *stream));
  base_ = stream;
  derived_->root = stream->root;
}

// Starts a derived stream with a copy of the known stream's prefix, or continues the one that there is with another base.
bool Replayer::start_deriving(const c10::OperatorHandle& op, const Stack& stack) {
  if (!options_.may_derive) return false;
  std::shared_ptr<const Stream> found = find_alike(op, stack);
  if (!found) return false;
  if (is_deriving()) {
    change_base(found);
    return true;
  }
  shared_ops_ = cursor_;
  base_ = stream_;
  derived_ = std::make_shared<Stream>();
  derived_->tape = prefix(stream_->tape, cursor_, position_at(stream_->tape, cursor_));
  derived_->id = Stream::kNoId;
  change_base(found);
  has_rule_.assign(cursor_, 1);
  stream_ = derived_;
  state_ = ReplayState::deriving;
  return true;
}

namespace {

std::optional<std::vector<Geometry>> result_geometries(const TapeOp& op) {
  std::vector<Geometry> out;
  for (const TapeResult& result : op.results)
    for (const TensorRef& ref : result.items) out.push_back(ref.geometry);
  return out;
}

}  // namespace

const TapeOp* Replayer::derive(const TapeOp& base, const Stack& stack) {
  TapeOp op = base;
  Tape& tape = derived_->tape;
  size_t first = stack.size() - op.args.size();
  bool fits = true;
  auto refresh = [&](TensorRef& ref, const at::Tensor& tensor) {
    if (!ref.defined()) return;
    ref.geometry = geometry_on_tape(tensor, ref.storage);
    fits &= ref.geometry.offset >= 0;  // The tensor begins before the one by which the storage was found.
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
      } else if (auto* number = std::get_if<ir::ScalarTensor>(&op.args[i]); number && std::holds_alternative<ir::Size>(number->number)) {
        *number = bridge::to_scalar_tensor(given.toTensor(), /*plain=*/false);
      }
    }
    for (TapeWrite& write : op.writes) {
      const TapeArgument& arg = op.args[write.argument];
      if (const auto* ref = std::get_if<TensorRef>(&arg)) write.ref = *ref;
      else write.ref = std::get<TensorListRef>(arg).items[write.item];
    }
  }
  if (!fits) return nullptr;
  bool has_rule = !op.immediate && has_shape_rule(base);
  op.shape_rule = base.shape_rule;
  if (has_rule) {
    const TapeOp* equal = equal_ops_.find(tape.ops, op);
    auto inferred = equal ? result_geometries(*equal) : infer_results(op);
    if (inferred && !set_result_geometries(op, *inferred)) return nullptr;
    has_rule = inferred.has_value();
  }
  has_rule_.push_back(has_rule);
  tape.ops.push_back(std::move(op));
  if (has_rule) equal_ops_.add(tape.ops, tape.ops.size() - 1);
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
