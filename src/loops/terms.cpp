#include "loops/terms.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "loops/space.h"
#include "ops/strided_operands.h"

namespace tenon::loops {

using ir::DType;
using ir::ValueId;
namespace loop = ir::loop;

Terms::Terms(const ir::Graph& graph, const ops::Lowerings& lowerings, const ir::Group& group, const std::vector<ValueId>& buffers)
    : graph_(graph), lowerings_(lowerings), group_(group), buffers_(buffers) {
  // Long chains that differ only in their constants share one kernel if the constants are arguments. Estimate, not measured.
  constexpr size_t kMinNodesForConstantArguments = 24;
  constants_are_arguments_ = group.nodes.size() >= kMinNodesForConstantArguments;
  for (size_t i : group.loops().segment_nodes)
    for (ValueId id : ops::results_of(graph.nodes[i]))
      if (id != ir::kNoValue) segment_nodes_[id] = i;
  for (size_t i : group.nodes) {
    if (std::find(group.loops().segment_nodes.begin(), group.loops().segment_nodes.end(), i) != group.loops().segment_nodes.end()) continue;
    const ir::Node& node = graph.nodes[i];
    if (const auto* concatenation = std::get_if<ops::Concatenation>(&lowerings[i])) add_concatenation(node, *concatenation);
    else if (const auto* pooling = std::get_if<ops::Pooling>(&lowerings[i])) add_pooling(node, *pooling);
    else if (const auto* movement = std::get_if<ops::DataMovement>(&lowerings[i])) add_data_movement(node, *movement);
    else add_node(node, *std::get<const ops::OpEntry*>(lowerings[i]));
  }
}

void Terms::add_node(const ir::Node& node, const ops::OpEntry& entry) {
  node_ = &node;
  type_ = ops::compute_type(graph_, node, entry);
  rounds_to_ = entry.typing == ops::Typing::operands ? ops::operand_type(graph_, node, entry) : type_;
  const ir::SizeList& sizes = ops::sizes_of(graph_, node, entry);
  std::vector<bool> reduced = ops::reduced_dims(graph_, node, entry);
  count_ = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (reduced.empty() || reduced[d]) count_ *= sizes[d];
  std::vector<ValueId> results = ops::results_of(node);
  DType made = entry.typing == ops::Typing::operands ? DType::boolean : type_;
  for (size_t r = 0; r < results.size(); ++r) {
    if (results[r] == ir::kNoValue) continue;
    DType dtype = graph_.values[results[r]].type.dtype;
    TermId term = made == DType::boolean ? condition(entry.results[r]) : value(entry.results[r]);
    // Results in bf16 and f16 are rounded where eager rounds.
    known_[{results[r], dtype, segment_}] = cast(term, made, dtype);
  }
}

TermId Terms::add(Term term) {
  auto [it, is_new] = ids_.try_emplace(std::move(term), static_cast<TermId>(terms_.size()));
  if (is_new) terms_.push_back(it->first);
  return it->second;
}

TermId Terms::compute(loop::Op op, DType type, std::vector<TermId> operands) {
  return add({Term::Kind::compute, type, static_cast<int32_t>(op), -1, 0, std::move(operands)});
}

TermId Terms::cast(TermId term, DType from, DType to) { return from == to ? term : compute(loop::Op::cast, to, {term}); }

// Wraps a constant to an integer type.
static int64_t wrapped(int64_t value, DType type) {
  if (type == DType::u8) return static_cast<uint8_t>(value);
  int unused = 64 - 8 * static_cast<int>(ir::dtype_size(type));
  return static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
}

TermId Terms::constant(double value, DType type) {
  if (type == DType::boolean) return constant(static_cast<int64_t>(value != 0), type);
  if (!ir::is_floating(type)) return constant(static_cast<int64_t>(value), type);
  return add({Term::Kind::constant, type, 0, -1, std::bit_cast<uint64_t>(value), {}});
}

TermId Terms::constant(int64_t value, DType type) {
  if (ir::is_floating(type)) return constant(static_cast<double>(value), type);
  if (type == DType::boolean) value = value != 0;
  else value = wrapped(value, type);
  return add({Term::Kind::constant, type, 0, -1, std::bit_cast<uint64_t>(value), {}});
}

// A symbolic size is an argument of the kernel; the op table allows it only where the type is floating.
TermId Terms::constant(const ir::Size& value, DType type) {
  return value.is_number() ? constant(value.number(), type) : scalar({ir::kNoScalar, 0, value}, type);
}

TermId Terms::scalar(const KernelScalar& scalar, DType type) {
  auto it = std::find(scalars_.begin(), scalars_.end(), scalar);
  auto which = static_cast<int32_t>(it - scalars_.begin());
  if (it == scalars_.end()) scalars_.push_back(scalar);
  return add({Term::Kind::scalar, type, which, -1, 0, {}});
}

TermId Terms::real_constant(double value, DType type) {
  return constants_are_arguments_ && loop::is_real(type) ? this->scalar({ir::kNoScalar, value}, type) : constant(value, type);
}

TermId Terms::load(ValueId id, const AddressingMode& addressing, std::vector<TermId> operands) {
  auto buffer = static_cast<int32_t>(std::find(buffers_.begin(), buffers_.end(), id) - buffers_.begin());
  int32_t which = -1;
  if (addressing != AddressingMode()) {
    auto known = std::find(addressing_modes_.begin(), addressing_modes_.end(), addressing);
    which = static_cast<int32_t>(known - addressing_modes_.begin());
    if (known == addressing_modes_.end()) addressing_modes_.push_back(addressing);
  }
  return add({Term::Kind::load, graph_.values[id].type.dtype, buffer, which, 0, std::move(operands)});
}

// Returns a tensor's element, converted to this type.
TermId Terms::element(ValueId id, DType type) {
  auto known = known_.find({id, type, segment_});
  if (known != known_.end()) return known->second;
  DType dtype = graph_.values[id].type.dtype;
  if (!known_.count({id, dtype, segment_})) {
    if (auto node = segment_nodes_.find(id); node != segment_nodes_.end()) {
      auto outer = std::tuple{node_, type_, rounds_to_, count_};
      add_node(graph_.nodes[node->second], *std::get<const ops::OpEntry*>(lowerings_[node->second]));
      std::tie(node_, type_, rounds_to_, count_) = outer;
    } else {
      AddressingMode addressing;
      std::vector<TermId> mask;
      if (segment_ != kNoSegment) {
        const SegmentRange& segment = segments_[static_cast<size_t>(segment_)];
        addressing = {strides_of(graph_, group_, id)[segment.dim] * -segment.begin, true};
        mask.push_back(is_between(position(segment.dim), segment.begin, segment.end));
      }
      known_[{id, dtype, segment_}] = load(id, addressing, std::move(mask));
    }
  }
  TermId term = known_.at({id, dtype, segment_});
  DType wide = ops::register_type(dtype);
  return type == dtype ? term : cast(cast(term, dtype, wide), wide, type);
}

TermId Terms::argument(int index, DType type) {
  const ir::Argument& arg = node_->args[index];
  if (const auto* id = std::get_if<ValueId>(&arg)) return element(*id, type);
  if (int32_t scalar = ir::scalar_in(arg); scalar != ir::kNoScalar) return this->scalar({scalar, 0}, type);
  return std::visit(
      [&](const auto& a) -> TermId {
        using A = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<A, double>) return real_constant(a, type);
        else if constexpr (std::is_same_v<A, ir::Size>) return constant(a, type);
        else if constexpr (std::is_same_v<A, bool>) return constant(static_cast<int64_t>(a), type);
        else if constexpr (std::is_same_v<A, ir::ScalarTensor>) return scalar_tensor(a, type);
        else throw InternalError(node_->op + " has an argument that is no scalar");
      },
      std::get<ir::Attribute>(arg));
}

