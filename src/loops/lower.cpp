#include "loops/lower.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

#include "loops/space.h"

namespace tenon::loops {
namespace {

using ir::DType;
namespace loop = ir::loop;

constexpr int kAnywhere = std::numeric_limits<int>::max();

// Writes a kernel's statements. Terms that vary along the reduced dimensions are computed in loops
// over these, one loop a phase: phase n can use what n reductions of one another have given.
// Whatever a later phase needs again it computes again; but what is dear to compute is kept in an
// output that is written last. All other terms are computed once in front of the first loop that
// needs them. A group that reduces nothing has no such loops.
class Writer {
 public:
  Writer(const Terms& terms, const Space& space, Lowered& out) : terms_(terms), space_(space), out_(out), facts_(terms.all().size()) {
    add_sizes();
    for (size_t i = 0; i < terms.all().size(); ++i) examine(static_cast<TermId>(i));
  }

  void write(size_t inputs) {
    for (size_t b = inputs; b < out_.buffers.size(); ++b) stores_.push_back({terms_.of(out_.buffers[b]), static_cast<int32_t>(b)});
    for (auto& store : stores_) mark(store.term);
    keep_dear();
    int last = 0;
    for (const Fact& fact : facts_)
      if (fact.needed) last = std::max(last, fact.phase);
    for (int phase = 0; phase <= last; ++phase) write_phase(phase);
    out_.kernel.outer.body = std::move(outer_.statements);
    find_shared(inputs);
  }

 private:
  struct Fact {
    int phase = 0;
    bool inner = false;   // differs along the reduced dimensions
    bool needed = false;  // for a result
  };
  struct Store {
    TermId term;
    int32_t buffer;
  };
  struct Block {
    std::vector<loop::Statement> statements;
    std::map<TermId, loop::Reg> regs;
  };

  const Term& term(TermId id) const { return terms_.all()[id]; }
  loop::Reg fresh() { return out_.kernel.registers++; }

  // Loop variables and where each buffer is read or written. Strides of 0 are part of the text, and
  // those of 1 in the loop that runs fastest: codegen looks at them. All others are numbers for the run.
  void add_sizes() {
    int32_t variable = 0;
    indices_.resize(out_.buffers.size());
    last_read_.assign(out_.buffers.size(), -1);
    is_inner_.resize(out_.buffers.size());
    for (const auto* dims : {&space_.kept, &space_.reduced})
      for (const Space::Dim& dim : *dims) {
        if (dim.of >= 0) variable_of_[static_cast<size_t>(dim.of)] = variable;
        loop::Loop::Variable v{variable++, param(dim.extent)};
        if (dims == &space_.kept) out_.kernel.outer.variables.push_back(v);
        else inner_variables_.push_back(v);
        (dims == &space_.kept ? out_.iterations : inner_count_) *= dim.extent;
      }
    out_.elements = out_.iterations * inner_count_;
    variable = 0;
    for (const auto* dims : {&space_.kept, &space_.reduced})
      for (const Space::Dim& dim : *dims) {
        bool fastest = &dim == &dims->back() && space_.rows == (dims == &space_.reduced);
        for (size_t b = 0; b < out_.buffers.size(); ++b) {
          int64_t stride = dim.strides[b];
          if (stride == 0) continue;
          loop::Size size = fastest && stride == 1 ? loop::Size::constant(1) : param(stride);
          indices_[b].push_back({loop::Term::Kind::loop, variable, size});
          if (dims == &space_.reduced) is_inner_[b] = true;
        }
        ++variable;
      }
    out_.kernel.variables = static_cast<int32_t>(space_.kept.size());
  }

  loop::Size param(int64_t number) {
    out_.sizes.push_back(number);
    return loop::Size::param(static_cast<int64_t>(out_.sizes.size()) - 1);
  }

  void examine(TermId id) {
    const Term& t = term(id);
    Fact& fact = facts_[id];
    if (t.kind == Term::Kind::load) fact.inner = is_inner_[t.which];
    for (TermId operand : t.operands) {
      fact.phase = std::max(fact.phase, facts_[operand].phase);
      fact.inner |= facts_[operand].inner;
    }
    if (t.kind != Term::Kind::reduce) return;
    fact.inner = false;
    ++fact.phase;
  }

  void mark(TermId id) {
    if (std::exchange(facts_[id].needed, true)) return;
    for (TermId operand : term(id).operands) mark(operand);
  }

  static bool is_dear(const Term& t) {
    auto op = static_cast<loop::Op>(t.which);
    return t.kind == Term::Kind::compute && op >= loop::Op::exp && op <= loop::Op::pow;
  }

  // The last phase whose loop needs a term.
  void note_uses(TermId id, int phase, std::vector<int>& last) const {
    if (!facts_[id].inner || last[id] >= phase) return;
    last[id] = phase;
    for (TermId operand : term(id).operands) note_uses(operand, phase, last);
  }

