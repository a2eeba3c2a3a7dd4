// Serial and vector loops, and what they leave behind.
//
// A reduction's tree depends on the loop's extent alone. Sums of reals are kept in f64. In a vector loop,
// where lanes add up side by side, they have two levels: a block is added up in the type itself, and each
// block's sum is added in f64; so the error does not grow with the number of blocks.
#include "codegen/emitter.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;
using State = Builder::State;

constexpr int64_t kVectorBlock = 32;  // steps

bool is_deep(const Reduction& r) { return r.kind == Reduction::Kind::sum && is_real(r.type); }

bool has_deep(const std::vector<Reduction>& reductions) {
  for (const Reduction& r : reductions)
    if (is_deep(r)) return true;
  return false;
}

Value* constant_of(llvm::Constant* element, int lanes) {
  return lanes == 1 ? element : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), element);
}

// Neighbours first, until one is left.
Value* tree(Builder& b, const Reduction& r, State values) {
  while (values.size() > 1) {
    State half;
    for (size_t i = 0; i + 1 < values.size(); i += 2) half.push_back(combine(b, r.kind, r.type, values[i], values[i + 1]));
    if (values.size() % 2) half.push_back(values.back());
    values = half;
  }
  return values[0];
}

}  // namespace

// What a loop's reductions hold between blocks ("totals") and between iterations ("sofar"), each a flat
// list with the reductions one after the other.
class Emitter::Reducing {
 public:
  // `side_by_side`: of a vector loop, whose parts are parts of one result.
  Reducing(Emitter& e, const std::vector<Reduction>& reductions, bool side_by_side)
      : e_(e), reductions_(reductions), side_by_side_(side_by_side) {}

  int lanes(const Reduction& r) const { return side_by_side_ || e_.varies(r.value) ? e_.lanes_ : 1; }
  int parts(const Reduction& r, int unrolled) const { return side_by_side_ ? unrolled : e_.varies(r.value) ? e_.frame_->parts : 1; }

  State start(int unrolled) const {
    State totals;
    for (const Reduction& r : reductions_) {
      llvm::Constant* element = is_deep(r) ? llvm::ConstantFP::get(e_.b_.getDoubleTy(), 0) : identity(e_.b_, r.kind, r.type);
      int count = is_deep(r) && side_by_side_ ? 1 : parts(r, unrolled);
      for (int i = 0; i < count; ++i) totals.push_back(constant_of(element, lanes(r)));
    }
    return totals;
  }

  // Into a block of which `used` parts of `unrolled` are worked on.
  State enter(const State& totals, int unrolled, int used) const {
    State sofar;
    size_t at = 0;
    for (const Reduction& r : reductions_) {
      bool anew = is_deep(r) && side_by_side_;
      for (int i = 0; i < parts(r, used); ++i)
        sofar.push_back(anew ? constant_of(identity(e_.b_, r.kind, r.type), lanes(r)) : totals[at + static_cast<size_t>(i)]);
      at += static_cast<size_t>(is_deep(r) && side_by_side_ ? 1 : parts(r, unrolled));
    }
    return sofar;
  }

  // One iteration's values.
  State step(State sofar, Value* mask) const {
    size_t at = 0;
    for (const Reduction& r : reductions_) {
      int count = parts(r, e_.frame_ ? e_.frame_->parts : 1);
      for (int which = 0; which < count; ++which, ++at) {
        Value* next = add(r, sofar[at], which);
        sofar[at] = mask ? e_.b_.CreateSelect(mask, next, sofar[at]) : next;
      }
    }
    return sofar;
  }

  State leave(State totals, const State& sofar, int unrolled, int used) const {
    size_t from = 0, to = 0;
    for (const Reduction& r : reductions_) {
      size_t count = static_cast<size_t>(parts(r, used));
      State block(sofar.begin() + from, sofar.begin() + from + count);
      bool anew = is_deep(r) && side_by_side_;
      if (anew) block = {tree(e_.b_, r, block)};
      for (size_t i = 0; i < block.size(); ++i)
        totals[to + i] = anew ? e_.b_.CreateFAdd(totals[to + i], cast(e_.b_, block[i], r.type, DType::f64)) : block[i];
      from += count;
      to += static_cast<size_t>(is_deep(r) && side_by_side_ ? 1 : parts(r, unrolled));
    }
    return totals;
  }

  // Behind the loop.
  void finish(const State& totals, int unrolled) const {
    size_t at = 0;
    for (const Reduction& r : reductions_) {
      size_t count = static_cast<size_t>(is_deep(r) && side_by_side_ ? 1 : parts(r, unrolled));
      State values(totals.begin() + at, totals.begin() + at + count);
      at += count;
      DType type = is_deep(r) ? DType::f64 : r.type;
      if (side_by_side_) values = {across_lanes(e_.b_, r.kind, type, tree(e_.b_, r, values))};
      Parts result;
      for (Value* value : values) result.push_back(cast(e_.b_, value, type, r.type));
      e_.set(r.result, result);
    }
  }

