// Emits the kernel's arguments, its parallel loop, and all statements that do not access memory.
#include "codegen/emitter.h"

namespace tenon::codegen {

using namespace ir::loop;
using ir::DType;

Emitter::Emitter(const LoopKernel& kernel, Tier tier, llvm::Module& module)
    : kernel_(kernel),
      analysis_(analyze(kernel)),
      tier_(tier),
      module_(module),
      b_(module.getContext(), facts(tier)),
      lanes_(facts(tier).lanes) {
  variables_.resize(static_cast<size_t>(kernel.variables));
  registers_.resize(static_cast<size_t>(kernel.registers));
  is_inner_register_.resize(static_cast<size_t>(kernel.registers));
  is_inner_variable_.resize(static_cast<size_t>(kernel.variables));
}

void Emitter::run() {
  auto* i64 = b_.getInt64Ty();
  auto* pointer = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {i64, i64, pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kEntryPoint, module_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  function_->addFnAttr("target-cpu", facts(tier_).cpu);
  function_->addFnAttr("prefer-vector-width", facts(tier_).width);
  auto* entry = llvm::BasicBlock::Create(module_.getContext(), "entry", function_);
  auto* work = llvm::BasicBlock::Create(module_.getContext(), "work", function_);
  auto* end = llvm::BasicBlock::Create(module_.getContext(), "end", function_);
  b_.SetInsertPoint(entry);
  b_.CreateCondBr(b_.CreateICmpSLT(function_->getArg(0), function_->getArg(1)), work, end);

  b_.SetInsertPoint(work);
  // Loads the three arrays of abi::KernelArguments.
  auto read = [&](unsigned array, llvm::Type* element, size_t count, std::vector<Value*>& out) {
    if (count == 0) return;
    Value* from = b_.CreateLoad(pointer, b_.CreateConstGEP1_32(pointer, function_->getArg(2), array));
    for (size_t i = 0; i < count; ++i) out.push_back(b_.CreateLoad(element, b_.CreateConstGEP1_64(element, from, i)));
  };
  read(0, pointer, kernel_.buffers.size(), buffers_);
  read(1, i64, static_cast<size_t>(kernel_.sizes), sizes_);
  read(2, b_.getDoubleTy(), static_cast<size_t>(kernel_.scalars), scalars_);
  if (analysis_.is_flat) parallel_flat();
  else parallel_nested();
  b_.CreateBr(end);
  end->moveAfter(b_.GetInsertBlock());
  b_.SetInsertPoint(end);
  b_.CreateRetVoid();
}

void Emitter::emit_body(const std::vector<Statement>& body) {
  for (const Statement& statement : body) std::visit(*this, statement.what);
}

// Returns the values of the parallel variables at a position of the flattened range.
CarriedValues Emitter::coordinates(Value* position) {
  const auto& variables = kernel_.outer.variables;
  CarriedValues at(variables.size());
  for (size_t i = variables.size(); i-- > 1;) {
    Value* extent = size(variables[i].extent);
    at[i] = b_.CreateURem(position, extent);
    position = b_.CreateUDiv(position, extent);
  }
  at[0] = position;
  return at;
}

// Increments the first `count` variables like an odometer, if `carry`.
CarriedValues Emitter::advance(CarriedValues at, size_t count, Value* carry) {
  for (size_t i = count; i-- > 0;) {
    Value* next = b_.CreateAdd(at[i], b_.getInt64(1));
    Value* is_over = i == 0 ? b_.getFalse() : b_.CreateICmpEQ(next, size(kernel_.outer.variables[i].extent));
    Value* moved = b_.CreateSelect(is_over, b_.getInt64(0), next);
    at[i] = b_.CreateSelect(carry, moved, at[i]);
    carry = b_.CreateAnd(carry, is_over);
  }
  return at;
}

void Emitter::parallel_nested() {
  const auto& variables = kernel_.outer.variables;
  b_.loop(function_->getArg(0), function_->getArg(1), 1, coordinates(function_->getArg(0)), [&](Value*, CarriedValues at) {
    for (size_t i = 0; i < variables.size(); ++i) variables_[variables[i].id] = at[i];
    emit_body(kernel_.outer.body);
    return advance(at, at.size(), b_.getTrue());
  });
}

// Vectorizes the last variable: the range is split where that variable wraps around.
void Emitter::parallel_flat() {
  const auto& variables = kernel_.outer.variables;
  CarriedValues state = coordinates(function_->getArg(0));
  state.push_back(function_->getArg(0));
  Value* last = function_->getArg(1);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* segment = llvm::BasicBlock::Create(module_.getContext(), "piece", function_);
  b_.CreateBr(segment);
  b_.SetInsertPoint(segment);
  CarriedValues at;
  for (Value* value : state) {
    llvm::PHINode* phi = b_.CreatePHI(b_.getInt64Ty(), 2);
    phi->addIncoming(value, before);
    at.push_back(phi);
  }
  for (size_t i = 0; i < variables.size(); ++i) variables_[variables[i].id] = at[i];
  Value* position = at.back();
  size_t inner = variables.size() - 1;
  Value* left_in_variable = b_.CreateSub(size(variables[inner].extent), at[inner]);
  Value* left = b_.CreateSub(last, position);
  Value* length = b_.call(llvm::Intrinsic::smin, {left_in_variable, left});
  vector_range(variables[inner].id, kernel_.outer.body, {}, at[inner], b_.CreateAdd(at[inner], length));

  CarriedValues next = advance(at, inner, b_.getTrue());
  next[inner] = b_.getInt64(0);
  next.back() = b_.CreateAdd(position, length);
  for (size_t i = 0; i < at.size(); ++i) llvm::cast<llvm::PHINode>(at[i])->addIncoming(next[i], b_.GetInsertBlock());
  auto* done = llvm::BasicBlock::Create(module_.getContext(), "done", function_);
  b_.CreateCondBr(b_.CreateICmpSLT(next.back(), last), segment, done);
  b_.SetInsertPoint(done);
}

void Emitter::set(Reg reg, Vectors vectors) {
  registers_[reg] = std::move(vectors);
  is_inner_register_[reg] = scope_ != nullptr;
}

Value* Emitter::size(const LoopSize& size) {
  return size.is_param ? sizes_[static_cast<size_t>(size.value)] : b_.getInt64(static_cast<uint64_t>(size.value));
}

Value* Emitter::hoist(const void* key, llvm::function_ref<Value*()> make) {
  if (!scope_) return make();
  if (Value* made = scope_->hoisted.lookup(key)) return made;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scope_->preheader->getTerminator());
  Value* made = make();
  scope_->hoisted[key] = made;
  return made;
}

Value* Emitter::vector_of(Reg reg, int which) {
  if (varies(reg)) return registers_[reg][static_cast<size_t>(which)];
  Value* value = scalar(reg);
  if (!scope_) return value;
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(value))
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes_)), constant);
  if (is_inner_register_[reg]) return b_.splat(value, lanes_);
  return hoist(value, [&] { return b_.splat(value, lanes_); });
}

