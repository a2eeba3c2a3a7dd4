#include "support/random_kernel.h"

#include <algorithm>

#include "support/random_values.h"

namespace tenon::test {

using namespace ir::loop;
using ir::DType;

namespace {

constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::bf16, DType::f16,
                            DType::i64, DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};
constexpr int32_t kMaxOutputs = 8;

class Generator {
 public:
  explicit Generator(std::mt19937_64& random)
      : dice_(random), kernel_(out_.kernel), is_exact_(dice_.chance(0.5)), values_(dice_, kernel_, is_exact_) {}

  RandomKernel run() {
    out_.is_exact = is_exact_;
    kernel_.name = "random";
    kernel_.scalars = static_cast<int32_t>(dice_.below(3));
    static constexpr int64_t kMaxExtent[] = {80, 9, 5};
    auto variables = 1 + dice_.below(3);
    Loop outer;
    outer.kind = Loop::Kind::parallel;
    for (int64_t i = 0; i < variables; ++i) enter(outer, kMaxExtent[variables - 1]);
    fill(outer, 0);
    if (outputs_ == 0) store();
    values_.close();
    kernel_.outer = std::move(outer);
    return std::move(out_);
  }

 private:
  struct EnclosingLoop {
    int32_t id;
    LoopSize extent;
    int64_t max;
  };

  LoopSize rule(const SizeRule& r) {
    auto found = std::find(out_.sizes.begin(), out_.sizes.end(), r);
    bool is_shared =
        found != out_.sizes.end() && (r.kind == SizeRule::Kind::product || r.kind == SizeRule::Kind::last || dice_.chance(0.4));
    if (is_shared) return LoopSize::param(found - out_.sizes.begin());
    out_.sizes.push_back(r);
    return LoopSize::param(kernel_.sizes++);
  }

  void enter(Loop& loop, int64_t max) {
    static constexpr int64_t kConstants[] = {1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 40};
    EnclosingLoop v{kernel_.variables++, rule_or_constant(max), max};
    if (!v.extent.is_param) {
      do v.extent.value = dice_.pick(kConstants);
      while (v.extent.value > max);
      if (dice_.chance(0.02)) v.extent.value = 0;
    }
    loop.variables.push_back({v.id, v.extent});
    enclosing_.push_back(v);
  }

  LoopSize rule_or_constant(int64_t max) { return dice_.chance(0.7) ? rule({SizeRule::Kind::extent, max, {}, {}}) : LoopSize::constant(0); }

  LoopSize free_size() { return dice_.chance(0.5) ? rule({SizeRule::Kind::free, 7, {}, {}}) : LoopSize::constant(dice_.below(4)); }

  LoopSize next_stride(LoopSize stride, LoopSize extent) {
    int64_t pad = dice_.chance(0.2) ? 1 + dice_.below(3) : 0;
    if (!stride.is_param && !extent.is_param) return LoopSize::constant(stride.value * std::max<int64_t>(extent.value, 1) + pad);
    return rule({SizeRule::Kind::product, pad, stride, extent});
  }

  // Returns an index that differs in each iteration of these loops.
  Index dense(std::vector<EnclosingLoop> loops) {
    if (dice_.chance(0.3))
      for (size_t i = loops.size(); i > 1; --i) std::swap(loops[i - 1], loops[dice_.below(static_cast<int64_t>(i))]);
    Index index;
    LoopSize stride = LoopSize::constant(dice_.chance(0.15) ? 2 : 1);
    for (size_t i = loops.size(); i-- > 0; stride = next_stride(stride, loops[i].extent))
      index.insert(index.begin(), IndexTerm{IndexTerm::Kind::loop, loops[i].id, stride});
    return index;
  }