  void keep_dear() {
    std::vector<int> last(facts_.size(), -1);
    for (size_t i = 0; i < facts_.size(); ++i)
      if (terms_.all()[i].kind == Term::Kind::reduce && facts_[i].needed) note_uses(terms_.all()[i].operands[0], facts_[i].phase - 1, last);
    for (const Store& store : stores_)
      if (is_inner_[store.buffer]) note_uses(store.term, facts_[store.term].phase, last);
    for (size_t i = 0; i < facts_.size(); ++i) {
      const Term& t = terms_.all()[i];
      if (!is_dear(t) || !facts_[i].needed || !facts_[i].inner || last[i] <= facts_[i].phase) continue;
      for (const Store& store : stores_) {
        bool is_free = std::none_of(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.second == store.buffer; });
        bool fits =
            out_.kernel.buffers[store.buffer].type == t.type && indices_[store.buffer].size() == space_.kept.size() + space_.reduced.size();
        if (!is_free || !fits || facts_[store.term].phase < last[i]) continue;
        kept_[static_cast<TermId>(i)] = store.buffer;
        break;
      }
    }
  }

  void write_phase(int phase) {
    Block inner;
    phase_ = phase;
    std::vector<loop::Reduction> reductions;
    std::vector<TermId> reduced;
    for (size_t i = 0; i < facts_.size(); ++i) {
      const Term& t = terms_.all()[i];
      if (t.kind != Term::Kind::reduce || !facts_[i].needed || facts_[i].phase != phase + 1) continue;
      loop::Reg value = emit(t.operands[0], inner);
      if (!facts_[t.operands[0]].inner) value = copy(value, t.type, inner);
      reductions.push_back({static_cast<loop::Reduction::Kind>(t.which), t.type, value, loop::kNoReg});
      reduced.push_back(static_cast<TermId>(i));
    }
    std::vector<Store> stores;
    for (auto [id, buffer] : kept_)
      if (facts_[id].phase == phase) stores.push_back({id, buffer});
    for (const Store& store : stores_)
      if (facts_[store.term].phase == phase && is_inner_[store.buffer]) stores.push_back(store);
    // All values first: some are read from where others go.
    for (const Store& store : stores) emit(store.term, inner);
    for (const Store& store : stores) write_store(store, inner);
    if (!inner.statements.empty()) {
      std::vector<loop::Reg> results = nest(std::move(inner.statements), std::move(reductions));
      for (size_t r = 0; r < reduced.size(); ++r) outer_.regs[reduced[r]] = results[r];
    }
    stores.clear();
    for (const Store& store : stores_)
      if (facts_[store.term].phase == phase && !is_inner_[store.buffer]) stores.push_back(store);
    for (const Store& store : stores) emit(store.term, outer_);
    for (const Store& store : stores) write_store(store, outer_);
  }

  // Elements of one index are read and written by one iteration; what is left is the order within it.
  void find_shared(size_t inputs) {
    for (const Store& store : stores_) {
      bool is_scratch = std::any_of(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.second == store.buffer; });
      bool is_whole = indices_[store.buffer].size() == space_.kept.size() + (is_inner_[store.buffer] ? space_.reduced.size() : 0);
      if (is_scratch || !is_whole) continue;
      for (size_t b = 0; b < inputs; ++b) {
        auto input = static_cast<int32_t>(b);
        bool same_place = have_same_strides(b, static_cast<size_t>(store.buffer)) &&
                          out_.kernel.buffers[b].type == out_.kernel.buffers[store.buffer].type;
        if (same_place && last_read_[b] <= facts_[store.term].phase) out_.may_share.emplace_back(store.buffer, input);
      }
    }
  }

  bool have_same_strides(size_t a, size_t b) const {
    auto same = [&](const Space::Dim& dim) { return dim.strides[a] == dim.strides[b]; };
    return std::all_of(space_.kept.begin(), space_.kept.end(), same) && std::all_of(space_.reduced.begin(), space_.reduced.end(), same);
  }

  // Every loop has a variable of its own: those of this phase follow those of the one before.
  loop::Index index(int32_t buffer) const {
    loop::Index out = indices_[buffer];
    for (loop::Term& t : out)
      if (t.which >= static_cast<int32_t>(space_.kept.size())) t.which += first_inner();
    return out;
  }
  int32_t first_inner() const { return out_.kernel.variables - static_cast<int32_t>(space_.kept.size()); }

  // Loops around a body; what it reduces is known behind them.
  std::vector<loop::Reg> nest(std::vector<loop::Statement> body, std::vector<loop::Reduction> reductions) {
    for (size_t v = inner_variables_.size(); v-- > 0;) {
      bool innermost = v + 1 == inner_variables_.size();
      loop::Loop around{.kind = innermost && space_.rows ? loop::Loop::Kind::vector : loop::Loop::Kind::serial};
      around.variables = {{inner_variables_[v].number + first_inner(), inner_variables_[v].extent}};
      around.body = std::move(body);
      for (loop::Reduction& r : reductions) r.result = fresh();
      around.reductions = reductions;
      for (loop::Reduction& r : reductions) r.value = r.result;
      body.clear();
      body.push_back({std::move(around)});
    }
    out_.kernel.variables += static_cast<int32_t>(inner_variables_.size());
    outer_.statements.push_back(std::move(body[0]));
    std::vector<loop::Reg> results;
    for (const loop::Reduction& r : reductions) results.push_back(r.result);
    return results;
  }

