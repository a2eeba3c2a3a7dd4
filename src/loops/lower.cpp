#include "loops/lower.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

#include "ir/loop/print.h"
#include "loops/space.h"

namespace tenon::loops {
namespace {

using ir::DType;
namespace loop = ir::loop;

constexpr int kAfterAllPhases = std::numeric_limits<int>::max();

// Writes a kernel's statements. Terms that vary along the reduced dimensions are computed in inner
// loops over these dimensions, one loop per phase. Phase n may read the results of reductions nested
// n deep. Values are recomputed in each loop, except expensive ones such as `exp`, which are kept in
// an output buffer that is written last. Loop-invariant terms are computed once, before the first loop
// that needs them. A group that reduces nothing has no inner loops.
class Writer {
 public:
  Writer(const Terms& terms, const Space& space, Lowered& out) : terms_(terms), space_(space), out_(out), info_(terms.all().size()) {
    add_sizes();
    for (size_t i = 0; i < terms.all().size(); ++i) examine(static_cast<TermId>(i));
  }

  void write(size_t inputs) {
    for (size_t b = inputs; b < out_.buffers.size(); ++b) stores_.push_back({terms_.of(out_.buffers[b]), static_cast<int32_t>(b)});
    for (auto& store : stores_) mark_needed(store.term);
    keep_expensive();
    int last = 0;
    for (const TermInfo& info : info_)
      if (info.needed) last = std::max(last, info.phase);
    for (int phase = 0; phase <= last; ++phase) write_phase(phase);
    out_.kernel.outer.body = std::move(outer_.statements);
    find_shared(inputs);
  }

 private:
  struct TermInfo {
    int phase = 0;
    bool inner = false;   // The term varies along the reduced dimensions.
    bool needed = false;  // A result depends on the term.
  };
  struct PendingStore {
    TermId term;
    int32_t buffer;
  };
  struct StatementBlock {
    std::vector<loop::Statement> statements;
    std::map<TermId, loop::Reg> regs;
  };

  const Term& term(TermId id) const { return terms_.all()[id]; }
  loop::Reg fresh() { return out_.kernel.registers++; }

  // Creates the loop variables and the element index of each buffer. Strides of 0, and of 1 in the
  // innermost loop, are constants of the text, because codegen specializes on them. All other strides
  // are size arguments.
  void add_sizes() {
    int32_t variable = 0;
    indices_.resize(out_.buffers.size());
    last_read_.assign(out_.buffers.size(), -1);
    is_inner_.resize(out_.buffers.size());
    for (const auto* dims : {&space_.kept, &space_.reduced})
      for (const Space::LoopDim& dim : *dims) {
        if (dim.group_dim >= 0) variable_of_[static_cast<size_t>(dim.group_dim)] = variable;
        loop::Loop::Variable v{variable++, param(dim.extent)};
        if (dims == &space_.kept) out_.kernel.outer.variables.push_back(v);
        else inner_variables_.push_back(v);
        (dims == &space_.kept ? out_.iterations : inner_count_) *= dim.extent;
      }
    out_.elements = out_.iterations * inner_count_;
    variable = 0;
    for (const auto* dims : {&space_.kept, &space_.reduced})
      for (const Space::LoopDim& dim : *dims) {
        bool fastest = &dim == &dims->back() && space_.is_fastest_reduced == (dims == &space_.reduced);
        for (size_t b = 0; b < out_.buffers.size(); ++b) {
          const ir::Size& stride = dim.strides[b];
          if (stride == 0) continue;
          loop::LoopSize size = fastest && stride == 1 ? loop::LoopSize::constant(1) : param(stride);
          indices_[b].push_back({loop::IndexTerm::Kind::loop, variable, size});
          if (dims == &space_.reduced) is_inner_[b] = true;
        }
        ++variable;
      }
    out_.kernel.variables = static_cast<int32_t>(space_.kept.size());
  }

  loop::LoopSize param(const ir::Size& size) {
    out_.sizes.push_back(size);
    return loop::LoopSize::param(static_cast<int64_t>(out_.sizes.size()) - 1);
  }

  void examine(TermId id) {
    const Term& t = term(id);
    TermInfo& info = info_[id];
    if (t.kind == Term::Kind::load) info.inner = is_inner_[t.which];
    for (TermId operand : t.operands) {
      info.phase = std::max(info.phase, info_[operand].phase);
      info.inner |= info_[operand].inner;
    }
    if (t.kind != Term::Kind::reduce) return;
    info.inner = false;
    ++info.phase;
  }

  void mark_needed(TermId id) {
    if (std::exchange(info_[id].needed, true)) return;
    for (TermId operand : term(id).operands) mark_needed(operand);
  }

