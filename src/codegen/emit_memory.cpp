// Loads and stores. Elements outside the range or masked off are never accessed: masked instructions are
// used, or branches if the CPU has none.
#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace ir::loop;
using ir::DType;

namespace {

llvm::Align alignment(llvm::Type* element) { return llvm::Align(element->getScalarSizeInBits() / 8); }

}  // namespace

// Index terms are of three sorts: loop-invariant ones, which are hoisted, ones that are the same for all
// lanes, and ones that vary per lane.
Emitter::VectorAddress Emitter::address_of(const void* statement, int32_t buffer, const Index& index) {
  llvm::Type* element = b_.memory_type(kernel_.buffers[static_cast<size_t>(buffer)].type);
  auto times = [&](Value* x, const LoopSize& by) { return by == LoopSize::constant(1) ? x : b_.CreateMul(x, size(by)); };
  llvm::SmallVector<const IndexTerm*, 4> outside, inside, per_lane;
  Value* stride = b_.getInt64(0);  // Stride between lanes.
  for (const IndexTerm& term : index) {
    bool is_reg = term.kind == IndexTerm::Kind::reg, is_loop = term.kind == IndexTerm::Kind::loop;
    if (is_reg && varies(term.which)) per_lane.push_back(&term);
    else if (is_loop && scope_ && term.which == scope_->variable) stride = b_.CreateAdd(stride, size(term.stride));
    else if ((is_reg && is_inner_register_[term.which]) || (is_loop && scope_ && is_inner_variable_[term.which])) inside.push_back(&term);
    else outside.push_back(&term);
  }
  auto sum = [&](llvm::ArrayRef<const IndexTerm*> terms, Value* start) {
    for (const IndexTerm* term : terms) {
      Value* value = term->kind == IndexTerm::Kind::one    ? size(term->stride)
                     : term->kind == IndexTerm::Kind::loop ? times(variables_[term->which], term->stride)
                                                           : times(scalar(term->which), term->stride);
      start = b_.CreateAdd(start, value);
    }
    return start;
  };
  VectorAddress out;
  out.pointer =
      hoist(statement, [&] { return b_.CreateGEP(element, buffers_[static_cast<size_t>(buffer)], sum(outside, b_.getInt64(0))); });
  Value* start = sum(inside, b_.getInt64(0));
  if (scope_) start = b_.CreateAdd(start, b_.CreateMul(scope_->first, stride));
  out.pointer = b_.CreateGEP(element, out.pointer, start);

  auto* known = llvm::dyn_cast<llvm::ConstantInt>(stride);
  if (per_lane.empty() && known && known->isZero()) return out;
  if (per_lane.empty() && known && known->isOne()) {
    out.kind = VectorAddress::Kind::contiguous;
    return out;
  }
  out.kind = VectorAddress::Kind::scattered;
  for (int which = 0; which < scope_->vectors; ++which) {
    Value* lanes =
        b_.CreateAdd(b_.lane_indices(b_.getInt64Ty(), lanes_), b_.splat(b_.getInt64(static_cast<uint64_t>(which * lanes_)), lanes_));
    Value* offsets = b_.CreateMul(lanes, b_.splat(stride, lanes_));
    for (const IndexTerm* term : per_lane) {
      Value* index_vector = vector_of(term->which, which);
      bool is_one = term->stride == LoopSize::constant(1);
      offsets = b_.CreateAdd(offsets, is_one ? index_vector : b_.CreateMul(index_vector, b_.splat(size(term->stride), lanes_)));
    }
    out.offsets.push_back(offsets);
  }
  return out;
}

// Returns the mask of active lanes, or null if all are active.
Value* Emitter::mask_of(Reg mask, int which) {
  if (mask == kNoReg) return scope_->mask;
  Value* own = vector_of(mask, which);
  return scope_->mask ? b_.CreateAnd(own, scope_->mask) : own;
}

Value* Emitter::pointers(llvm::Type* element, const VectorAddress& address, int which) {
  if (address.kind == VectorAddress::Kind::uniform) return b_.splat(address.pointer, lanes_);
  return b_.CreateGEP(element, address.pointer, address.offsets[static_cast<size_t>(which)]);
}

// Loads one element, under a branch if there is a mask.
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

