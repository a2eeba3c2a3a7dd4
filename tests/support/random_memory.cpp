#include <algorithm>
#include <cmath>

#include "support/random_kernel.h"
#include "support/random_values.h"

namespace tenon::test {

using namespace ir::loop;
using ir::DType;

namespace {

int64_t value_of(const LoopSize& size, const std::vector<int64_t>& sizes) { return size.is_param ? sizes.at(size.value) : size.value; }

int64_t choose(const SizeRule& rule, const std::vector<int64_t>& sizes, Dice& dice) {
  switch (rule.kind) {
    case SizeRule::Kind::extent:
      if (dice.chance(0.04)) return 0;
      return dice.chance(0.15) ? 1 : 1 + dice.below(rule.max);
    case SizeRule::Kind::free:
      return dice.below(rule.max + 1);
    case SizeRule::Kind::product:
      return value_of(rule.a, sizes) * std::max<int64_t>(value_of(rule.b, sizes), 1) + rule.max;
    case SizeRule::Kind::last:
      return std::max<int64_t>(value_of(rule.a, sizes) - 1, 0);
  }
  return 0;
}

// Computes the required lengths of the buffers.
class BufferLengths {
 public:
  BufferLengths(const RandomKernel& r, const std::vector<int64_t>& sizes)
      : r_(r), sizes_(sizes), extents_(r.kernel.variables), lengths_(r.kernel.buffers.size(), 1) {
    (*this)(r.kernel.outer);
  }

  const std::vector<int64_t>& lengths() const { return lengths_; }

  template <class What>
  void operator()(const What&) {}
  void operator()(const Load& s) { extend(s.buffer, s.index); }
  void operator()(const Store& s) { extend(s.buffer, s.index); }
  void operator()(const Loop& loop) {
    for (const Loop::Variable& v : loop.variables) extents_.at(v.id) = value_of(v.extent, sizes_);
    for (const Statement& statement : loop.body) std::visit(*this, statement.what);
  }

 private:
  void extend(int32_t buffer, const Index& index) {
    int64_t last = 0;
    for (const IndexTerm& term : index) {
      int64_t max = term.kind == IndexTerm::Kind::one    ? 1
                    : term.kind == IndexTerm::Kind::loop ? extents_.at(term.which) - 1
                                                         : value_of(r_.in_index.at(term.which), sizes_) - 1;
      last += std::max<int64_t>(max * value_of(term.stride, sizes_), 0);
    }
    lengths_[buffer] = std::max(lengths_[buffer], last + 1);
  }

  const RandomKernel& r_;
  const std::vector<int64_t>& sizes_;
  std::vector<int64_t> extents_, lengths_;
};

double real_of(bool is_exact, Dice& dice) {
  static constexpr double kSpecialValues[] = {NAN,    INFINITY, -INFINITY, 0.0, -0.0, 1e-45, -1e-40,  3.4e38,
                                              -65504, 1,        -1,        0.5, 2.5,  -3.5,  16777217};
  if (!is_exact) return dice.unit() * 4 - 2;
  if (dice.chance(0.15)) return dice.pick(kSpecialValues);
  return dice.chance(0.5) ? dice.unit() * 8 - 4 : std::ldexp(dice.unit() - 0.5, static_cast<int>(dice.below(60)) - 30);
}

ScalarValue number_for(DType type, bool is_exact, Dice& dice) {
  if (is_real(type) || is_half(type)) return scalar_value(type, real_of(is_exact, dice));
  if (type == DType::boolean) return scalar_value(type, dice.below(2));
  if (is_exact && dice.chance(0.5)) return scalar_value(type, static_cast<int64_t>(dice.bits()));
  return scalar_value(type, type == DType::u8 ? dice.below(101) : dice.below(201) - 100);
}

}  // namespace

KernelMemory random_memory(const RandomKernel& r, std::mt19937_64& random) {
  Dice dice(random);
  KernelMemory memory;
  for (const SizeRule& rule : r.sizes) memory.sizes.push_back(choose(rule, memory.sizes, dice));
  for (int32_t i = 0; i < r.kernel.scalars; ++i) memory.scalars.push_back(real_of(r.is_exact, dice));
  std::vector<int64_t> lengths = BufferLengths(r, memory.sizes).lengths();
  for (size_t i = 0; i < lengths.size(); ++i) {
    const Buffer& buffer = r.kernel.buffers[i];
    memory.buffers.emplace_back(lengths[i] * ir::dtype_size(buffer.type));
    if (buffer.is_output) continue;
    for (int64_t at = 0; at < lengths[i]; ++at) write_element(number_for(buffer.type, r.is_exact, dice), memory.buffers[i].data(), at);
  }
  return memory;
}

int64_t iterations(const LoopKernel& kernel, const KernelMemory& memory) {
  int64_t count = 1;
  for (const Loop::Variable& v : kernel.outer.variables) count *= value_of(v.extent, memory.sizes);
  return count;
}

}  // namespace tenon::test