  void write_store(const Store& store, Block& block) {
    loop::Reg value = emit(store.term, block);
    block.statements.push_back({loop::Store{store.buffer, index(store.buffer), value}});
  }

  loop::Load load_of(const Term& t, loop::Reg reg, const std::vector<loop::Reg>& operands) {
    loop::Load load{reg, t.which, index(t.which)};
    last_read_[t.which] = std::max(last_read_[t.which], t.access < 0 ? phase_ : kAnywhere);
    if (t.access < 0) return load;
    const Access& access = terms_.accesses()[static_cast<size_t>(t.access)];
    if (access.offset != 0) load.index.push_back({loop::Term::Kind::one, 0, param(access.offset)});
    if (access.index_stride != 0) load.index.push_back({loop::Term::Kind::reg, operands.back(), param(access.index_stride)});
    if (access.has_mask) load.mask = operands[0];
    return load;
  }

  // A loop reduces what its own body assigns.
  loop::Reg copy(loop::Reg value, DType type, Block& block) {
    loop::Reg reg = fresh();
    block.statements.push_back({loop::Compute{reg, type == DType::boolean ? loop::Op::bit_or : loop::Op::max, type, {value, value}}});
    return reg;
  }

  // A term's register; what does not vary in the inner block is computed outside.
  loop::Reg emit(TermId id, Block& inner) {
    Block& block = facts_[id].inner ? inner : outer_;
    if (auto known = block.regs.find(id); known != block.regs.end()) return known->second;
    if (auto kept = kept_.find(id); kept != kept_.end() && facts_[id].phase < phase_) {
      loop::Reg reg = block.regs[id] = fresh();
      block.statements.push_back({loop::Load{reg, kept->second, index(kept->second)}});
      return reg;
    }
    const Term& t = term(id);
    std::vector<loop::Reg> operands;
    for (TermId operand : t.operands) operands.push_back(emit(operand, inner));
    loop::Reg reg = block.regs[id] = fresh();
    switch (t.kind) {
      case Term::Kind::load:
        block.statements.push_back({load_of(t, reg, operands)});
        break;
      case Term::Kind::position:
        block.statements.push_back({loop::LoopIndex{reg, variable_of_.at(static_cast<size_t>(t.which))}});
        break;
      case Term::Kind::constant:
        if (ir::is_floating(t.type)) block.statements.push_back({loop::Constant{reg, t.type, std::bit_cast<double>(t.bits)}});
        else block.statements.push_back({loop::Constant{reg, t.type, std::bit_cast<int64_t>(t.bits)}});
        break;
      case Term::Kind::scalar:
        block.statements.push_back({loop::ScalarArgument{reg, t.type, t.which}});
        break;
      default:
        block.statements.push_back({loop::Compute{reg, static_cast<loop::Op>(t.which), t.type, std::move(operands)}});
    }
    return reg;
  }

  const Terms& terms_;
  const Space& space_;
  Lowered& out_;
  std::vector<Fact> facts_;
  std::vector<loop::Index> indices_;  // per buffer
  std::vector<int> last_read_;        // per buffer: in which phase
  std::vector<bool> is_inner_;        // per buffer: differs along the reduced dimensions
  std::vector<loop::Loop::Variable> inner_variables_;
  std::map<size_t, int32_t> variable_of_;  // dimensions that stay apart
  int64_t inner_count_ = 1;
  std::vector<Store> stores_;
  std::map<TermId, int32_t> kept_;  // in a buffer
  int phase_ = 0;
  Block outer_;
};

}  // namespace

Lowered lower(const ir::Graph& graph, const ir::Group& group, const std::string& name) {
  Lowered out;
  out.buffers = group.inputs;
  out.buffers.insert(out.buffers.end(), group.outputs.begin(), group.outputs.end());
  for (size_t b = 0; b < out.buffers.size(); ++b)
    out.kernel.buffers.push_back({graph.values[out.buffers[b]].type.dtype, b >= group.inputs.size()});
  out.kernel.name = name;
  out.kernel.outer.kind = loop::Loop::Kind::parallel;
  Terms terms(graph, group, out.buffers);
  Space space = space_of(graph, group, out.buffers, terms.positions());
  out.numbers = terms.numbers();
  Writer(terms, space, out).write(group.inputs.size());
  out.kernel.scalars = static_cast<int32_t>(out.numbers.size());
  out.kernel.sizes = static_cast<int32_t>(out.sizes.size());
  return out;
}

}  // namespace tenon::loops
