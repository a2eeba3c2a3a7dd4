// The computations of random kernels, of two kinds. An exact kernel only has ops with a unique result on any values, including NaN
// and infinity. Any other kernel has all ops, on small values. For each value, a bound of its magnitude and of the difference between
// two correct implementations is known, so that no comparison and no rounding to integers depends on that difference.
#pragma once

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "ir/loop/loop.h"

namespace tenon::test {

class Dice {
 public:
  explicit Dice(std::mt19937_64& random) : random_(random) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return unit() < p; }
  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  template <class List>
  auto& pick(List& list) {
    return list[below(static_cast<int64_t>(std::size(list)))];
  }
  // Prefers later elements.
  template <class List>
  auto& pick_late(List& list) {
    auto n = static_cast<int64_t>(std::size(list));
    return list[std::max({below(n), below(n), below(n)})];
  }
  uint64_t bits() { return random_(); }

 private:
  std::mt19937_64& random_;
};

struct Item {
  ir::loop::Reg reg = ir::loop::kNoReg;
  ir::DType type = ir::DType::f32;
  double limit = 0;        // Bound of the absolute value; not used in an exact kernel.
  double error = 0;        // Bound of the difference between correct results; 0 if the result is unique.
  bool is_loaded = false;  // Even the sign of a NaN is known.
};

class RandomValues {
 public:
  using DType = ir::DType;
  using Op = ir::loop::Op;

  RandomValues(Dice& dice, ir::loop::LoopKernel& kernel, bool is_exact) : dice_(dice), kernel_(kernel), is_exact_(is_exact) {}

  // Statements are added to the innermost open block.
  void open(std::vector<ir::loop::Statement>& block);
  void close();
  ir::loop::Reg new_register() { return kernel_.registers++; }
  void add(ir::loop::Statement statement) { scopes_.back().block->push_back(std::move(statement)); }
  Item keep(Item item);

  // Choose a visible value; late and unused values are preferred.
  Item any();
  Item of(DType type);
  Item exact(DType type);  // Chooses a value with error 0.
  Item constant(DType type);
  Item constant(DType type, double number);
  Item index(int32_t loop);
  // Only kept values are operands of later computations.
  Item compute(Op op, DType type, const std::vector<Item>& operands, double limit = 0, double error = 0);
  Item cast(Item item, DType to);
  Item something();  // Adds a new computation and keeps its result.
  void use(const Item& item) { used_.resize(kernel_.registers), used_[item.reg] = true; }

  // The operand of a reduction, assigned in the current block, and the result after the loop.
  Item reducible(ir::loop::Reduction::Kind kind, DType type);
  Item reduced(ir::loop::Reduction::Kind kind, const Item& value, int64_t iterations);

 private:
  struct Scope {
    std::vector<ir::loop::Statement>* block;
    std::vector<Item> items;
  };

  Item choose(const std::vector<Item>& items);
  Item other(DType type, const Item& than);
  Item new_value();
  Item clamped(Item item, double bound);
  Item shifted(Item item, double shift);
  Item guarded(Item item, bool is_signed);
  Item real_op(DType type);
  Item plain_real_op(Op op, DType type);
  Item smooth_op(DType type);
  Item integer_op(DType type);
  Item boolean();
  Item select(DType type);

  Dice& dice_;
  ir::loop::LoopKernel& kernel_;
  bool is_exact_;
  std::vector<Scope> scopes_;
  std::vector<bool> used_;  // Whether each register is used.
};

}  // namespace tenon::test
