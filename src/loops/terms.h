// What a group computes, as terms: each a function of other terms, every one written down once.
#pragma once

#include <map>
#include <variant>
#include <vector>

#include "ir/graph/group.h"
#include "ir/loop/loop.h"
#include "ops/rows.h"

namespace tenon::loops {

using TermId = int32_t;

struct Term {
  enum class Kind : uint8_t { load, constant, scalar, compute, reduce };
  Kind kind = Kind::load;
  ir::DType type = ir::DType::f32;  // of the operands, if it compares; else its own
  int32_t which = 0;                // buffer or scalar; loop::Op or loop::Reduction::Kind
  uint64_t bits = 0;                // of a constant: of a double, if the type is floating, else of an integer
  std::vector<TermId> operands;

  auto operator<=>(const Term&) const = default;
};

// A number that a kernel is given: a scalar of the graph, or one that is known.
struct Number {
  int32_t scalar = ir::kNoScalar;
  double known = 0;
  bool operator==(const Number&) const = default;
};

class Terms {
 public:
  // `buffers`: the group's inputs come first.
  Terms(const ir::Graph& graph, const ir::Group& group, const std::vector<ir::ValueId>& buffers);

  const std::vector<Term>& all() const { return terms_; }  // operands come first
  const std::vector<Number>& numbers() const { return numbers_; }
  TermId of(ir::ValueId value) const { return known_.at({value, graph_.values[value].type.dtype}); }

 private:
  void add_node(const ir::Node& node);
  TermId add(Term term);
  TermId compute(ir::loop::Op op, ir::DType type, std::vector<TermId> operands);
  TermId cast(TermId term, ir::DType from, ir::DType to);
  TermId constant(double number, ir::DType type);
  TermId constant(int64_t number, ir::DType type);
  TermId number(const Number& number, ir::DType type);
  TermId number_tensor(const ir::NumberTensor& number, ir::DType type);
  TermId element(ir::ValueId id, ir::DType type);
  TermId argument(int index, ir::DType type);
  TermId value(const ops::Expression& e);
  TermId multiply_add(const ops::Expression& e);
  TermId condition(const ops::Expression& e);
  bool is_absent(const ops::Expression& e) const;
  bool is_one(const ops::Expression& e) const;

  const ir::Graph& graph_;
  const std::vector<ir::ValueId>& buffers_;
  std::vector<Term> terms_;
  std::map<Term, TermId> ids_;
  std::vector<Number> numbers_;
  std::map<std::pair<ir::ValueId, ir::DType>, TermId> known_;  // a value's element, in a type
  // While a node is added:
  const ir::Node* node_ = nullptr;
  ir::DType type_ = ir::DType::f32;
  ir::DType rounds_to_ = ir::DType::f32;  // operands, first
  int64_t count_ = 1;
};

}  // namespace tenon::loops