  static bool is_expensive(const Term& t) {
    auto op = static_cast<loop::Op>(t.which);
    return t.kind == Term::Kind::compute && op >= loop::Op::exp && op <= loop::Op::pow;
  }

  // Records the last phase whose loop needs a term.
  void note_uses(TermId id, int phase, std::vector<int>& last) const {
    if (!info_[id].inner || last[id] >= phase) return;
    last[id] = phase;
    for (TermId operand : term(id).operands) note_uses(operand, phase, last);
  }

  void keep_expensive() {
    std::vector<int> last(info_.size(), -1);
    for (size_t i = 0; i < info_.size(); ++i)
      if (terms_.all()[i].kind == Term::Kind::reduce && info_[i].needed) note_uses(terms_.all()[i].operands[0], info_[i].phase - 1, last);
    for (const PendingStore& store : stores_)
      if (is_inner_[store.buffer]) note_uses(store.term, info_[store.term].phase, last);
    for (size_t i = 0; i < info_.size(); ++i) {
      const Term& t = terms_.all()[i];
      if (!is_expensive(t) || !info_[i].needed || !info_[i].inner || last[i] <= info_[i].phase) continue;
      for (const PendingStore& store : stores_) {
        bool is_free = std::none_of(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.second == store.buffer; });
        bool fits =
            out_.kernel.buffers[store.buffer].type == t.type && indices_[store.buffer].size() == space_.kept.size() + space_.reduced.size();
        if (!is_free || !fits || info_[store.term].phase < last[i]) continue;
        kept_[static_cast<TermId>(i)] = store.buffer;
        break;
      }
    }
  }

  void write_phase(int phase) {
    StatementBlock inner;
    phase_ = phase;
    std::vector<loop::Reduction> reductions;
    std::vector<TermId> reduced;
    for (size_t i = 0; i < info_.size(); ++i) {
      const Term& t = terms_.all()[i];
      if (t.kind != Term::Kind::reduce || !info_[i].needed || info_[i].phase != phase + 1) continue;
      loop::Reg value = emit(t.operands[0], inner);
      if (!info_[t.operands[0]].inner) value = copy(value, t.type, inner);
      reductions.push_back({static_cast<loop::Reduction::Kind>(t.which), t.type, value, loop::kNoReg});
      reduced.push_back(static_cast<TermId>(i));
    }
    std::vector<PendingStore> stores;
    for (auto [id, buffer] : kept_)
      if (info_[id].phase == phase) stores.push_back({id, buffer});
    for (const PendingStore& store : stores_)
      if (info_[store.term].phase == phase && is_inner_[store.buffer]) stores.push_back(store);
    // All values are computed before the first store, because some are read from buffers that are stored to.
    for (const PendingStore& store : stores) emit(store.term, inner);
    for (const PendingStore& store : stores) write_store(store, inner);
    if (!inner.statements.empty()) {
      std::vector<loop::Reg> results = nest(std::move(inner.statements), std::move(reductions));
      for (size_t r = 0; r < reduced.size(); ++r) outer_.regs[reduced[r]] = results[r];
    }
    stores.clear();
    for (const PendingStore& store : stores_)
      if (info_[store.term].phase == phase && !is_inner_[store.buffer]) stores.push_back(store);
    for (const PendingStore& store : stores) emit(store.term, outer_);
    for (const PendingStore& store : stores) write_store(store, outer_);
  }

  // An output may share the buffer of an input with the same strides: one iteration reads and writes
  // the same elements, so only the order within the iteration matters.
  void find_shared(size_t inputs) {
    for (const PendingStore& store : stores_) {
      bool is_scratch = std::any_of(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.second == store.buffer; });
      bool is_whole = indices_[store.buffer].size() == space_.kept.size() + (is_inner_[store.buffer] ? space_.reduced.size() : 0);
      if (is_scratch || !is_whole) continue;
      for (size_t b = 0; b < inputs; ++b) {
        auto input = static_cast<int32_t>(b);
        bool same_elements = have_same_strides(b, static_cast<size_t>(store.buffer)) &&
                             out_.kernel.buffers[b].type == out_.kernel.buffers[store.buffer].type;
        if (same_elements && last_read_[b] <= info_[store.term].phase) out_.may_share.emplace_back(store.buffer, input);
      }
    }
  }

  bool have_same_strides(size_t a, size_t b) const {
    auto equal = [&](const Space::LoopDim& dim) { return ir::same(dim.strides[a], dim.strides[b]); };
    return std::all_of(space_.kept.begin(), space_.kept.end(), equal) && std::all_of(space_.reduced.begin(), space_.reduced.end(), equal);
  }

