// Generates programs by running them: a step is proposed, run on real tensors, and kept if ATen accepts it.
#include <torch/csrc/autograd/autograd.h>

#include "random_programs/random_program.h"

namespace tenon::random_programs {
namespace {

using torch::ScalarType;

bool can_broadcast(const Tensor& a, const Tensor& b) {
  for (int64_t i = 1; i <= std::min(a.dim(), b.dim()); ++i)
    if (a.size(-i) != b.size(-i) && a.size(-i) != 1 && b.size(-i) != 1) return false;
  return true;
}

bool fits(Fit fit, const Tensor& first, const Tensor& t) {
  bool same_type = first.scalar_type() == t.scalar_type();
  switch (fit) {
    case Fit::any:
      return true;
    case Fit::broadcast:
      return can_broadcast(first, t);
    case Fit::alike:
      return same_type && can_broadcast(first, t);
    case Fit::same:
      return same_type && first.sizes() == t.sizes();
    case Fit::inner:
      return same_type && first.dim() > 0 && t.dim() > 0 && first.numel() * t.numel() < 20000 &&
             first.size(-1) == t.size(t.dim() > 1 ? -2 : -1);
  }
  return false;
}

class Generator {
 public:
  Generator(uint64_t seed, bool changes_sizes) : rng_(seed), always_changes_sizes_(changes_sizes) { program_.seed = seed; }

  RandomProgram run() {
    choose_modes();
    choose_inputs();
    MadeInputs made = make_inputs(program_, program_.seed);
    values_ = made.arguments;
    program_.values = static_cast<int>(values_.size());
    int64_t steps = 1 + rng_.below(rng_.chance(20) ? 24 : 10);
    at::AutoGradMode mode(program_.grad_mode);
    for (int64_t tries = 0; tries < 8 * steps && static_cast<int64_t>(program_.steps.size()) < steps; ++tries) propose();
    choose_outputs();
    return std::move(program_);
  }

 private:
  void choose_modes() {
    program_.special_values = rng_.chance(15);
    program_.grad_mode = !rng_.chance(8);
    program_.frees_early = rng_.chance(50);
    program_.uses_backward = rng_.chance(50);
    program_.skipped_gradients = rng_.chance(25) ? static_cast<int>(rng_.below(32)) : 0;
    program_.reads_on_host = rng_.chance(10);
    program_.forward_mode = rng_.chance(6);
    program_.beside_reader = rng_.chance(4);
    changes_size_ = rng_.chance(15);
    random_ = rng_.chance(20);
    with_grad_ = rng_.chance(65);
    const ScalarType types[] = {torch::kFloat, torch::kFloat, torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf};
    main_type_ = types[rng_.below(6)];
    int64_t rank = rng_.chance(10) ? rng_.below(7) : 1 + rng_.below(3);
    for (int64_t i = 0; i < rank; ++i) base_.push_back(rng_.chance(4) ? 0 : rank > 3 ? 1 + rng_.below(3) : 1 + rng_.below(5));
    if (always_changes_sizes_) {
      program_.calls = kCallsWithSizes;
      program_.changing_size = 2 + rng_.below(3);
      program_.other_size = rng_.chance(50) ? program_.changing_size + 1 : 0;
      if (base_.empty()) base_.push_back(1);
      base_[rng_.below(static_cast<int64_t>(base_.size()))] = program_.changing_size;
      if (base_.size() > 1 && program_.other_size > 0) base_[base_.front() == program_.changing_size ? 1 : 0] = program_.other_size;
    } else if (changes_size_ && !base_.empty()) {
      program_.changing_size = base_[rng_.below(static_cast<int64_t>(base_.size()))];
    }
  }

  // Returns the program's main shape, or one that may be compatible with it.
  std::vector<int64_t> related_shape() {
    std::vector<int64_t> sizes = base_;
    if (rng_.chance(45)) return sizes;
    switch (rng_.below(6)) {
      case 0:
        return {};
      case 1:
        std::reverse(sizes.begin(), sizes.end());
        return sizes;
      case 2:
        if (!sizes.empty()) sizes.erase(sizes.begin());
        return sizes;
      case 3:
        if (!sizes.empty()) sizes[rng_.below(static_cast<int64_t>(sizes.size()))] = 1;
        return sizes;
      case 4:
        if (sizes.size() < 6 && sizes.size() > 0) sizes.insert(sizes.begin(), 1 + rng_.below(2));
        return sizes;
      default:
        return {1 + rng_.below(5), sizes.empty() ? 2 : sizes.back()};
    }
  }

  ScalarType related_type() {
    const ScalarType types[] = {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf,
                                torch::kLong,  torch::kInt,    torch::kByte,     torch::kBool};
    return rng_.chance(70) ? main_type_ : types[rng_.below(8)];
  }

