#include "loops/terms.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace tenon::loops {

using ir::DType;
using ir::ValueId;
namespace loop = ir::loop;

Terms::Terms(const ir::Graph& graph, const ir::Group& group, const std::vector<ValueId>& buffers) : graph_(graph), buffers_(buffers) {
  for (size_t i : group.parts)
    for (ValueId id : ops::results_of(graph.nodes[i]))
      if (id != ir::kNoValue) part_nodes_[id] = i;
  for (size_t i : group.nodes) {
    if (std::find(group.parts.begin(), group.parts.end(), i) != group.parts.end()) continue;
    if (auto cat = ops::lowerable_cat(graph, graph.nodes[i])) add_cat(graph.nodes[i], *cat);
    else add_node(graph.nodes[i]);
  }
}

// Which operand an element comes from, its position says.
void Terms::add_cat(const ir::Node& node, const ops::Cat& cat) {
  ValueId result = ops::results_of(node)[0];
  DType dtype = graph_.values[result].type.dtype;
  std::vector<TermId> values;
  std::vector<int64_t> ends;
  for (ValueId id : cat.operands) {
    int64_t begin = ends.empty() ? 0 : ends.back();
    ends.push_back(begin + graph_.values[id].type.sizes[cat.dim]);
    Part part{cat.dim, begin, ends.back()};
    auto known = std::find(parts_.begin(), parts_.end(), part);
    part_ = static_cast<int32_t>(known - parts_.begin());
    if (known == parts_.end()) parts_.push_back(part);
    values.push_back(element(id, dtype));
    part_ = kWhole;
  }
  DType wide = ops::register_type(dtype);
  TermId out = cast(values.back(), dtype, wide);
  for (size_t i = values.size() - 1; i-- > 0;) {
    TermId before = compute(loop::Op::lt, DType::i64, {position(cat.dim), constant(ends[i], DType::i64)});
    out = compute(loop::Op::select, wide, {before, cast(values[i], dtype, wide), out});
  }
  known_[{result, dtype, kWhole}] = cast(out, wide, dtype);
}

