#include "codegen/analysis.h"

#include <algorithm>

#include "codegen/math.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;

constexpr int32_t kNoVariable = -1;

class Analyzer {
 public:
  explicit Analyzer(const LoopKernel& kernel) : kernel_(kernel) {
    size_t count = static_cast<size_t>(kernel.registers);
    out_.types.resize(count);
    out_.uses.resize(count);
    out_.varies.resize(count);
    out_.products.resize(count);
  }

  Analysis run() {
    int32_t last = kernel_.outer.variables.back().id;
    out_.is_flat = !has_vector_loop(kernel_.outer.body) && has_unit_stride(kernel_.outer.body, last);
    if (out_.is_flat) vector_ = last;
    (*this)(kernel_.outer);
    for (const Reduction* sum : sums_)
      if (out_.uses[sum->value] != 1) out_.products[sum->value] = nullptr;
    return std::move(out_);
  }

  void operator()(const Compute& s) {
    bool varies = false;
    for (Reg operand : s.operands) varies |= use(operand);
    define(s.result, op_kind(s.op) == OpKind::compare ? DType::boolean : s.type, varies);
    if (s.op == Op::mul && is_real(s.type)) candidates_.push_back(&s);
  }
  void operator()(const Constant& s) { define(s.result, s.type, false); }
  void operator()(const ScalarArgument& s) { define(s.result, s.type, false); }
  void operator()(const LoopIndex& s) { define(s.result, DType::i64, s.loop == vector_); }
  void operator()(const Load& s) { define(s.result, kernel_.buffers[s.buffer].type, varies_along(s.index, s.mask)); }
  void operator()(const Store& s) {
    varies_along(s.index, s.mask);
    use(s.value);
  }

  void operator()(const Loop& loop) {
    if (loop.kind == Loop::Kind::vector) vector_ = loop.variables[0].id;
    size_t outside = candidates_.size();
    for (const Statement& statement : loop.body) std::visit(*this, statement.what);
    std::vector<bool> varies;
    for (const Reduction& r : loop.reductions) {
      varies.push_back(use(r.value) && loop.kind != Loop::Kind::vector);
      if (r.kind != Reduction::Kind::sum) continue;
      // The product must be in the loop's own body: in an inner loop it would be added too often.
      auto product = std::find_if(candidates_.begin() + static_cast<ptrdiff_t>(outside), candidates_.end(),
                                  [&](const Compute* c) { return c->result == r.value; });
      if (product == candidates_.end()) continue;
      out_.products[r.value] = *product;
      sums_.push_back(&r);
    }
    if (loop.kind == Loop::Kind::vector) vector_ = kNoVariable;
    for (size_t i = 0; i < loop.reductions.size(); ++i) define(loop.reductions[i].result, loop.reductions[i].type, varies[i]);
  }

 private:
  bool has_vector_loop(const std::vector<Statement>& body) const {
    return std::any_of(body.begin(), body.end(), [&](const Statement& s) {
      const auto* loop = std::get_if<Loop>(&s.what);
      return loop && (loop->kind == Loop::Kind::vector || has_vector_loop(loop->body));
    });
  }

  // Returns whether some load or store has unit stride along this variable.
  bool has_unit_stride(const std::vector<Statement>& body, int32_t variable) const {
    auto is_unit = [&](const IndexTerm& term) {
      return term.kind == IndexTerm::Kind::loop && term.which == variable && term.stride == LoopSize::constant(1);
    };
    return std::any_of(body.begin(), body.end(), [&](const Statement& s) {
      if (const auto* loop = std::get_if<Loop>(&s.what)) return has_unit_stride(loop->body, variable);
      const auto* load = std::get_if<Load>(&s.what);
      const auto* store = std::get_if<Store>(&s.what);
      const Index* index = load ? &load->index : store ? &store->index : nullptr;
      return index && std::any_of(index->begin(), index->end(), is_unit);
    });
  }

  void define(Reg reg, DType type, bool varies) {
    out_.types[reg] = type;
    out_.varies[reg] = varies;
  }
  bool use(Reg reg) {
    ++out_.uses[reg];
    return out_.varies[reg];
  }
  bool varies_along(const Index& index, Reg mask) {
    bool varies = mask != kNoReg && use(mask);
    for (const IndexTerm& term : index) {
      bool is_zero = !term.stride.is_param && term.stride.value == 0;
      if (term.kind == IndexTerm::Kind::reg) varies |= use(term.which);
      if (term.kind == IndexTerm::Kind::loop && term.which == vector_) varies |= !is_zero;
    }
    return varies;
  }

  const LoopKernel& kernel_;
  Analysis out_;
  int32_t vector_ = kNoVariable;
  std::vector<const Compute*> candidates_;
  std::vector<const Reduction*> sums_;
};

}  // namespace

Analysis analyze(const LoopKernel& kernel) { return Analyzer(kernel).run(); }

namespace {

struct Cost {
  int instructions = 0;
  bool calls = false;

  void add(const std::vector<Statement>& body, const Analysis& analysis) {
    for (const Statement& statement : body) {
      ++instructions;
      if (const auto* loop = std::get_if<Loop>(&statement.what)) add(loop->body, analysis);
      const auto* compute = std::get_if<Compute>(&statement.what);
      if (!compute || !analysis.varies[compute->result]) continue;
      instructions += math_cost(compute->op, compute->type);
      calls |= is_called(compute->op, compute->type);
    }
  }
};

}  // namespace

// Instructions of a loop body up to which it is unrolled four times and twice. Estimates, not
// measured; bench_kernels shows their effect.
constexpr int kMaxInstructionsUnrolledFourTimes = 12, kMaxInstructionsUnrolledTwice = 80;

int unroll(const std::vector<Statement>& body, const Analysis& analysis) {
  Cost cost;
  cost.add(body, analysis);
  if (cost.calls) return 1;
  if (cost.instructions <= kMaxInstructionsUnrolledFourTimes) return 4;
  return cost.instructions <= kMaxInstructionsUnrolledTwice ? 2 : 1;
}

}  // namespace tenon::codegen