 private:
  Value* add(const Reduction& r, Value* sofar, int which) const {
    auto of = [&](Reg reg) { return lanes(r) > 1 ? e_.part(reg, which) : e_.scalar(reg); };
    const Compute* product = e_.analysis_.products[r.value];
    if (is_deep(r) && !side_by_side_) {
      Value* value = product ? e_.b_.CreateFMul(of(product->operands[0]), of(product->operands[1])) : of(r.value);
      return e_.b_.CreateFAdd(sofar, cast(e_.b_, value, r.type, DType::f64));
    }
    if (product) return e_.b_.mad(of(product->operands[0]), of(product->operands[1]), sofar);
    return combine(e_.b_, r.kind, r.type, sofar, of(r.value));
  }

  Emitter& e_;
  const std::vector<Reduction>& reductions_;
  bool side_by_side_;
};

// From first to last in steps, in blocks if a reduction wants them.
Emitter::State Emitter::reduce(const Reducing& reducing, bool in_blocks, Value* first, Value* last, int64_t step, int64_t block,
                               State totals, int unrolled, llvm::function_ref<State(Value*, State)> body) {
  auto one_block = [&](Value* from, Value* to, State state) {
    State sofar = b_.loop(from, to, step, reducing.enter(state, unrolled, unrolled), body);
    return reducing.leave(state, sofar, unrolled, unrolled);
  };
  if (!in_blocks) return one_block(first, last, totals);
  return b_.loop(first, last, step * block, totals, [&](Value* from, State state) {
    Value* to = b_.CreateAdd(from, b_.getInt64(static_cast<uint64_t>(step * block)));
    return one_block(from, b_.call(llvm::Intrinsic::smin, {to, last}), state);
  });
}

void Emitter::serial_loop(const Loop& loop) {
  const Loop::Variable& variable = loop.variables[0];
  is_in_frame_[variable.number] = frame_ != nullptr;
  Reducing reducing(*this, loop.reductions, false);
  State totals = reduce(reducing, false, b_.getInt64(0), size(variable.extent), 1, 1, reducing.start(1), 1, [&](Value* i, State sofar) {
    variables_[variable.number] = i;
    each(loop.body);
    return reducing.step(sofar, nullptr);
  });
  reducing.finish(totals, 1);
}

void Emitter::vector_loop(const Loop& loop) {
  const Loop::Variable& variable = loop.variables[0];
  vector_range(variable.number, loop.body, loop.reductions, b_.getInt64(0), size(variable.extent));
}

// Whole vectors first, several at once; then the rest, one vector at a time under a mask, so that no
// element outside the range is touched.
void Emitter::vector_range(int32_t variable, const std::vector<Statement>& body, const std::vector<Reduction>& reductions, Value* first,
                           Value* last) {
  Reducing reducing(*this, reductions, true);
  Frame frame;
  frame.variable = variable;
  frame.before = b_.GetInsertBlock();
  Value* count = b_.CreateSub(last, first);
  auto* known = llvm::dyn_cast<llvm::ConstantInt>(count);
  int unrolled = unroll(body, analysis_);
  while (known && unrolled > 1 && known->getSExtValue() < lanes_ * unrolled) unrolled /= 2;
  int64_t step = lanes_ * unrolled;
  Value* middle = b_.CreateAdd(first, b_.CreateAnd(count, b_.getInt64(static_cast<uint64_t>(-step))));
  frame_ = &frame;
  auto iteration = [&](Value* i, State sofar) {
    frame.first = i;
    each(body);
    return reducing.step(sofar, frame.mask);
  };
  State totals = reducing.start(unrolled);
  if (!known || known->getSExtValue() >= step) {
    frame.parts = unrolled;
    bool is_short = known && known->getSExtValue() <= step * kVectorBlock;
    totals = reduce(reducing, has_deep(reductions) && !is_short, first, middle, step, kVectorBlock, totals, unrolled, iteration);
  }
  if (!known || known->getSExtValue() % step != 0) {
    frame.parts = 1;
    State sofar = b_.loop(middle, last, lanes_, reducing.enter(totals, unrolled, 1), [&](Value* i, State state) {
      // Compared in 32 bits, the width of a lane.
      frame.count = b_.call(llvm::Intrinsic::smin, {b_.CreateSub(last, i), b_.getInt64(static_cast<uint64_t>(lanes_))});
      Value* count_32 = b_.splat(b_.CreateTrunc(frame.count, b_.getInt32Ty()), lanes_);
      frame.mask = b_.CreateICmpSGT(count_32, b_.lane_numbers(b_.getInt32Ty(), lanes_));
      return iteration(i, state);
    });
    totals = reducing.leave(totals, sofar, unrolled, 1);
  }
  frame_ = nullptr;
  reducing.finish(totals, unrolled);
}

}  // namespace tenon::codegen