  void choose_inputs() {
    int64_t count = 1 + rng_.below(4);
    for (int64_t i = 0; i < count; ++i) {
      Input input;
      if (i > 0 && rng_.chance(15)) {
        input.layout = Layout::view;
        input.view_of = static_cast<int>(rng_.below(i));
        input.view_kind = static_cast<int>(rng_.below(8));
        program_.inputs.push_back(std::move(input));
        continue;
      }
      input.sizes = related_shape();
      input.dtype = related_type();
      if (rng_.chance(35)) input.layout = static_cast<Layout>(1 + rng_.below(3));
      input.requires_grad = with_grad_ && c10::isFloatingType(input.dtype) && rng_.chance(65);
      input.has_history = input.requires_grad && rng_.chance(8);
      program_.inputs.push_back(std::move(input));
    }
  }

  const Op* choose_op() {
    int64_t total = 0;
    auto is_excluded = [&](const Family& family) {
      return (family.random && !random_) || (family.reads_on_host && !program_.reads_on_host);
    };
    for (const Family& family : families()) total += is_excluded(family) ? 0 : family.weight;
    int64_t at = rng_.below(total);
    for (const Family& family : families()) {
      if (is_excluded(family)) continue;
      if ((at -= family.weight) < 0) return &family.ops[rng_.below(static_cast<int64_t>(family.ops.size()))];
    }
    return nullptr;
  }

  int choose_value() {
    int64_t count = static_cast<int64_t>(values_.size());
    return static_cast<int>(rng_.chance(50) ? count - 1 - rng_.below(std::min<int64_t>(count, 5)) : rng_.below(count));
  }

  int choose_first(Wants wants) {
    for (int tries = 0; tries < 6; ++tries) {
      int id = choose_value();
      ScalarType type = values_[id].scalar_type();
      if (wants == Wants::any || c10::isFloatingType(type) == (wants == Wants::floating)) return id;
    }
    return -1;
  }

  // Falls back to the first operand itself: two operands on the same memory.
  int choose_further(Fit fit, int first) {
    for (int tries = 0; tries < 8; ++tries) {
      int id = choose_value();
      if (fits(fit, values_[first], values_[id])) return id;
    }
    return first;
  }

  void propose() {
    Step step;
    step.op = choose_op();
    int first = choose_first(step.op->wants);
    if (first < 0) return;
    step.operands.push_back(first);
    while (step.operands.size() < step.op->operands) step.operands.push_back(choose_further(step.op->fit, first));
    for (int64_t& value : step.parameters.values) value = rng_.below(5040);
    Tensors operands, results;
    for (int id : step.operands) operands.push_back(values_[id]);
    try {
      results = step.op->apply(operands, step.parameters);
    } catch (const std::exception&) {
      return;
    }
    for (const Tensor& t : results)
      if (!t.defined() || t.numel() > kMaxElements || t.dim() > kMaxRank) return;
    step.first_result = program_.values;
    step.results = static_cast<int>(results.size());
    program_.values += step.results;
    for (Tensor& t : results) values_.push_back(std::move(t));
    program_.steps.push_back(std::move(step));
  }

  void choose_outputs() {
    std::vector<bool> used(values_.size(), false);
    for (const Step& step : program_.steps)
      for (int id : step.operands) used[id] = true;
    int64_t max_outputs = 1 + rng_.below(4);
    for (int id = program_.values - 1; id >= static_cast<int>(program_.inputs.size()); --id)
      if (!used[id] && static_cast<int64_t>(program_.outputs.size()) < max_outputs) program_.outputs.push_back(id);
    while (program_.outputs.empty() || rng_.chance(12)) program_.outputs.push_back(choose_value());
  }

  Rng rng_;
  RandomProgram program_;
  Tensors values_;
  std::vector<int64_t> base_;
  ScalarType main_type_ = torch::kFloat;
  bool random_ = false, with_grad_ = false, changes_size_ = false, always_changes_sizes_;
};

// Returns whether backward through all results works in eager.
bool differentiable(const RandomProgram& program) {
  try {
    at::AutoGradMode mode(program.grad_mode);
    MadeInputs made = make_inputs(program, program.seed);
    Tensors outputs, tangents;
    for (const Tensor& t : execute(program, made.arguments))
      if (t.requires_grad()) outputs.push_back(t), tangents.push_back(torch::ones_like(t));
    if (!outputs.empty()) torch::autograd::grad(outputs, made.leaves, tangents, std::nullopt, false, true);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

// Most in-place writes overwrite tensors that backward needs. A few such programs are kept: both sides must throw.
RandomProgram generate(uint64_t seed, bool changes_sizes) {
  for (uint64_t variation = 0;; ++variation) {
    RandomProgram program = Generator(seed + variation * 0x100000001ull, changes_sizes).run();
    program.seed = seed;
    if (variation == 8 || differentiable(program) || Rng(seed + variation).chance(5)) return program;
  }
}

}  // namespace tenon::random_programs
