// Loads and stores. No element is touched that the kernel does not name: what lies outside a range or
// under a mask is left alone by masked instructions, or by branches where the CPU has none.
#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace ir::loop;
using ir::DType;

namespace {

llvm::Align alignment(llvm::Type* element) { return llvm::Align(element->getScalarSizeInBits() / 8); }

}  // namespace

// The terms fall into what is known in front of the vector loop, what is the same for all lanes, and
// what is not.
Emitter::Place Emitter::place(const void* statement, int32_t buffer, const Index& index) {
  llvm::Type* element = b_.memory_type(kernel_.buffers[static_cast<size_t>(buffer)].type);
  auto times = [&](Value* x, const Size& by) { return by == Size::constant(1) ? x : b_.CreateMul(x, size(by)); };
  llvm::SmallVector<const Term*, 4> outside, inside, per_lane;
  Value* stride = b_.getInt64(0);  // from lane to lane
  for (const Term& term : index) {
    bool is_reg = term.kind == Term::Kind::reg, is_loop = term.kind == Term::Kind::loop;
    if (is_reg && varies(term.which)) per_lane.push_back(&term);
    else if (is_loop && frame_ && term.which == frame_->variable) stride = b_.CreateAdd(stride, size(term.stride));
    else if ((is_reg && is_inside_[term.which]) || (is_loop && frame_ && is_in_frame_[term.which])) inside.push_back(&term);
    else outside.push_back(&term);
  }
  auto sum = [&](llvm::ArrayRef<const Term*> terms, Value* start) {
    for (const Term* term : terms) {
      Value* value = term->kind == Term::Kind::one    ? size(term->stride)
                     : term->kind == Term::Kind::loop ? times(variables_[term->which], term->stride)
                                                      : times(scalar(term->which), term->stride);
      start = b_.CreateAdd(start, value);
    }
    return start;
  };
  Place out;
  out.pointer =
      in_front(statement, [&] { return b_.CreateGEP(element, buffers_[static_cast<size_t>(buffer)], sum(outside, b_.getInt64(0))); });
  Value* start = sum(inside, b_.getInt64(0));
  if (frame_) start = b_.CreateAdd(start, b_.CreateMul(frame_->first, stride));
  out.pointer = b_.CreateGEP(element, out.pointer, start);

  auto* known = llvm::dyn_cast<llvm::ConstantInt>(stride);
  if (per_lane.empty() && known && known->isZero()) return out;
  if (per_lane.empty() && known && known->isOne()) {
    out.kind = Place::Kind::row;
    return out;
  }
  out.kind = Place::Kind::spread;
  for (int which = 0; which < frame_->parts; ++which) {
    Value* lanes =
        b_.CreateAdd(b_.lane_numbers(b_.getInt64Ty(), lanes_), b_.splat(b_.getInt64(static_cast<uint64_t>(which * lanes_)), lanes_));
    Value* offsets = b_.CreateMul(lanes, b_.splat(stride, lanes_));
    for (const Term* term : per_lane) {
      Value* index_part = part(term->which, which);
      bool is_one = term->stride == Size::constant(1);
      offsets = b_.CreateAdd(offsets, is_one ? index_part : b_.CreateMul(index_part, b_.splat(size(term->stride), lanes_)));
    }
    out.offsets.push_back(offsets);
  }
  return out;
}

// The lanes to touch, or null for all of them.
Value* Emitter::mask_of(Reg mask, int which) {
  if (mask == kNoReg) return frame_->mask;
  Value* own = part(mask, which);
  return frame_->mask ? b_.CreateAnd(own, frame_->mask) : own;
}

Value* Emitter::pointers(llvm::Type* element, const Place& place, int which) {
  if (place.kind == Place::Kind::one) return b_.splat(place.pointer, lanes_);
  return b_.CreateGEP(element, place.pointer, place.offsets[static_cast<size_t>(which)]);
}

// Under an `if` where there is a mask.
Value* Emitter::load_one(llvm::Type* element, Value* pointer, Reg mask) {
  if (mask == kNoReg) return b_.CreateAlignedLoad(element, pointer, alignment(element));
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(module_.getContext(), "read", function_);
  auto* after = llvm::BasicBlock::Create(module_.getContext(), "go_on", function_);
  b_.CreateCondBr(scalar(mask), inside, after);
  b_.SetInsertPoint(inside);
  Value* value = b_.CreateAlignedLoad(element, pointer, alignment(element));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* result = b_.CreatePHI(element, 2);
  result->addIncoming(llvm::Constant::getNullValue(element), before);
  result->addIncoming(value, inside);
  return result;
}

