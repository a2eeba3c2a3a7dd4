#include "loops/lower.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "loops/space.h"
#include "ops/lowerable.h"

namespace tenon::loops {
namespace {

using ir::DType;
using ir::ValueId;
namespace loop = ir::loop;

// A space of one dimension is cut into rows of this many elements, which threads can share.
constexpr int64_t kRow = 4096;

// Writes the statements of one iteration.
class Body {
 public:
  Body(const ir::Graph& graph, Lowered& out, std::vector<loop::Index> indices) : graph_(graph), out_(out), indices_(std::move(indices)) {}

  std::vector<loop::Statement> write(const ir::Group& group) {
    for (size_t i : group.nodes) {
      const ir::Node& node = graph_.nodes[i];
      const ops::Pointwise* row = ops::lowerable(graph_, node);
      if (!row) throw InternalError(node.op + " has no row that fits it");
      node_ = &node;
      type_ = ops::compute_type(graph_, node, *row);
      ValueId result = ops::result_of(node);
      DType dtype = graph_.values[result].type.dtype;
      DType made = row->typing == ops::Typing::operands ? DType::boolean : type_;
      loop::Reg reg = made == DType::boolean ? condition(row->expression) : value(row->expression);
      // bf16 and f16 are rounded where eager rounds.
      regs_[{result, dtype}] = cast(reg, made, dtype);
    }
    for (size_t b = group.inputs.size(); b < out_.buffers.size(); ++b) {
      ValueId id = out_.buffers[b];
      add(loop::Store{static_cast<int32_t>(b), indices_[b], regs_.at({id, graph_.values[id].type.dtype})});
    }
    return std::move(statements_);
  }

 private:
  template <class S>
  void add(S statement) {
    statements_.push_back({std::move(statement)});
  }
  loop::Reg fresh() { return out_.kernel.registers++; }

  loop::Reg compute(loop::Op op, DType type, std::vector<loop::Reg> operands) {
    loop::Reg reg = fresh();
    add(loop::Compute{reg, op, type, std::move(operands)});
    return reg;
  }

  loop::Reg cast(loop::Reg reg, DType from, DType to) { return from == to ? reg : compute(loop::Op::cast, to, {reg}); }

  // A tensor's element, as a register of this type.
  loop::Reg element(ValueId id, DType type) {
    auto known = regs_.find({id, type});
    if (known != regs_.end()) return known->second;
    DType dtype = graph_.values[id].type.dtype;
    auto [it, unread] = regs_.try_emplace({id, dtype}, loop::kNoReg);
    if (unread) {
      auto buffer = std::find(out_.buffers.begin(), out_.buffers.end(), id) - out_.buffers.begin();
      it->second = fresh();
      add(loop::Load{it->second, static_cast<int32_t>(buffer), indices_[buffer]});
    }
    loop::Reg reg = it->second;
    DType wide = ops::register_type(dtype);
    if (wide != dtype && type != dtype) {
      auto [rounded, fresh_cast] = regs_.try_emplace({id, wide}, loop::kNoReg);
      if (fresh_cast) rounded->second = cast(reg, dtype, wide);
      reg = rounded->second;
      dtype = wide;
    }
    if (type != dtype) reg = regs_[{id, type}] = cast(reg, dtype, type);
    return reg;
  }

  loop::Reg constant(double number, DType type) {
    loop::Reg reg = fresh();
    if (ir::is_floating(type)) add(loop::Constant{reg, type, number});
    else add(loop::Constant{reg, type, static_cast<int64_t>(number)});
    return reg;
  }
  loop::Reg constant(int64_t number, DType type) {
    if (ir::is_floating(type)) return constant(static_cast<double>(number), type);
    loop::Reg reg = fresh();
    add(loop::Constant{reg, type, type == DType::boolean ? static_cast<int64_t>(number != 0) : number});
    return reg;
  }

  loop::Reg scalar(int32_t number, DType type) {
    auto it = std::find(out_.scalars.begin(), out_.scalars.end(), number);
    auto which = static_cast<int32_t>(it - out_.scalars.begin());
    if (it == out_.scalars.end()) out_.scalars.push_back(number);
    loop::Reg reg = fresh();
    add(loop::ScalarArgument{reg, type, which});
    return reg;
  }

  loop::Reg argument(int index, DType type) {
    const ir::Argument& arg = node_->args[index];
    if (const auto* id = std::get_if<ValueId>(&arg)) return element(*id, type);
    if (int32_t number = ir::scalar_in(arg); number != ir::kNoScalar) return scalar(number, type);
    return std::visit(
        [&](const auto& a) -> loop::Reg {
          using A = std::decay_t<decltype(a)>;
          if constexpr (std::is_same_v<A, double>) return constant(a, type);
          else if constexpr (std::is_same_v<A, int64_t> || std::is_same_v<A, bool>) return constant(static_cast<int64_t>(a), type);
          else if constexpr (std::is_same_v<A, ir::NumberTensor>) return number_tensor(a, type);
          else throw InternalError(node_->op + " has an argument that is no number");
        },
        std::get<ir::Attribute>(arg));
  }

  loop::Reg number_tensor(const ir::NumberTensor& n, DType type) {
    if (const auto* real = std::get_if<double>(&n.number)) {
      bool narrow = n.plain && n.dtype == DType::f32;
      return constant(narrow ? static_cast<double>(static_cast<float>(*real)) : *real, type);
    }
    if (const auto* whole = std::get_if<int64_t>(&n.number)) return constant(*whole, type);
    return constant(static_cast<int64_t>(std::get<bool>(n.number)), type);
  }