  Index anywhere(const std::vector<EnclosingLoop>& loops) {
    Index index;
    for (const EnclosingLoop& loop : loops) {
      if (dice_.chance(0.2)) {
        index.push_back({IndexTerm::Kind::loop, loop.id, LoopSize::constant(-1)});
        LoopSize last = loop.extent.is_param ? rule({SizeRule::Kind::last, 0, loop.extent, {}})
                                             : LoopSize::constant(std::max<int64_t>(loop.extent.value - 1, 0));
        index.push_back({IndexTerm::Kind::one, 0, last});
      } else {
        index.push_back({IndexTerm::Kind::loop, loop.id, free_size()});
      }
    }
    if (dice_.chance(0.3)) index.push_back({IndexTerm::Kind::one, 0, free_size()});
    if (dice_.chance(0.3)) {
      Item item = values_.compute(Op::bit_and, DType::i64, {values_.of(DType::i64), values_.constant(DType::i64, 7)}, 7);
      out_.in_index[item.reg] = LoopSize::constant(8);
      index.push_back({IndexTerm::Kind::reg, item.reg, free_size()});
    }
    return index;
  }

  int32_t buffer(DType type, bool is_output) {
    if (!is_output && dice_.chance(0.3))
      for (size_t i = 0; i < kernel_.buffers.size(); ++i)
        if (kernel_.buffers[i].type == type && !kernel_.buffers[i].is_output) return static_cast<int32_t>(i);
    kernel_.buffers.push_back({type, is_output});
    out_.tolerances.push_back(0);
    return static_cast<int32_t>(kernel_.buffers.size() - 1);
  }

  Item load_from(int32_t buffer, Index index, Reg mask) {
    Load statement{values_.new_register(), buffer, std::move(index), mask};
    values_.add({statement});
    DType type = kernel_.buffers[buffer].type;
    return {statement.result, type, is_real(type) || is_half(type) ? 2.0 : type == DType::boolean ? 1.0 : 100.0, 0, true};
  }

  void load() {
    std::vector<EnclosingLoop> loops;
    for (const EnclosingLoop& loop : enclosing_)
      if (dice_.chance(0.8)) loops.push_back(loop);
    Index index = dice_.chance(0.7) ? dense(loops) : anywhere(loops);
    Reg mask = dice_.chance(0.15) ? values_.of(DType::boolean).reg : kNoReg;
    values_.keep(load_from(buffer(dice_.pick(kTypes), false), std::move(index), mask));
  }

  // Loads the first elements along the last loop from one buffer, and the rest from another.
  void cat() {
    const EnclosingLoop& loop = enclosing_.back();
    Item at = values_.index(loop.id), end = values_.constant(DType::i64, static_cast<double>(dice_.below(9)));
    Item is_first = values_.compute(Op::lt, DType::i64, {at, end});
    Item is_second = values_.compute(Op::bit_not, DType::boolean, {is_first}, 1);
    Item shifted = values_.compute(Op::sub, DType::i64, {at, end}, 100);
    out_.in_index[shifted.reg] = loop.extent;
    DType type = dice_.pick(kTypes);
    Item first = load_from(buffer(type, false), dense(enclosing_), is_first.reg);
    Index index = dense(enclosing_);
    for (IndexTerm& term : index)
      if (term.which == loop.id) term = {IndexTerm::Kind::reg, shifted.reg, term.stride};
    Item second = load_from(buffer(type, false), std::move(index), is_second.reg);
    if (is_half(type)) {
      first = values_.cast(first, type = DType::f32);
      second = values_.cast(second, type);
    }
    values_.keep(values_.compute(Op::select, type, {is_first, first, second}, first.limit));
  }

  void store() {
    Item item = values_.any();
    if (dice_.chance(0.4)) item = values_.cast(item, dice_.pick(kTypes));
    values_.use(item);
    int32_t to = buffer(item.type, true);
    ++outputs_;
    out_.tolerances[to] = 2 * item.error;
    Store statement{to, dense(enclosing_), item.reg, kNoReg};
    if (dice_.chance(0.2)) {
      Item mask = values_.of(DType::boolean);
      statement.mask = mask.reg;
      if (dice_.chance(0.5)) {
        Item other = values_.cast(values_.any(), item.type), is_not = values_.compute(Op::bit_not, DType::boolean, {mask}, 1);
        out_.tolerances[to] = 2 * std::max(item.error, other.error);
        values_.add({Store{to, statement.index, other.reg, is_not.reg}});
      }
    }
    values_.add({statement});
  }

