// Serial and vector loops and their reductions.
//
// A reduction's tree depends only on the loop's extent. Sums of reals are accumulated in f64. In a vector
// loop they have two levels: each lane sums a block in the type itself, and the sums of blocks are
// accumulated in f64, so that the error does not grow with the number of blocks.
#include "codegen/emitter.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;

// Steps of a vector loop whose f32 partial sums are added to the f64 total at once. Bounds the rounding error; not measured.
constexpr int64_t kStepsPerBlock = 32;

bool sums_in_f64(const Reduction& r) { return r.kind == Reduction::Kind::sum && is_real(r.type); }

bool any_sums_in_f64(const std::vector<Reduction>& reductions) {
  for (const Reduction& r : reductions)
    if (sums_in_f64(r)) return true;
  return false;
}

Value* constant_of(llvm::Constant* element, int lanes) {
  return lanes == 1 ? element : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), element);
}

// Combines neighbours pairwise until one value is left.
Value* combine_pairwise(Builder& b, const Reduction& r, CarriedValues values) {
  while (values.size() > 1) {
    CarriedValues half;
    for (size_t i = 0; i + 1 < values.size(); i += 2) half.push_back(combine(b, r.kind, r.type, values[i], values[i + 1]));
    if (values.size() % 2) half.push_back(values.back());
    values = half;
  }
  return values[0];
}

}  // namespace

// Loop-carried values of a loop's reductions: `totals` between blocks and `partials` between iterations,
// each a flat list with one reduction after the other.
class Emitter::LoopReductions {
 public:
  // `is_vector_loop`: all lanes and unrolled vectors are reduced into one result.
  LoopReductions(Emitter& e, const std::vector<Reduction>& reductions, bool is_vector_loop)
      : e_(e), reductions_(reductions), is_vector_loop_(is_vector_loop) {}

  int lanes(const Reduction& r) const { return is_vector_loop_ || e_.varies(r.value) ? e_.lanes_ : 1; }
  int vectors(const Reduction& r, int unrolled) const { return is_vector_loop_ ? unrolled : e_.varies(r.value) ? e_.scope_->vectors : 1; }

  CarriedValues start(int unrolled) const {
    CarriedValues totals;
    for (const Reduction& r : reductions_) {
      llvm::Constant* element = sums_in_f64(r) ? llvm::ConstantFP::get(e_.b_.getDoubleTy(), 0) : identity(e_.b_, r.kind, r.type);
      int count = sums_in_f64(r) && is_vector_loop_ ? 1 : vectors(r, unrolled);
      for (int i = 0; i < count; ++i) totals.push_back(constant_of(element, lanes(r)));
    }
    return totals;
  }

  // Returns the partials at the beginning of a block in which `used` of `unrolled` vectors are computed.
  CarriedValues begin_block(const CarriedValues& totals, int unrolled, int used) const {
    CarriedValues partials;
    size_t at = 0;
    for (const Reduction& r : reductions_) {
      bool sums_blocks = sums_in_f64(r) && is_vector_loop_;
      for (int i = 0; i < vectors(r, used); ++i)
        partials.push_back(sums_blocks ? constant_of(identity(e_.b_, r.kind, r.type), lanes(r)) : totals[at + static_cast<size_t>(i)]);
      at += static_cast<size_t>(sums_in_f64(r) && is_vector_loop_ ? 1 : vectors(r, unrolled));
    }
    return partials;
  }

  // Adds the values of one iteration.
  CarriedValues step(CarriedValues partials, Value* mask) const {
    size_t at = 0;
    for (const Reduction& r : reductions_) {
      int count = vectors(r, e_.scope_ ? e_.scope_->vectors : 1);
      for (int which = 0; which < count; ++which, ++at) {
        Value* next = add(r, partials[at], which);
        partials[at] = mask ? e_.b_.CreateSelect(mask, next, partials[at]) : next;
      }
    }
    return partials;
  }

  CarriedValues end_block(CarriedValues totals, const CarriedValues& partials, int unrolled, int used) const {
    size_t from = 0, to = 0;
    for (const Reduction& r : reductions_) {
      size_t count = static_cast<size_t>(vectors(r, used));
      CarriedValues block(partials.begin() + from, partials.begin() + from + count);
      bool sums_blocks = sums_in_f64(r) && is_vector_loop_;
      if (sums_blocks) block = {combine_pairwise(e_.b_, r, block)};
      for (size_t i = 0; i < block.size(); ++i)
        totals[to + i] = sums_blocks ? e_.b_.CreateFAdd(totals[to + i], cast(e_.b_, block[i], r.type, DType::f64)) : block[i];
      from += count;
      to += static_cast<size_t>(sums_in_f64(r) && is_vector_loop_ ? 1 : vectors(r, unrolled));
    }
    return totals;
  }

  // Defines the result registers after the loop.
  void finish(const CarriedValues& totals, int unrolled) const {
    size_t at = 0;
    for (const Reduction& r : reductions_) {
      size_t count = static_cast<size_t>(sums_in_f64(r) && is_vector_loop_ ? 1 : vectors(r, unrolled));
      CarriedValues values(totals.begin() + at, totals.begin() + at + count);
      at += count;
      DType type = sums_in_f64(r) ? DType::f64 : r.type;
      if (is_vector_loop_) values = {across_lanes(e_.b_, r.kind, type, combine_pairwise(e_.b_, r, values))};
      Vectors result;
      for (Value* value : values) result.push_back(cast(e_.b_, value, type, r.type));
      e_.set(r.result, result);
    }
  }

