// What a group computes, as terms: each a function of other terms, every one written down once.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "ir/graph/group.h"
#include "ir/loop/loop.h"
#include "ops/lowerable.h"
#include "ops/moves.h"
#include "ops/pieces.h"

namespace tenon::loops {

using TermId = int32_t;

struct Term {
  enum class Kind : uint8_t { load, constant, scalar, position, compute, reduce };
  Kind kind = Kind::load;
  ir::DType type = ir::DType::f32;  // of the operands, if it compares; else its own
  int32_t which = 0;                // buffer, scalar or dimension; loop::Op or loop::Reduction::Kind
  int32_t access = -1;              // of a load: which, if it is not at the element's own place
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

// How a load departs from the place that its buffer's strides give. Its operands are the mask, then the index.
struct Access {
  int64_t offset = 0;
  bool has_mask = false;
  int64_t index_stride = 0;  // 0: no index
  bool operator==(const Access&) const = default;
};

// Where one operand of a cat lies in the result.
struct Part {
  size_t dim = 0;
  int64_t begin = 0, end = 0;
  bool operator==(const Part&) const = default;
};

class Terms {
 public:
  // `buffers`: the group's inputs come first.
  Terms(const ir::Graph& graph, const ir::Group& group, const std::vector<ir::ValueId>& buffers);

  const std::vector<Term>& all() const { return terms_; }  // operands come first
  const std::vector<Number>& numbers() const { return numbers_; }
  const std::vector<Access>& accesses() const { return accesses_; }
  const std::vector<size_t>& positions() const { return positions_; }  // dimensions along which some are asked for
  TermId of(ir::ValueId value) const { return known_.at({value, graph_.values[value].type.dtype, kWhole}); }

 private:
  static constexpr int32_t kWhole = -1;

  void add_node(const ir::Node& node);
  void add_pieces(const ir::Node& node, const ops::Pieces& pieces);
  void add_pool(const ir::Node& node, const ops::Pool& pool);
  void add_move(const ir::Node& node, const ops::Move& move);
  struct WindowElement {
    TermId value = kWhole;
    TermId is_inside = kWhole;  // or always
    TermId place = kWhole;      // in the source's last two dimensions, as one
  };
  TermId window_begin(const ops::Pool& pool, size_t w);
  WindowElement window_element(const ops::Pool& pool, int64_t row, int64_t column);
  TermId window_mean(const ops::Pool& pool, ir::DType wide);
  TermId moved(const ops::Move& move, const ops::Move::Along& along);
  TermId moved_element(const ops::Move& move, const std::vector<TermId>& places);
  struct Neighbours {
    TermId first, second, share;
  };
  Neighbours neighbours(const ops::Move::Along& along, ir::DType wide);
  TermId between(const ops::Move& move, std::vector<TermId> places, ir::DType wide);
  TermId scaled_down(TermId position, double factor);
  TermId position(size_t dim);
  TermId whole(ir::loop::Op op, TermId a, TermId b);
  TermId integer(int64_t number) { return constant(number, ir::DType::i64); }
  TermId is_between(TermId term, int64_t begin, int64_t end);
  TermId both(TermId a, TermId b);
  TermId load(ir::ValueId id, const Access& access, std::vector<TermId> operands);
  TermId add(Term term);
  TermId compute(ir::loop::Op op, ir::DType type, std::vector<TermId> operands);
  TermId cast(TermId term, ir::DType from, ir::DType to);
  TermId constant(double number, ir::DType type);
  TermId constant(int64_t number, ir::DType type);
  TermId number(const Number& number, ir::DType type);
  TermId real_number(double number, ir::DType type);
  TermId number_tensor(const ir::NumberTensor& number, ir::DType type);
  TermId element(ir::ValueId id, ir::DType type);
  TermId argument(int index, ir::DType type);
  TermId indexed(const ops::Expression& e);
  TermId value(const ops::Expression& e);
  bool is_integral(const ops::Expression& e) const;
  bool has_place(const ops::Expression& e) const;
  TermId integral(const ops::Expression& e);
  TermId multiply_add(const ops::Expression& e);
  TermId condition(const ops::Expression& e);
  bool is_absent(const ops::Expression& e) const;
  bool is_one(const ops::Expression& e) const;

  const ir::Graph& graph_;
  const ir::Group& group_;
  const std::vector<ir::ValueId>& buffers_;
  std::vector<Term> terms_;
  std::map<Term, TermId> ids_;
  std::vector<Number> numbers_;
  std::map<std::tuple<ir::ValueId, ir::DType, int32_t>, TermId> known_;  // a value's element, in a type, in a part
  std::map<ir::ValueId, size_t> part_nodes_;                             // by what they compute
  std::vector<Part> parts_;
  std::vector<Access> accesses_;
  std::vector<size_t> positions_;
  bool takes_numbers_ = false;  // of the program as arguments, not as constants
  // While a node is added:
  const ir::Node* node_ = nullptr;
  ir::DType type_ = ir::DType::f32;
  ir::DType rounds_to_ = ir::DType::f32;  // operands, first
  int64_t count_ = 1;
  int32_t part_ = kWhole;
};

}  // namespace tenon::loops