void Emitter::operator()(const Compute& s) {
  if (analysis_.products[s.result] == &s) return;  // The product is fused into the sum.
  Vectors vectors;
  for (int which = 0; which < (varies(s.result) ? scope_->vectors : 1); ++which) {
    llvm::SmallVector<Value*, 3> operands;
    for (Reg operand : s.operands) operands.push_back(varies(s.result) ? vector_of(operand, which) : scalar(operand));
    vectors.push_back(s.op == Op::cast ? cast(b_, operands[0], analysis_.types[s.operands[0]], s.type)
                                       : compute(b_, s.op, s.type, operands));
  }
  set(s.result, std::move(vectors));
}

void Emitter::operator()(const Constant& s) {
  llvm::Type* type = b_.register_type(s.type);
  const auto* integer = std::get_if<int64_t>(&s.value);
  set(s.result,
      {integer ? llvm::cast<Value>(llvm::ConstantInt::getSigned(type, *integer)) : llvm::ConstantFP::get(type, std::get<double>(s.value))});
}

void Emitter::operator()(const ScalarArgument& s) {
  Value* scalar = scalars_[static_cast<size_t>(s.which)];
  if (!scope_) return set(s.result, {cast(b_, scalar, DType::f64, s.type)});
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scope_->preheader->getTerminator());
  set(s.result, {cast(b_, scalar, DType::f64, s.type)});
  is_inner_register_[s.result] = false;
}

void Emitter::operator()(const LoopIndex& s) {
  if (!scope_ || s.loop != scope_->variable) return set(s.result, {variables_[s.loop]});
  Vectors vectors;
  for (int which = 0; which < scope_->vectors; ++which) {
    Value* start = b_.CreateAdd(scope_->first, b_.getInt64(static_cast<uint64_t>(which * lanes_)));
    vectors.push_back(b_.CreateAdd(b_.splat(start, lanes_), b_.lane_indices(b_.getInt64Ty(), lanes_)));
  }
  set(s.result, std::move(vectors));
}

void Emitter::operator()(const Loop& loop) {
  if (loop.kind == Loop::Kind::vector) vector_loop(loop);
  else serial_loop(loop);
}

std::unique_ptr<llvm::Module> emit_module(const LoopKernel& kernel, Tier tier, llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>("kernel", context);
  prepare(*module, tier);
  Emitter(kernel, tier, *module).run();
  return module;
}

}  // namespace tenon::codegen