  // Every loop has its own variables; those of this phase follow those of the previous one.
  loop::Index index(int32_t buffer) const {
    loop::Index out = indices_[buffer];
    for (loop::IndexTerm& t : out)
      if (t.which >= static_cast<int32_t>(space_.kept.size())) t.which += first_inner();
    return out;
  }
  int32_t first_inner() const { return out_.kernel.variables - static_cast<int32_t>(space_.kept.size()); }

  // Wraps a body in the inner loops and returns the registers of its reductions.
  std::vector<loop::Reg> nest(std::vector<loop::Statement> body, std::vector<loop::Reduction> reductions) {
    for (size_t v = inner_variables_.size(); v-- > 0;) {
      bool innermost = v + 1 == inner_variables_.size();
      loop::Loop around{.kind = innermost && space_.is_fastest_reduced ? loop::Loop::Kind::vector : loop::Loop::Kind::serial};
      around.variables = {{inner_variables_[v].id + first_inner(), inner_variables_[v].extent}};
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

  void write_store(const PendingStore& store, StatementBlock& block) {
    loop::Reg value = emit(store.term, block);
    block.statements.push_back({loop::Store{store.buffer, index(store.buffer), value}});
  }

  loop::Load load_of(const Term& t, loop::Reg reg, const std::vector<loop::Reg>& operands) {
    loop::Load load{reg, t.which, index(t.which)};
    last_read_[t.which] = std::max(last_read_[t.which], t.addressing < 0 ? phase_ : kAfterAllPhases);
    if (t.addressing < 0) return load;
    const AddressingMode& addressing = terms_.addressing_modes()[static_cast<size_t>(t.addressing)];
    if (addressing.offset != 0) load.index.push_back({loop::IndexTerm::Kind::one, 0, param(addressing.offset)});
    if (addressing.index_stride != 0) load.index.push_back({loop::IndexTerm::Kind::reg, operands.back(), param(addressing.index_stride)});
    if (addressing.has_mask) load.mask = operands[0];
    return load;
  }

  // A loop can only reduce registers of its own body, so a loop-invariant value is copied into it.
  loop::Reg copy(loop::Reg value, DType type, StatementBlock& block) {
    loop::Reg reg = fresh();
    block.statements.push_back({loop::Compute{reg, type == DType::boolean ? loop::Op::bit_or : loop::Op::max, type, {value, value}}});
    return reg;
  }

  // Returns a term's register. Loop-invariant terms are hoisted into the outer block.
  loop::Reg emit(TermId id, StatementBlock& inner) {
    StatementBlock& block = info_[id].inner ? inner : outer_;
    if (auto known = block.regs.find(id); known != block.regs.end()) return known->second;
    if (auto kept = kept_.find(id); kept != kept_.end() && info_[id].phase < phase_) {
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
  std::vector<TermInfo> info_;
  std::vector<loop::Index> indices_;  // One entry per buffer.
  std::vector<int> last_read_;        // The phase of each buffer's last load.
  std::vector<bool> is_inner_;        // One flag per buffer: it varies along the reduced dimensions.
  std::vector<loop::Loop::Variable> inner_variables_;
  std::map<size_t, int32_t> variable_of_;  // Loop variable of each group dimension that has a separate loop.
  ir::Size inner_count_ = 1;
  std::vector<PendingStore> stores_;
  std::map<TermId, int32_t> kept_;  // Output buffer that holds an expensive term between phases.
  int phase_ = 0;
  StatementBlock outer_;
};

}  // namespace

Lowered lower(const ir::Graph& graph, const ops::Lowerings& lowerings, const ir::Group& group, const std::string& name) {
  Lowered out;
  out.buffers = group.inputs;
  out.buffers.insert(out.buffers.end(), group.outputs.begin(), group.outputs.end());
  for (size_t b = 0; b < out.buffers.size(); ++b)
    out.kernel.buffers.push_back({graph.values[out.buffers[b]].type.dtype, b >= group.inputs.size()});
  out.kernel.name = name;
  out.kernel.outer.kind = loop::Loop::Kind::parallel;
  Terms terms(graph, lowerings, group, out.buffers);
  Space space = space_of(graph, group, out.buffers, terms.positions());
  out.scalars = terms.scalars();
  Writer(terms, space, out).write(group.inputs.size());
  out.kernel.scalars = static_cast<int32_t>(out.scalars.size());
  out.kernel.sizes = static_cast<int32_t>(out.sizes.size());
  out.key = loop::key(out.kernel);
  return out;
}

}  // namespace tenon::loops
