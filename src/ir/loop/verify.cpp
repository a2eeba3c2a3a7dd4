#include "ir/loop/verify.h"

#include <set>

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.h"
#include "ir/loop/print.h"

namespace tenon::ir::loop {
namespace {

bool is_computed_in(DType type) { return is_real(type) || is_integer(type) || type == DType::boolean; }
bool is_known(DType type) { return is_computed_in(type) || is_half(type); }

class KernelVerifier {
 public:
  explicit KernelVerifier(const LoopKernel& kernel) : kernel_(kernel) {}

  void run() {
    auto is_name_char = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; };
    require(!kernel_.name.empty() && std::all_of(kernel_.name.begin(), kernel_.name.end(), is_name_char), "a kernel without a proper name");
    require(kernel_.sizes >= 0 && kernel_.scalars >= 0 && kernel_.registers >= 0 && kernel_.variables >= 0, "a negative count");
    for (const Buffer& buffer : kernel_.buffers) require(is_known(buffer.type), "a buffer of a type that kernels do not know");
    registers_.resize(kernel_.registers);
    variables_.resize(kernel_.variables);
    require(kernel_.outer.kind == Loop::Kind::parallel, "a kernel whose outer loop is not parallel");
    (*this)(kernel_.outer);
  }

  void operator()(const Compute& s) {
    ++line_;
    require(s.operands.size() == static_cast<size_t>(op_arity(s.op)), "another number of operands than the op has");
    OpKind kind = op_kind(s.op);
    bool is_allowed = kind == OpKind::cast         ? is_known(s.type)
                      : kind == OpKind::arithmetic ? is_real(s.type) || is_integer(s.type)
                      : kind == OpKind::real       ? is_real(s.type)
                      : kind == OpKind::integral   ? is_integer(s.type) || s.type == DType::boolean
                                                   : is_computed_in(s.type);
    require(is_allowed, std::string(op_name(s.op)) + " of type " + dtype_name(s.type));
    for (size_t i = 0; i < s.operands.size(); ++i) {
      DType type = use(s.operands[i]);
      if (kind == OpKind::cast) continue;
      DType expected = kind == OpKind::select && i == 0 ? DType::boolean : s.type;
      require(type == expected, std::string("an operand of type ") + dtype_name(type) + " instead of " + dtype_name(expected));
    }
    define(s.result, kind == OpKind::compare ? DType::boolean : s.type);
  }

  void operator()(const Constant& s) {
    ++line_;
    require(is_computed_in(s.type), std::string("a constant of type ") + dtype_name(s.type));
    const auto* integer = std::get_if<int64_t>(&s.value);
    require((integer == nullptr) == is_real(s.type), "a constant that is not a number of its type");
    if (integer) require(fits(*integer, s.type), "a constant that does not fit its type");
    define(s.result, s.type);
  }

  void operator()(const ScalarArgument& s) {
    ++line_;
    require(s.which >= 0 && s.which < kernel_.scalars, "a scalar that the kernel does not have");
    require(is_real(s.type), std::string("a scalar of type ") + dtype_name(s.type));
    define(s.result, s.type);
  }

  void operator()(const LoopIndex& s) {
    ++line_;
    variable(s.loop);
    define(s.result, DType::i64);
  }

  void operator()(const Load& s) {
    ++line_;
    const Buffer& buffer = check_access(s.buffer, s.index, s.mask);
    require(!buffer.is_output || written_.count(s.buffer), "a load from an output that was not written before");
    define(s.result, buffer.type);
  }

  void operator()(const Store& s) {
    ++line_;
    const Buffer& buffer = check_access(s.buffer, s.index, s.mask);
    require(buffer.is_output, "a store to an input");
    written_.insert(s.buffer);
    require(use(s.value) == buffer.type, "a store of another type than the buffer's");
  }