  void step() {
    if (dice_.chance(0.15)) load();
    else if (dice_.chance(0.08)) cat();
    else if (dice_.chance(0.08)) values_.keep(values_.index(dice_.pick(enclosing_).id));
    else if (kernel_.scalars > 0 && dice_.chance(0.08)) scalar();
    else values_.something();
  }

  void scalar() {
    ScalarArgument statement{values_.new_register(), dice_.chance(0.5) ? DType::f32 : DType::f64,
                             static_cast<int32_t>(dice_.below(kernel_.scalars))};
    values_.add({statement});
    values_.keep({statement.result, statement.type, 2, 0, true});
  }

  // Opens a scope that the caller closes.
  void fill(Loop& loop, int depth) {
    values_.open(loop.body);
    for (int64_t i = dice_.below(3); i >= 0; --i) load();
    for (int64_t i = dice_.below(7); i > 0; --i) step();
    if (depth < 2)
      for (int64_t i = dice_.below(3 - depth); i > 0; --i) inner(depth + 1);
    for (int64_t i = dice_.below(6); i > 0; --i) step();
    for (int64_t i = dice_.below(3); i > 0 && outputs_ < kMaxOutputs; --i) store();
  }

  void inner(int depth) {
    Loop loop;
    loop.kind = in_vector_ || dice_.chance(0.35) ? Loop::Kind::serial : Loop::Kind::vector;
    bool is_vector = loop.kind == Loop::Kind::vector;
    int32_t outputs = outputs_;
    enter(loop, is_vector ? 80 : 7);
    int64_t max = enclosing_.back().max;
    in_vector_ |= is_vector;
    fill(loop, depth);
    if (is_vector) in_vector_ = false;
    std::vector<Item> results;
    for (int64_t i = outputs == outputs_ ? 1 + dice_.below(3) : dice_.below(2); i > 0; --i) results.push_back(reduce(loop, max));
    enclosing_.pop_back();
    values_.close();
    values_.add({std::move(loop)});
    for (const Item& item : results) make_deterministic(item);
  }

  Item reduce(Loop& loop, int64_t max) {
    using Kind = Reduction::Kind;
    static constexpr Kind kKinds[] = {Kind::sum, Kind::sum, Kind::prod, Kind::max, Kind::min, Kind::any, Kind::all};
    static constexpr DType kNumbers[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::f64,
                                         DType::i64, DType::i32, DType::i16, DType::i8,  DType::u8};
    Kind kind = dice_.pick(kKinds);
    DType type = kind == Kind::any || kind == Kind::all ? DType::boolean : dice_.pick(kNumbers);
    Item value = values_.reducible(kind, type), item = values_.reduced(kind, value, max);
    loop.reductions.push_back({kind, type, value.reg, item.reg});
    return item;
  }

  // The maximum of an empty range is infinite, and a maximum of zeros may have either sign: makes the value unique.
  void make_deterministic(const Item& item) {
    if (!is_real(item.type)) {
      values_.keep(item);
    } else if (is_exact_) {
      values_.keep(values_.compute(Op::add, item.type, {item, values_.constant(item.type, 0)}));
    } else {
      double bound = std::max(item.limit, 1.0);
      Item high = values_.compute(Op::max, item.type, {item, values_.constant(item.type, -bound)}, bound, item.error);
      values_.keep(values_.compute(Op::min, item.type, {high, values_.constant(item.type, bound)}, bound, item.error));
    }
  }

  RandomKernel out_;
  Dice dice_;
  LoopKernel& kernel_;
  bool is_exact_;
  RandomValues values_;
  std::vector<EnclosingLoop> enclosing_;
  int32_t outputs_ = 0;
  bool in_vector_ = false;
};

}  // namespace

RandomKernel random_kernel(std::mt19937_64& random) { return Generator(random).run(); }

}  // namespace tenon::test