TermId Terms::scalar_tensor(const ir::ScalarTensor& tensor, DType type) {
  if (const auto* real = std::get_if<double>(&tensor.number)) {
    bool narrow = tensor.plain && tensor.dtype == DType::f32;
    return real_constant(narrow ? static_cast<double>(static_cast<float>(*real)) : *real, type);
  }
  if (const auto* integer = std::get_if<ir::Size>(&tensor.number)) return constant(*integer, type);
  return constant(static_cast<int64_t>(std::get<bool>(tensor.number)), type);
}

bool Terms::is_absent(const ops::Expression& e) const { return ops::default_of(e) && ops::is_absent(node_->args[e.argument]); }

bool Terms::is_one(const ops::Expression& e) const {
  if (is_absent(e)) return is_one(*ops::default_of(e));
  if (e.kind == ops::Expression::Kind::constant) return e.constant == 1;
  return e.kind == ops::Expression::Kind::argument && ir::plain_text(node_->args[e.argument]) == "1";
}

static loop::Reduction::Kind reduction_kind(const std::string& name) {
  using Kind = loop::Reduction::Kind;
  for (Kind kind : {Kind::sum, Kind::prod, Kind::max, Kind::min, Kind::any, Kind::all})
    if (name == loop::reduction_name(kind)) return kind;
  throw InternalError("the loop language has no reduction '" + name + "'");
}

