// The computation of a group as hash-consed terms: each is a function of other terms.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ir/graph/group.h"
#include "ir/loop/loop.h"
#include "ops/lowering.h"

namespace tenon::loops {

using TermId = int32_t;

struct Term {
  enum class Kind : uint8_t { load, constant, scalar, position, compute, reduce };
  Kind kind = Kind::load;
  ir::DType type = ir::DType::f32;  // Type of the operands of a comparison, otherwise of the term.
  int32_t which = 0;                // Index of a buffer, scalar or dimension; or a loop::Op or loop::Reduction::Kind.
  int32_t addressing = -1;          // Index of a load's addressing mode, or -1 if the buffer's strides alone give the address.
  uint64_t bits = 0;                // Bits of a constant: of a double if the type is floating, otherwise of an integer.
  std::vector<TermId> operands;

  auto operator<=>(const Term&) const = default;
};

// A scalar argument of a kernel: a scalar of the graph, a constant, or a size.
struct KernelScalar {
  int32_t scalar = ir::kNoScalar;
  double known = 0;
  std::optional<ir::Size> size = {};
  bool operator==(const KernelScalar& other) const {
    bool same_size = size.has_value() == other.size.has_value() && (!size || same(*size, *other.size));
    return scalar == other.scalar && known == other.known && same_size;
  }
};

// Addition to the address that a buffer's strides give. A load's operands are the mask, then the index.
struct AddressingMode {
  ir::Size offset = 0;
  bool has_mask = false;
  ir::Size index_stride = 0;  // 0 means that there is no index.
  bool operator==(const AddressingMode& other) const {
    return same(offset, other.offset) && has_mask == other.has_mask && same(index_stride, other.index_stride);
  }
};

// The range of a result that one operand of a cat fills.
struct SegmentRange {
  size_t dim = 0;
  int64_t begin = 0, end = 0;
  bool operator==(const SegmentRange&) const = default;
};

class Terms {
 public:
  // The group's inputs come first in `buffers`.
  Terms(const ir::Graph& graph, const ops::Lowerings& lowerings, const ir::Group& group, const std::vector<ir::ValueId>& buffers);

  const std::vector<Term>& all() const { return terms_; }  // Operands precede their users.
  const std::vector<KernelScalar>& scalars() const { return scalars_; }
  const std::vector<AddressingMode>& addressing_modes() const { return addressing_modes_; }
  const std::vector<size_t>& positions() const { return positions_; }  // Dimensions whose positions are used.
  TermId of(ir::ValueId value) const { return known_.at({value, graph_.values[value].type.dtype, kNoSegment}); }

 private:
  static constexpr int32_t kNoSegment = -1;
  static constexpr TermId kNoTerm = -1;

  void add_node(const ir::Node& node, const ops::OpEntry& entry);
  void add_concatenation(const ir::Node& node, const ops::Concatenation& concat);
  void add_pooling(const ir::Node& node, const ops::Pooling& pooling);
  void add_data_movement(const ir::Node& node, const ops::DataMovement& movement);
  struct WindowElement {
    TermId value = kNoTerm;
    TermId is_inside = kNoTerm;   // Unset if the element is always inside.
    TermId flat_index = kNoTerm;  // Flattened index in the source's last two dimensions.
  };
  TermId window_begin(const ops::Pooling& pooling, size_t w);
  WindowElement window_element(const ops::Pooling& pooling, int64_t row, int64_t column);
  TermId window_mean(const ops::Pooling& pooling, ir::DType wide);
  TermId source_index(const ops::DataMovement& movement, const ops::DataMovement::MovedDim& moved_dim);
  TermId load_moved(const ops::DataMovement& movement, const std::vector<TermId>& indices);
  struct Neighbours {
    TermId first, second, weight;
  };
  Neighbours neighbours(const ops::DataMovement::MovedDim& moved_dim, ir::DType wide);
  TermId interpolate(const ops::DataMovement& movement, std::vector<TermId> indices, ir::DType wide);
  TermId scaled_down(TermId position, double factor);
  TermId position(size_t dim);
  TermId i64_op(ir::loop::Op op, TermId a, TermId b);
  TermId integer(int64_t value) { return constant(value, ir::DType::i64); }
  TermId is_between(TermId term, int64_t begin, int64_t end);
  TermId both(TermId a, TermId b);
  TermId load(ir::ValueId id, const AddressingMode& addressing, std::vector<TermId> operands);
  TermId add(Term term);
  TermId compute(ir::loop::Op op, ir::DType type, std::vector<TermId> operands);
  TermId cast(TermId term, ir::DType from, ir::DType to);
  TermId constant(double value, ir::DType type);
  TermId constant(int64_t value, ir::DType type);
  TermId constant(const ir::Size& value, ir::DType type);
  TermId scalar(const KernelScalar& scalar, ir::DType type);
  TermId real_constant(double value, ir::DType type);
  TermId scalar_tensor(const ir::ScalarTensor& tensor, ir::DType type);
  TermId element(ir::ValueId id, ir::DType type);
  TermId argument(int index, ir::DType type);
  TermId indexed(const ops::Expression& e);
  TermId value(const ops::Expression& e);
  bool is_integral(const ops::Expression& e) const;
  bool reads_position(const ops::Expression& e) const;
  TermId integral(const ops::Expression& e);
  TermId multiply_add(const ops::Expression& e);
  ir::DType rounding_of(int index) const;
  TermId condition(const ops::Expression& e);
  bool is_absent(const ops::Expression& e) const;
  bool is_one(const ops::Expression& e) const;

  const ir::Graph& graph_;
  const ops::Lowerings& lowerings_;
  const ir::Group& group_;
  const std::vector<ir::ValueId>& buffers_;
  std::vector<Term> terms_;
  std::map<Term, TermId> ids_;
  std::vector<KernelScalar> scalars_;
  std::map<std::tuple<ir::ValueId, ir::DType, int32_t>, TermId> known_;  // Term of a value's element, by type and segment.
  std::map<ir::ValueId, size_t> segment_nodes_;                          // Nodes that compute segments, by result.
  std::vector<SegmentRange> segments_;
  std::vector<AddressingMode> addressing_modes_;
  std::vector<size_t> positions_;
  bool constants_are_arguments_ = false;  // Constants of the program become scalar arguments.
  // State while a node is added.
  const ir::Node* node_ = nullptr;
  ir::DType type_ = ir::DType::f32;
  ir::DType rounds_to_ = ir::DType::f32;  // Type to which operands are rounded first.
  ir::Size count_ = 1;
  int32_t segment_ = kNoSegment;
};

}  // namespace tenon::loops