// The last lanes of a row where the CPU has no masked instruction: element by element through the
// stack, since a branch for each lane makes far more code.
bool Emitter::by_copy(llvm::Type* element, const Place& place, Reg mask) const {
  int smallest = b_.tier.masked_element;
  bool is_masked = smallest != 0 && static_cast<int>(element->getScalarSizeInBits()) >= 8 * smallest;
  return frame_->mask && mask == kNoReg && place.kind == Place::Kind::row && !is_masked;
}

void Emitter::copy_lanes(llvm::Type* element, Value* from, Value* to) {
  b_.loop(b_.getInt64(0), frame_->count, 1, {}, [&](Value* i, State) {
    Value* value = b_.CreateAlignedLoad(element, b_.CreateGEP(element, from, i), alignment(element));
    b_.CreateAlignedStore(value, b_.CreateGEP(element, to, i), alignment(element));
    return State{};
  });
}

Value* Emitter::load_part(llvm::Type* element, const Place& place, Reg mask, int which) {
  llvm::Type* type = Builder::wide(element, lanes_);
  if (by_copy(element, place, mask)) {
    Value* room = b_.room(type);
    b_.CreateStore(llvm::Constant::getNullValue(type), room);
    copy_lanes(element, place.pointer, room);
    return b_.CreateLoad(type, room);
  }
  Value* lanes = mask_of(mask, which);
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (place.kind != Place::Kind::row) return b_.CreateMaskedGather(type, pointers(element, place, which), alignment(element), lanes, zero);
  Value* pointer = b_.CreateConstGEP1_64(element, place.pointer, static_cast<uint64_t>(which * lanes_));
  if (!lanes) return b_.CreateAlignedLoad(type, pointer, alignment(element));
  return b_.CreateMaskedLoad(type, pointer, alignment(element), lanes, zero);
}

void Emitter::operator()(const Load& s) {
  DType type = kernel_.buffers[static_cast<size_t>(s.buffer)].type;
  llvm::Type* element = b_.memory_type(type);
  Place from = place(&s, s.buffer, s.index);
  Parts parts;
  if (!varies(s.result)) {
    parts.push_back(load_one(element, from.pointer, s.mask));
  } else {
    for (int which = 0; which < frame_->parts; ++which) parts.push_back(load_part(element, from, s.mask, which));
  }
  if (type == DType::boolean)
    for (Value*& value : parts) value = b_.CreateICmpNE(value, Builder::integer(value, 0));
  set(s.result, std::move(parts));
}

void Emitter::store_one(llvm::Type* element, Value* value, Value* pointer, Reg mask) {
  llvm::BasicBlock* after = nullptr;
  if (mask != kNoReg) {
    auto* inside = llvm::BasicBlock::Create(module_.getContext(), "write", function_);
    after = llvm::BasicBlock::Create(module_.getContext(), "go_on", function_);
    b_.CreateCondBr(scalar(mask), inside, after);
    b_.SetInsertPoint(inside);
  }
  b_.CreateAlignedStore(value, pointer, alignment(element));
  if (!after) return;
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void Emitter::store_part(llvm::Type* element, Value* value, const Place& place, Reg mask, int which) {
  if (by_copy(element, place, mask)) {
    Value* room = b_.room(value->getType());
    b_.CreateStore(value, room);
    return copy_lanes(element, room, place.pointer);
  }
  Value* lanes = mask_of(mask, which);
  if (place.kind != Place::Kind::row) {
    b_.CreateMaskedScatter(value, pointers(element, place, which), alignment(element), lanes);
    return;
  }
  Value* pointer = b_.CreateConstGEP1_64(element, place.pointer, static_cast<uint64_t>(which * lanes_));
  if (lanes) b_.CreateMaskedStore(value, pointer, alignment(element), lanes);
  else b_.CreateAlignedStore(value, pointer, alignment(element));
}

void Emitter::operator()(const Store& s) {
  DType type = kernel_.buffers[static_cast<size_t>(s.buffer)].type;
  llvm::Type* element = b_.memory_type(type);
  Place to = place(&s, s.buffer, s.index);
  auto in_memory = [&](Value* value) {
    return type == DType::boolean ? b_.CreateZExt(value, Builder::like(value->getType(), element)) : value;
  };
  bool is_one = to.kind == Place::Kind::one && !varies(s.value) && (s.mask == kNoReg || !varies(s.mask));
  if (!frame_ || is_one) return store_one(element, in_memory(scalar(s.value)), to.pointer, s.mask);
  for (int which = 0; which < frame_->parts; ++which) store_part(element, in_memory(part(s.value, which)), to, s.mask, which);
}

}  // namespace tenon::codegen