  bool is_one(const ops::Expression& e) const {
    if (e.kind == ops::Expression::Kind::number) return e.number == 1;
    return e.kind == ops::Expression::Kind::argument && ir::plain_text(node_->args[e.argument]) == "1";
  }

  // As a register of the row's type.
  loop::Reg value(const ops::Expression& e) {
    if (e.kind == ops::Expression::Kind::argument) return argument(e.argument, type_);
    if (e.kind == ops::Expression::Kind::number) return constant(e.number, type_);
    if (e.function == "mul" && is_one(e.operands[0])) return value(e.operands[1]);
    if (e.function == "mul" && is_one(e.operands[1])) return value(e.operands[0]);
    loop::Op op;
    if (!loop::op_from_name(e.function, op)) throw InternalError("the loop language has no " + e.function);
    std::vector<loop::Reg> operands;
    for (const ops::Expression& operand : e.operands)
      operands.push_back(op == loop::Op::select && operands.empty() ? condition(operand) : value(operand));
    return compute(op, type_, std::move(operands));
  }

  // As a bool.
  loop::Reg condition(const ops::Expression& e) {
    loop::Op op;
    if (e.kind == ops::Expression::Kind::argument) return argument(e.argument, DType::boolean);
    if (e.kind != ops::Expression::Kind::function || !loop::op_from_name(e.function, op))
      throw InternalError("'" + e.function + "' is no condition");
    if (loop::op_kind(op) == loop::OpKind::compare) return compute(op, type_, {value(e.operands[0]), value(e.operands[1])});
    std::vector<loop::Reg> operands;
    for (const ops::Expression& operand : e.operands) operands.push_back(condition(operand));
    return compute(op, DType::boolean, std::move(operands));
  }

  const ir::Graph& graph_;
  Lowered& out_;
  std::vector<loop::Index> indices_;
  std::vector<loop::Statement> statements_;
  std::map<std::pair<ValueId, DType>, loop::Reg> regs_;  // a value, in a type
  const ir::Node* node_ = nullptr;
  DType type_ = DType::f32;
};

// Strides of 0 are part of the text, and those of the innermost loop if they are 1: codegen looks
// at them. All others are numbers for the run.
loop::Size stride_of(int64_t stride, bool innermost, std::vector<int64_t>& sizes) {
  if (stride == 0 || (innermost && stride == 1)) return loop::Size::constant(stride);
  sizes.push_back(stride);
  return loop::Size::param(static_cast<int64_t>(sizes.size()) - 1);
}

}  // namespace

Lowered lower(const ir::Graph& graph, const ir::Group& group, const std::string& name) {
  Lowered out;
  out.buffers = group.inputs;
  out.buffers.insert(out.buffers.end(), group.outputs.begin(), group.outputs.end());
  for (size_t b = 0; b < out.buffers.size(); ++b)
    out.kernel.buffers.push_back({graph.values[out.buffers[b]].type.dtype, b >= group.inputs.size()});
  Space space = space_of(graph, group.sizes, out.buffers, group.inputs.size());
  int64_t elements = 1;
  for (const Space::Dim& dim : space.dims) elements *= dim.extent;
  int64_t left_over = 0;
  if (space.dims.size() == 1) {
    Space::Dim inner = space.dims[0], outer{1, inner.strides};
    if (inner.extent >= 2 * kRow) {
      outer.extent = inner.extent / kRow;
      left_over = inner.extent % kRow;
      inner.extent = kRow;
    }
    for (int64_t& stride : outer.strides) stride *= inner.extent;
    space.dims = {std::move(outer), std::move(inner)};
  }

  Launch launch{.offsets = std::vector<int64_t>(out.buffers.size(), 0), .elements = elements};
  loop::Loop inner{.kind = loop::Loop::Kind::vector};
  out.kernel.outer.kind = loop::Loop::Kind::parallel;
  std::vector<loop::Index> indices(out.buffers.size());
  launch.iterations = 1;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    bool innermost = d + 1 == space.dims.size();
    launch.sizes.push_back(space.dims[d].extent);
    loop::Loop::Variable variable{static_cast<int32_t>(d), loop::Size::param(static_cast<int64_t>(d))};
    (innermost ? inner : out.kernel.outer).variables.push_back(variable);
    if (!innermost) launch.iterations *= space.dims[d].extent;
  }
  for (size_t d = 0; d < space.dims.size(); ++d)
    for (size_t b = 0; b < out.buffers.size(); ++b) {
      loop::Size stride = stride_of(space.dims[d].strides[b], d + 1 == space.dims.size(), launch.sizes);
      if (stride != loop::Size::constant(0)) indices[b].push_back({loop::Term::Kind::loop, static_cast<int32_t>(d), stride});
    }
  out.kernel.name = name;
  out.kernel.variables = static_cast<int32_t>(space.dims.size());
  inner.body = Body(graph, out, std::move(indices)).write(group);
  out.kernel.outer.body.push_back({std::move(inner)});
  out.kernel.sizes = static_cast<int32_t>(launch.sizes.size());
  out.kernel.scalars = static_cast<int32_t>(out.scalars.size());
  out.launches.push_back(launch);
  if (left_over > 0) {
    Launch rest = launch;
    rest.sizes[0] = rest.iterations = 1;
    rest.sizes[1] = left_over;
    for (size_t b = 0; b < out.buffers.size(); ++b) rest.offsets[b] = space.dims[0].strides[b] * space.dims[0].extent;
    out.launches.push_back(std::move(rest));
  }
  return out;
}

}  // namespace tenon::loops