 private:
  Value* add(const Reduction& r, Value* partial, int which) const {
    auto of = [&](Reg reg) { return lanes(r) > 1 ? e_.vector_of(reg, which) : e_.scalar(reg); };
    const Compute* product = e_.analysis_.products[r.value];
    if (sums_in_f64(r) && !is_vector_loop_) {
      Value* value = product ? e_.b_.CreateFMul(of(product->operands[0]), of(product->operands[1])) : of(r.value);
      return e_.b_.CreateFAdd(partial, cast(e_.b_, value, r.type, DType::f64));
    }
    if (product) return e_.b_.mad(of(product->operands[0]), of(product->operands[1]), partial);
    return combine(e_.b_, r.kind, r.type, partial, of(r.value));
  }

  Emitter& e_;
  const std::vector<Reduction>& reductions_;
  bool is_vector_loop_;
};

// Emits a loop from first to last, split into blocks if a reduction needs them.
CarriedValues Emitter::reduce(const LoopReductions& loop_reductions, bool in_blocks, Value* first, Value* last, int64_t step, int64_t block,
                              CarriedValues totals, int unrolled, llvm::function_ref<CarriedValues(Value*, CarriedValues)> body) {
  auto one_block = [&](Value* from, Value* to, CarriedValues state) {
    CarriedValues partials = b_.loop(from, to, step, loop_reductions.begin_block(state, unrolled, unrolled), body);
    return loop_reductions.end_block(state, partials, unrolled, unrolled);
  };
  if (!in_blocks) return one_block(first, last, totals);
  return b_.loop(first, last, step * block, totals, [&](Value* from, CarriedValues state) {
    Value* to = b_.CreateAdd(from, b_.getInt64(static_cast<uint64_t>(step * block)));
    return one_block(from, b_.call(llvm::Intrinsic::smin, {to, last}), state);
  });
}

void Emitter::serial_loop(const Loop& loop) {
  const Loop::Variable& variable = loop.variables[0];
  is_inner_variable_[variable.id] = scope_ != nullptr;
  LoopReductions loop_reductions(*this, loop.reductions, false);
  CarriedValues totals = reduce(loop_reductions, false, b_.getInt64(0), size(variable.extent), 1, 1, loop_reductions.start(1), 1,
                                [&](Value* i, CarriedValues partials) {
                                  variables_[variable.id] = i;
                                  emit_body(loop.body);
                                  return loop_reductions.step(partials, nullptr);
                                });
  loop_reductions.finish(totals, 1);
}

void Emitter::vector_loop(const Loop& loop) {
  const Loop::Variable& variable = loop.variables[0];
  vector_range(variable.id, loop.body, loop.reductions, b_.getInt64(0), size(variable.extent));
}

// Emits an unrolled loop over full vectors, then a masked loop over single vectors for the rest, so that
// no element outside the range is accessed.
void Emitter::vector_range(int32_t variable, const std::vector<Statement>& body, const std::vector<Reduction>& reductions, Value* first,
                           Value* last) {
  LoopReductions loop_reductions(*this, reductions, true);
  VectorScope scope;
  scope.variable = variable;
  scope.preheader = b_.GetInsertBlock();
  Value* count = b_.CreateSub(last, first);
  auto* known = llvm::dyn_cast<llvm::ConstantInt>(count);
  int unrolled = unroll(body, analysis_);
  while (known && unrolled > 1 && known->getSExtValue() < lanes_ * unrolled) unrolled /= 2;
  int64_t step = lanes_ * unrolled;
  Value* middle = b_.CreateAdd(first, b_.CreateAnd(count, b_.getInt64(static_cast<uint64_t>(-step))));
  scope_ = &scope;
  auto iteration = [&](Value* i, CarriedValues partials) {
    scope.first = i;
    emit_body(body);
    return loop_reductions.step(partials, scope.mask);
  };
  CarriedValues totals = loop_reductions.start(unrolled);
  if (!known || known->getSExtValue() >= step) {
    scope.vectors = unrolled;
    bool is_short = known && known->getSExtValue() <= step * kStepsPerBlock;
    totals =
        reduce(loop_reductions, any_sums_in_f64(reductions) && !is_short, first, middle, step, kStepsPerBlock, totals, unrolled, iteration);
  }
  if (!known || known->getSExtValue() % step != 0) {
    scope.vectors = 1;
    CarriedValues partials =
        b_.loop(middle, last, lanes_, loop_reductions.begin_block(totals, unrolled, 1), [&](Value* i, CarriedValues state) {
          // The mask is computed in i32, the width of an f32 lane.
          scope.count = b_.call(llvm::Intrinsic::smin, {b_.CreateSub(last, i), b_.getInt64(static_cast<uint64_t>(lanes_))});
          Value* count_32 = b_.splat(b_.CreateTrunc(scope.count, b_.getInt32Ty()), lanes_);
          scope.mask = b_.CreateICmpSGT(count_32, b_.lane_indices(b_.getInt32Ty(), lanes_));
          return iteration(i, state);
        });
    totals = loop_reductions.end_block(totals, partials, unrolled, 1);
  }
  scope_ = nullptr;
  loop_reductions.finish(totals, unrolled);
}

}  // namespace tenon::codegen