// Returns whether the last lanes of a contiguous access are copied element by element through the stack,
// because the CPU has no masked instruction. A branch per lane would be far more code.
bool Emitter::needs_lane_copy(llvm::Type* element, const VectorAddress& address, Reg mask) const {
  int smallest = b_.tier.masked_element;
  bool is_masked = smallest != 0 && static_cast<int>(element->getScalarSizeInBits()) >= 8 * smallest;
  return scope_->mask && mask == kNoReg && address.kind == VectorAddress::Kind::contiguous && !is_masked;
}

void Emitter::copy_lanes(llvm::Type* element, Value* from, Value* to) {
  b_.loop(b_.getInt64(0), scope_->count, 1, {}, [&](Value* i, CarriedValues) {
    Value* value = b_.CreateAlignedLoad(element, b_.CreateGEP(element, from, i), alignment(element));
    b_.CreateAlignedStore(value, b_.CreateGEP(element, to, i), alignment(element));
    return CarriedValues{};
  });
}

Value* Emitter::load_vector(llvm::Type* element, const VectorAddress& address, Reg mask, int which) {
  llvm::Type* type = Builder::wide(element, lanes_);
  if (needs_lane_copy(element, address, mask)) {
    Value* buffer = b_.alloca_at_entry(type);
    b_.CreateStore(llvm::Constant::getNullValue(type), buffer);
    copy_lanes(element, address.pointer, buffer);
    return b_.CreateLoad(type, buffer);
  }
  Value* lanes = mask_of(mask, which);
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (address.kind != VectorAddress::Kind::contiguous)
    return b_.CreateMaskedGather(type, pointers(element, address, which), alignment(element), lanes, zero);
  Value* pointer = b_.CreateConstGEP1_64(element, address.pointer, static_cast<uint64_t>(which * lanes_));
  if (!lanes) return b_.CreateAlignedLoad(type, pointer, alignment(element));
  return b_.CreateMaskedLoad(type, pointer, alignment(element), lanes, zero);
}

void Emitter::operator()(const Load& s) {
  DType type = kernel_.buffers[static_cast<size_t>(s.buffer)].type;
  llvm::Type* element = b_.memory_type(type);
  VectorAddress from = address_of(&s, s.buffer, s.index);
  Vectors vectors;
  if (!varies(s.result)) {
    vectors.push_back(load_one(element, from.pointer, s.mask));
  } else {
    for (int which = 0; which < scope_->vectors; ++which) vectors.push_back(load_vector(element, from, s.mask, which));
  }
  if (type == DType::boolean)
    for (Value*& value : vectors) value = b_.CreateICmpNE(value, Builder::integer(value, 0));
  set(s.result, std::move(vectors));
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

void Emitter::store_vector(llvm::Type* element, Value* value, const VectorAddress& address, Reg mask, int which) {
  if (needs_lane_copy(element, address, mask)) {
    Value* buffer = b_.alloca_at_entry(value->getType());
    b_.CreateStore(value, buffer);
    return copy_lanes(element, buffer, address.pointer);
  }
  Value* lanes = mask_of(mask, which);
  if (address.kind != VectorAddress::Kind::contiguous) {
    b_.CreateMaskedScatter(value, pointers(element, address, which), alignment(element), lanes);
    return;
  }
  Value* pointer = b_.CreateConstGEP1_64(element, address.pointer, static_cast<uint64_t>(which * lanes_));
  if (lanes) b_.CreateMaskedStore(value, pointer, alignment(element), lanes);
  else b_.CreateAlignedStore(value, pointer, alignment(element));
}

void Emitter::operator()(const Store& s) {
  DType type = kernel_.buffers[static_cast<size_t>(s.buffer)].type;
  llvm::Type* element = b_.memory_type(type);
  VectorAddress to = address_of(&s, s.buffer, s.index);
  auto in_memory = [&](Value* value) {
    return type == DType::boolean ? b_.CreateZExt(value, Builder::like(value->getType(), element)) : value;
  };
  bool is_one = to.kind == VectorAddress::Kind::uniform && !varies(s.value) && (s.mask == kNoReg || !varies(s.mask));
  if (!scope_ || is_one) return store_one(element, in_memory(scalar(s.value)), to.pointer, s.mask);
  for (int which = 0; which < scope_->vectors; ++which) store_vector(element, in_memory(vector_of(s.value, which)), to, s.mask, which);
}

}  // namespace tenon::codegen