// Returns an indexed element in the entry's type.
TermId Terms::indexed(const ops::Expression& e) {
  ValueId id = std::get<ValueId>(node_->args[e.argument]);
  const ir::TensorType& type = graph_.values[id].type;
  std::vector<TermId> operands;
  TermId index = argument(e.operands[0].argument, DType::i64);
  if (e.exempt >= 0) operands.push_back(compute(loop::Op::ne, DType::i64, {index, argument(e.exempt, DType::i64)}));
  operands.push_back(index);
  AddressingMode addressing{0, e.exempt >= 0, type.strides[*ops::resolve(*e.dim, *node_, type.sizes.size())]};
  return cast(cast(load(id, addressing, std::move(operands)), type.dtype, ops::register_type(type.dtype)), ops::register_type(type.dtype),
              type_);
}

bool Terms::is_integral(const ops::Expression& e) const {
  using Kind = ops::Expression::Kind;
  if (e.kind == Kind::argument) {
    const auto* id = std::get_if<ValueId>(&node_->args[e.argument]);
    return id ? ir::is_integer(graph_.values[*id].type.dtype)
              : std::holds_alternative<ir::Size>(std::get<ir::Attribute>(node_->args[e.argument]));
  }
  if (e.kind == Kind::function) return std::all_of(e.operands.begin(), e.operands.end(), [&](const auto& o) { return is_integral(o); });
  return e.kind == Kind::position || (e.kind == Kind::constant && e.constant == std::floor(e.constant));
}

// Returns whether an expression uses a position, or index tensors in an entry that computes in floating point.
bool Terms::reads_position(const ops::Expression& e) const {
  if (e.kind == ops::Expression::Kind::position) return true;
  if (e.kind == ops::Expression::Kind::argument && ir::is_floating(type_)) return std::holds_alternative<ValueId>(node_->args[e.argument]);
  return std::any_of(e.operands.begin(), e.operands.end(), [&](const auto& o) { return reads_position(o); });
}

TermId Terms::integral(const ops::Expression& e) {
  using Kind = ops::Expression::Kind;
  if (e.kind == Kind::position) return position(*ops::resolve(*e.dim, *node_, group_.sizes.size()));
  if (e.kind == Kind::argument) return argument(e.argument, DType::i64);
  if (e.kind == Kind::constant) return integer(static_cast<int64_t>(e.constant));
  loop::Op op;
  if (!loop::op_from_name(e.function, op)) throw InternalError("the loop language has no " + e.function);
  std::vector<TermId> operands;
  for (const ops::Expression& operand : e.operands) operands.push_back(integral(operand));
  return compute(op, DType::i64, std::move(operands));
}