void Terms::add_node(const ir::Node& node) {
  const ops::Row* row = ops::lowerable(graph_, node);
  if (!row) throw InternalError(node.op + " has no row that fits it");
  node_ = &node;
  type_ = ops::compute_type(graph_, node, *row);
  rounds_to_ = row->typing == ops::Typing::operands ? ops::operand_type(graph_, node, *row) : type_;
  const std::vector<int64_t>& sizes = ops::sizes_of(graph_, node, *row);
  std::vector<bool> reduced = ops::reduced_dims(graph_, node, *row);
  count_ = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (reduced.empty() || reduced[d]) count_ *= sizes[d];
  std::vector<ValueId> results = ops::results_of(node);
  DType made = row->typing == ops::Typing::operands ? DType::boolean : type_;
  for (size_t r = 0; r < results.size(); ++r) {
    if (results[r] == ir::kNoValue) continue;
    DType dtype = graph_.values[results[r]].type.dtype;
    TermId term = made == DType::boolean ? condition(row->results[r]) : value(row->results[r]);
    // bf16 and f16 are rounded where eager rounds.
    known_[{results[r], dtype, part_}] = cast(term, made, dtype);
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

TermId Terms::constant(double number, DType type) {
  if (type == DType::boolean) return constant(static_cast<int64_t>(number != 0), type);
  if (!ir::is_floating(type)) return constant(static_cast<int64_t>(number), type);
  return add({Term::Kind::constant, type, 0, -1, std::bit_cast<uint64_t>(number), {}});
}

TermId Terms::constant(int64_t number, DType type) {
  if (ir::is_floating(type)) return constant(static_cast<double>(number), type);
  if (type == DType::boolean) number = number != 0;
  return add({Term::Kind::constant, type, 0, -1, std::bit_cast<uint64_t>(number), {}});
}

TermId Terms::number(const Number& number, DType type) {
  auto it = std::find(numbers_.begin(), numbers_.end(), number);
  auto which = static_cast<int32_t>(it - numbers_.begin());
  if (it == numbers_.end()) numbers_.push_back(number);
  return add({Term::Kind::scalar, type, which, -1, 0, {}});
}

TermId Terms::is_in(const Part& part) {
  TermId from = compute(loop::Op::ge, DType::i64, {position(part.dim), constant(part.begin, DType::i64)});
  TermId to = compute(loop::Op::lt, DType::i64, {position(part.dim), constant(part.end, DType::i64)});
  return compute(loop::Op::bit_and, DType::boolean, {from, to});
}

// A tensor's element, in this type.
TermId Terms::element(ValueId id, DType type) {
  auto known = known_.find({id, type, part_});
  if (known != known_.end()) return known->second;
  DType dtype = graph_.values[id].type.dtype;
  if (!known_.count({id, dtype, part_})) {
    if (auto node = part_nodes_.find(id); node != part_nodes_.end()) {
      auto outer = std::tuple{node_, type_, rounds_to_, count_};
      add_node(graph_.nodes[node->second]);
      std::tie(node_, type_, rounds_to_, count_) = outer;
    } else {
      auto buffer = std::find(buffers_.begin(), buffers_.end(), id) - buffers_.begin();
      std::vector<TermId> mask;
      if (part_ != kWhole) mask.push_back(is_in(parts_[static_cast<size_t>(part_)]));
      known_[{id, dtype, part_}] = add({Term::Kind::load, dtype, static_cast<int32_t>(buffer), part_, 0, std::move(mask)});
    }
  }
  TermId term = known_.at({id, dtype, part_});
  DType wide = ops::register_type(dtype);
  return type == dtype ? term : cast(cast(term, dtype, wide), wide, type);
}

TermId Terms::argument(int index, DType type) {
  const ir::Argument& arg = node_->args[index];
  if (const auto* id = std::get_if<ValueId>(&arg)) return element(*id, type);
  if (int32_t scalar = ir::scalar_in(arg); scalar != ir::kNoScalar) return number({scalar, 0}, type);
  return std::visit(
      [&](const auto& a) -> TermId {
        using A = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<A, double>) return constant(a, type);
        else if constexpr (std::is_same_v<A, int64_t> || std::is_same_v<A, bool>) return constant(static_cast<int64_t>(a), type);
        else if constexpr (std::is_same_v<A, ir::NumberTensor>) return number_tensor(a, type);
        else throw InternalError(node_->op + " has an argument that is no number");
      },
      std::get<ir::Attribute>(arg));
}

TermId Terms::number_tensor(const ir::NumberTensor& n, DType type) {
  if (const auto* real = std::get_if<double>(&n.number)) {
    bool narrow = n.plain && n.dtype == DType::f32;
    return constant(narrow ? static_cast<double>(static_cast<float>(*real)) : *real, type);
  }
  if (const auto* whole = std::get_if<int64_t>(&n.number)) return constant(*whole, type);
  return constant(static_cast<int64_t>(std::get<bool>(n.number)), type);
}

bool Terms::is_absent(const ops::Expression& e) const {
  return e.kind == ops::Expression::Kind::argument && !e.operands.empty() && ops::is_absent(node_->args[e.argument]);
}

bool Terms::is_one(const ops::Expression& e) const {
  if (is_absent(e)) return is_one(e.operands[0]);
  if (e.kind == ops::Expression::Kind::number) return e.number == 1;
  return e.kind == ops::Expression::Kind::argument && ir::plain_text(node_->args[e.argument]) == "1";
}

static loop::Reduction::Kind reduction_kind(const std::string& name) {
  using Kind = loop::Reduction::Kind;
  for (Kind kind : {Kind::sum, Kind::prod, Kind::max, Kind::min, Kind::any, Kind::all})
    if (name == loop::reduction_name(kind)) return kind;
  throw InternalError("the loop language has no reduction '" + name + "'");
}

// In the row's type.
TermId Terms::value(const ops::Expression& e) {
  using Kind = ops::Expression::Kind;
  if (is_absent(e)) return value(e.operands[0]);
  if (e.kind == Kind::argument) return cast(cast(argument(e.argument, type_), type_, rounds_to_), rounds_to_, type_);
  if (e.kind == Kind::number) return constant(e.number, type_);
  if (e.kind == Kind::count) return number({ir::kNoScalar, static_cast<double>(count_)}, type_);
  if (e.kind == Kind::reduction)
    return add({Term::Kind::reduce, type_, static_cast<int32_t>(reduction_kind(e.function)), -1, 0, {value(e.operands[0])}});
  if (e.function == "mul" && is_one(e.operands[0])) return value(e.operands[1]);
  if (e.function == "mul" && is_one(e.operands[1])) return value(e.operands[0]);
  if (e.function == "fma") return multiply_add(e);
  if (e.function == "neg" && e.operands[0].kind == Kind::argument)  // of 0 as an integer: 0
    if (const auto* attribute = std::get_if<ir::Attribute>(&node_->args[e.operands[0].argument]))
      if (const auto* whole = std::get_if<int64_t>(attribute)) return constant(-*whole, type_);
  loop::Op op;
  if (!loop::op_from_name(e.function, op)) throw InternalError("the loop language has no " + e.function);
  std::vector<TermId> operands;
  for (const ops::Expression& operand : e.operands)
    operands.push_back(op == loop::Op::select && operands.empty() ? condition(operand) : value(operand));
  return compute(op, type_, std::move(operands));
}

TermId Terms::multiply_add(const ops::Expression& e) {
  const ops::Expression &a = e.operands[0], &b = e.operands[1], &c = e.operands[2];
  if (is_one(a)) return compute(loop::Op::add, type_, {value(c), value(b)});
  if (a.function == "neg" && is_one(a.operands[0])) return compute(loop::Op::sub, type_, {value(c), value(b)});
  std::vector<TermId> operands = {value(a), value(b), value(c)};
  if (loop::is_real(type_)) return compute(loop::Op::fma, type_, std::move(operands));
  return compute(loop::Op::add, type_, {operands[2], compute(loop::Op::mul, type_, {operands[0], operands[1]})});
}

// As a bool.
TermId Terms::condition(const ops::Expression& e) {
  using Kind = ops::Expression::Kind;
  if (e.kind == Kind::argument) return argument(e.argument, DType::boolean);
  if (e.kind == Kind::number) return constant(e.number, DType::boolean);
  if (e.kind == Kind::reduction)
    return add({Term::Kind::reduce, DType::boolean, static_cast<int32_t>(reduction_kind(e.function)), -1, 0, {condition(e.operands[0])}});
  loop::Op op;
  if (e.kind != Kind::function || !loop::op_from_name(e.function, op)) throw InternalError("'" + e.function + "' is no condition");
  if (loop::op_kind(op) == loop::OpKind::compare) return compute(op, type_, {value(e.operands[0]), value(e.operands[1])});
  std::vector<TermId> operands;
  for (const ops::Expression& operand : e.operands) operands.push_back(condition(operand));
  return compute(op, DType::boolean, std::move(operands));
}

}  // namespace tenon::loops