  void operator()(const Loop& loop) {
    ++line_;
    bool is_parallel = loop.kind == Loop::Kind::parallel, is_vector = loop.kind == Loop::Kind::vector;
    require(!is_parallel || &loop == &kernel_.outer, "a parallel loop inside another loop");
    require(!is_vector || !in_vector_, "a vector loop inside a vector loop");
    require(is_parallel ? !loop.variables.empty() : loop.variables.size() == 1, "a loop of too many or too few variables");
    for (const Loop::Variable& v : loop.variables) {
      size(v.extent);
      require(v.extent.is_param || v.extent.value >= 0, "a negative extent");
      require(v.id >= 0 && v.id < kernel_.variables, "a variable out of range");
      require(!variables_[v.id].is_assigned, "a variable of two loops");
      variables_[v.id] = {true, true};
    }
    std::vector<Reg> around = std::move(block_);
    block_.clear();
    in_vector_ |= is_vector;
    for (const Statement& statement : loop.body) std::visit(*this, statement.what);
    ++line_;
    if (is_vector) in_vector_ = false;
    require(!is_parallel || loop.reductions.empty(), "a reduction of a parallel loop");
    for (const Reduction& r : loop.reductions) reduced(r);
    for (Reg reg : block_) registers_[reg].is_visible = false;
    for (const Loop::Variable& v : loop.variables) variables_[v.id].is_visible = false;
    block_ = std::move(around);
    for (const Reduction& r : loop.reductions) define(r.result, r.type);
  }

 private:
  struct Definition {
    bool is_assigned = false;
    bool is_visible = false;
    DType type = DType::i64;
  };

  void require(bool holds, const std::string& what) const {
    if (!holds)
      throw InternalError("kernel " + kernel_.name + ", line " + std::to_string(line_) + " of its text: " + what + "\n" + print(kernel_));
  }

  void define(Reg reg, DType type) {
    require(reg >= 0 && reg < kernel_.registers, "a register out of range");
    require(!registers_[reg].is_assigned, "a register assigned twice");
    registers_[reg] = {true, true, type};
    block_.push_back(reg);
  }

  DType use(Reg reg) const {
    require(reg >= 0 && reg < kernel_.registers, "a register out of range");
    require(registers_[reg].is_assigned, "a register used before it is assigned");
    require(registers_[reg].is_visible, "a register used outside its block");
    return registers_[reg].type;
  }

  void variable(int32_t id) const {
    require(id >= 0 && id < kernel_.variables, "a variable out of range");
    require(variables_[id].is_visible, "a variable used outside its loop");
  }

  void size(const LoopSize& s) const {
    require(!s.is_param || (s.value >= 0 && s.value < kernel_.sizes), "a size that the kernel does not have");
  }

  const Buffer& check_access(int32_t buffer, const Index& index, Reg mask) const {
    require(buffer >= 0 && static_cast<size_t>(buffer) < kernel_.buffers.size(), "a buffer that the kernel does not have");
    for (const IndexTerm& term : index) {
      size(term.stride);
      if (term.kind == IndexTerm::Kind::loop) variable(term.which);
      if (term.kind == IndexTerm::Kind::reg) require(use(term.which) == DType::i64, "an index that is not i64");
    }
    if (mask != kNoReg) require(use(mask) == DType::boolean, "a mask that is not bool");
    return kernel_.buffers[buffer];
  }

  void reduced(const Reduction& r) const {
    bool is_logic = r.kind == Reduction::Kind::any || r.kind == Reduction::Kind::all;
    bool is_allowed = is_logic ? r.type == DType::boolean : is_real(r.type) || is_integer(r.type);
    require(is_allowed, std::string(reduction_name(r.kind)) + " of type " + dtype_name(r.type));
    require(use(r.value) == r.type, "a reduction of a value of another type");
    require(std::find(block_.begin(), block_.end(), r.value) != block_.end(), "a reduction of a value from outside the loop's body");
  }

  const LoopKernel& kernel_;
  std::set<int32_t> written_;  // Buffers that were stored to.
  std::vector<Definition> registers_, variables_;
  std::vector<Reg> block_;  // Registers assigned in the current block.
  bool in_vector_ = false;
  size_t line_ = 1;
};

}  // namespace

void verify(const LoopKernel& kernel) { KernelVerifier(kernel).run(); }

}  // namespace tenon::ir::loop