// Returns an expression in the entry's type.
TermId Terms::value(const ops::Expression& e) {
  using Kind = ops::Expression::Kind;
  if (is_absent(e)) return value(*ops::default_of(e));
  if (e.kind == Kind::indexed) return indexed(e);
  if (e.kind == Kind::position) return cast(integral(e), DType::i64, type_);
  if (e.kind == Kind::argument) {
    DType rounded = e.rounds ? rounding_of(e.argument) : rounds_to_;
    return cast(cast(argument(e.argument, type_), type_, rounded), rounded, type_);
  }
  if (e.kind == Kind::constant) return constant(e.constant, type_);
  if (e.kind == Kind::count && !count_.is_number()) return this->scalar({ir::kNoScalar, 0, count_}, type_);
  if (e.kind == Kind::count) return this->scalar({ir::kNoScalar, static_cast<double>(count_.number())}, type_);
  if (e.kind == Kind::reduction)
    return add({Term::Kind::reduce, type_, static_cast<int32_t>(reduction_kind(e.function)), -1, 0, {value(e.operands[0])}});
  if (e.function == "mul" && is_one(e.operands[0])) return value(e.operands[1]);
  if (e.function == "mul" && is_one(e.operands[1])) return value(e.operands[0]);
  if (e.function == "fma") return multiply_add(e);
  if (e.function == "neg" && e.operands[0].kind == Kind::argument)  // The negation of an integer 0 is 0, not -0.0.
    if (const auto* attribute = std::get_if<ir::Attribute>(&node_->args[e.operands[0].argument]))
      if (const auto* integer = std::get_if<ir::Size>(attribute)) return constant(ir::Size(0) - *integer, type_);
  loop::Op op;
  if (!loop::op_from_name(e.function, op)) throw InternalError("the loop language has no " + e.function);
  std::vector<TermId> operands;
  for (const ops::Expression& operand : e.operands)
    operands.push_back(op == loop::Op::select && operands.empty() ? condition(operand) : value(operand));
  return compute(op, type_, std::move(operands));
}

// Returns the type to which an argument is rounded if its entry says so: that of the result, unless it is a tensor of this type.
DType Terms::rounding_of(int index) const {
  DType result = ops::result_type(graph_, *node_);
  const auto* id = std::get_if<ValueId>(&node_->args[index]);
  bool is_of_type = id && graph_.values[*id].type.dtype == result;
  return ir::is_floating(result) && !is_of_type ? result : rounds_to_;
}

TermId Terms::multiply_add(const ops::Expression& e) {
  const ops::Expression &a = e.operands[0], &b = e.operands[1], &c = e.operands[2];
  if (is_one(a)) return compute(loop::Op::add, type_, {value(c), value(b)});
  if (a.function == "neg" && is_one(a.operands[0])) return compute(loop::Op::sub, type_, {value(c), value(b)});
  std::vector<TermId> operands = {value(a), value(b), value(c)};
  if (loop::is_real(type_)) return compute(loop::Op::fma, type_, std::move(operands));
  return compute(loop::Op::add, type_, {operands[2], compute(loop::Op::mul, type_, {operands[0], operands[1]})});
}

// Returns an expression as a bool.
TermId Terms::condition(const ops::Expression& e) {
  using Kind = ops::Expression::Kind;
  if (e.kind == Kind::argument) return argument(e.argument, DType::boolean);
  if (e.kind == Kind::indexed) return cast(indexed(e), type_, DType::boolean);
  if (e.kind == Kind::constant) return constant(e.constant, DType::boolean);
  if (e.kind == Kind::reduction)
    return add({Term::Kind::reduce, DType::boolean, static_cast<int32_t>(reduction_kind(e.function)), -1, 0, {condition(e.operands[0])}});
  loop::Op op;
  if (e.kind != Kind::function || !loop::op_from_name(e.function, op)) throw InternalError("'" + e.function + "' is no condition");
  if (loop::op_kind(op) == loop::OpKind::compare && is_integral(e) && reads_position(e))
    return compute(op, DType::i64, {integral(e.operands[0]), integral(e.operands[1])});
  if (loop::op_kind(op) == loop::OpKind::compare) return compute(op, type_, {value(e.operands[0]), value(e.operands[1])});
  std::vector<TermId> operands;
  for (const ops::Expression& operand : e.operands) operands.push_back(condition(operand));
  return compute(op, DType::boolean, std::move(operands));
}

}  // namespace tenon::loops
