#include "ir/loop/evaluate.h"

#include <cmath>
#include <limits>

#include "ir/loop/scalar.h"

namespace tenon::ir::loop {
namespace {

// State of a reduction during a loop.
class Accumulator {
 public:
  explicit Accumulator(const Reduction& reduction) : reduction_(reduction), value_(neutral()), wide_(value_.real) {}

  void add(const ScalarValue& value) {
    if (!is_wide()) value_ = compute(op(), reduction_.type, {value_, value});
    else if (reduction_.kind == Reduction::Kind::sum) wide_ += value.real;
    else wide_ *= value.real;
  }

  ScalarValue result() const { return is_wide() ? rounded() : value_; }

 private:
  bool is_wide() const {
    return is_real(reduction_.type) && (reduction_.kind == Reduction::Kind::sum || reduction_.kind == Reduction::Kind::prod);
  }

  ScalarValue rounded() const {
    double value = reduction_.type == DType::f32 ? static_cast<float>(wide_) : static_cast<double>(wide_);
    return {reduction_.type, value, 0};
  }

  Op op() const {
    switch (reduction_.kind) {
      case Reduction::Kind::sum:
        return Op::add;
      case Reduction::Kind::prod:
        return Op::mul;
      case Reduction::Kind::max:
        return Op::max;
      case Reduction::Kind::min:
        return Op::min;
      case Reduction::Kind::any:
        return Op::bit_or;
      case Reduction::Kind::all:
        return Op::bit_and;
    }
    return Op::add;
  }

  ScalarValue neutral() const {
    DType type = reduction_.type;
    int64_t most = type == DType::u8 ? UINT8_MAX : std::numeric_limits<int64_t>::max() >> (64 - 8 * dtype_size(type));
    int64_t least = type == DType::u8 ? 0 : -most - 1;
    switch (reduction_.kind) {
      case Reduction::Kind::sum:
      case Reduction::Kind::any:
        return scalar_value(type, int64_t{0});
      case Reduction::Kind::prod:
      case Reduction::Kind::all:
        return scalar_value(type, int64_t{1});
      case Reduction::Kind::max:
        return is_real(type) ? scalar_value(type, -INFINITY) : scalar_value(type, least);
      case Reduction::Kind::min:
        return is_real(type) ? scalar_value(type, INFINITY) : scalar_value(type, most);
    }
    return {};
  }

  const Reduction& reduction_;
  ScalarValue value_;
  long double wide_;
};

class Evaluator {
 public:
  Evaluator(const LoopKernel& kernel, const abi::KernelArguments& arguments)
      : kernel_(kernel), arguments_(arguments), registers_(kernel.registers), variables_(kernel.variables) {}

  void operator()(const Compute& s) {
    std::vector<ScalarValue> operands;
    for (Reg operand : s.operands) operands.push_back(registers_.at(operand));
    registers_.at(s.result) = compute(s.op, s.type, operands);
  }

  void operator()(const Constant& s) {
    registers_.at(s.result) = std::visit([&](auto value) { return scalar_value(s.type, value); }, s.value);
  }

  void operator()(const ScalarArgument& s) { registers_.at(s.result) = scalar_value(s.type, arguments_.scalars[s.which]); }

  void operator()(const LoopIndex& s) { registers_.at(s.result) = scalar_value(DType::i64, variables_.at(s.loop)); }

  void operator()(const Load& s) {
    DType type = kernel_.buffers.at(s.buffer).type;
    registers_.at(s.result) =
        is_on(s.mask) ? read_element(type, arguments_.buffers[s.buffer], element_index(s.index)) : scalar_value(type, int64_t{0});
  }

  void operator()(const Store& s) {
    if (is_on(s.mask)) write_element(registers_.at(s.value), arguments_.buffers[s.buffer], element_index(s.index));
  }

  void operator()(const Loop& loop) {
    std::vector<Accumulator> accumulators(loop.reductions.begin(), loop.reductions.end());
    iterate(loop, 0, accumulators);
    for (size_t i = 0; i < accumulators.size(); ++i) registers_.at(loop.reductions[i].result) = accumulators[i].result();
  }

 private:
  // Iterates over one variable after the other; the last one varies fastest.
  void iterate(const Loop& loop, size_t which, std::vector<Accumulator>& accumulators) {
    if (which == loop.variables.size()) {
      for (const Statement& statement : loop.body) std::visit(*this, statement.what);
      for (size_t i = 0; i < accumulators.size(); ++i) accumulators[i].add(registers_.at(loop.reductions[i].value));
      return;
    }
    int64_t& variable = variables_.at(loop.variables[which].id);
    int64_t extent = size(loop.variables[which].extent);
    for (variable = 0; variable < extent; ++variable) iterate(loop, which + 1, accumulators);
  }

  int64_t size(const LoopSize& s) const { return s.is_param ? arguments_.sizes[s.value] : s.value; }

  bool is_on(Reg mask) const { return mask == kNoReg || registers_.at(mask).integer != 0; }

  int64_t element_index(const Index& index) const {
    int64_t at = 0;
    for (const IndexTerm& term : index) {
      int64_t factor = term.kind == IndexTerm::Kind::one    ? 1
                       : term.kind == IndexTerm::Kind::loop ? variables_.at(term.which)
                                                            : registers_.at(term.which).integer;
      at += factor * size(term.stride);
    }
    return at;
  }

  const LoopKernel& kernel_;
  const abi::KernelArguments& arguments_;
  std::vector<ScalarValue> registers_;
  std::vector<int64_t> variables_;
};

}  // namespace

void evaluate(const LoopKernel& kernel, const abi::KernelArguments& arguments) { Evaluator(kernel, arguments)(kernel.outer); }

}  // namespace tenon::ir::loop
