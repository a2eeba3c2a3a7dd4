#include "random_programs/minimise.h"

#include <chrono>

#include "random_programs/check.h"

namespace tenon::random_programs {
namespace {

constexpr auto kMaxDuration = std::chrono::seconds(30);

void replace_value(RandomProgram& program, int from, int to) {
  for (Step& step : program.steps)
    for (int& id : step.operands)
      if (id == from) id = to;
  for (int& id : program.outputs)
    if (id == from) id = to;
}

bool is_used(const RandomProgram& program, int value) {
  for (const Step& step : program.steps)
    for (int id : step.operands)
      if (id == value) return true;
  for (const Input& input : program.inputs)
    if (input.view_of == value) return true;
  return std::find(program.outputs.begin(), program.outputs.end(), value) != program.outputs.end();
}

RandomProgram without_input(RandomProgram program, int input) {
  program.inputs.erase(program.inputs.begin() + input);
  auto shift = [input](int& id) {
    if (id > input) --id;
  };
  for (Input& other : program.inputs) shift(other.view_of);
  for (Step& step : program.steps) {
    for (int& id : step.operands) shift(id);
    shift(step.first_result);
  }
  for (int& id : program.outputs) shift(id);
  --program.values;
  return program;
}

class Minimiser {
 public:
  Minimiser(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails) : best_(std::move(program)), fails_(fails) {}

  RandomProgram run() {
    do {
      progress_ = false;
      drop_outputs();
      drop_steps();
      drop_inputs();
      simplify_modes();
      simplify_inputs();
      simplify_operands();
    } while (progress_ && in_time());
    return std::move(best_);
  }

 private:
  bool in_time() const { return std::chrono::steady_clock::now() - start_ < kMaxDuration; }

  bool try_program(RandomProgram candidate) {
    if (!in_time() || !fails_(candidate)) return false;
    best_ = std::move(candidate);
    return progress_ = true;
  }

  template <class Change>
  bool try_change(Change change) {
    RandomProgram candidate = best_;
    change(candidate);
    return try_program(std::move(candidate));
  }

  void drop_outputs() {
    for (size_t i = best_.outputs.size(); i-- > 0 && best_.outputs.size() > 1;)
      try_change([i](RandomProgram& p) { p.outputs.erase(p.outputs.begin() + static_cast<ptrdiff_t>(i)); });
  }

  // Removes a step and replaces its results by one of its operands, or by an input.
  void drop_steps() {
    for (size_t s = best_.steps.size(); s-- > 0;) {
      std::vector<int> stand_ins = best_.steps[s].operands;
      for (size_t i = 0; i < best_.inputs.size(); ++i) stand_ins.push_back(static_cast<int>(i));
      for (int stand_in : stand_ins) {
        bool done = try_change([&](RandomProgram& p) {
          Step step = p.steps[s];
          p.steps.erase(p.steps.begin() + static_cast<ptrdiff_t>(s));
          for (int i = 0; i < step.results; ++i) replace_value(p, step.first_result + i, stand_in);
        });
        if (done) break;
      }
    }
  }

  void drop_inputs() {
    for (int i = static_cast<int>(best_.inputs.size()); i-- > 0;)
      if (!is_used(best_, i)) try_program(without_input(best_, i));
  }

  void simplify_modes() {
    auto off = [this](auto RandomProgram::*member, auto value) {
      if (best_.*member != value) try_change([&](RandomProgram& p) { p.*member = value; });
    };
    off(&RandomProgram::special_values, false);
    off(&RandomProgram::grad_mode, true);
    off(&RandomProgram::frees_early, false);
    off(&RandomProgram::uses_backward, false);
    off(&RandomProgram::forward_mode, false);
    off(&RandomProgram::beside_reader, false);
    off(&RandomProgram::changing_size, int64_t{0});
    int all = (1 << best_.calls) - 1;
    off(&RandomProgram::skipped_gradients, all);
    if (best_.skipped_gradients != all) off(&RandomProgram::skipped_gradients, 0);
  }

  void simplify_inputs() {
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      auto change = [&](auto Input::*member, auto value) {
        if (best_.inputs[i].*member != value) try_change([&](RandomProgram& p) { p.inputs[i].*member = value; });
      };
      change(&Input::has_history, false);
      if (best_.inputs[i].requires_grad) try_change([&](RandomProgram& p) { p.inputs[i].requires_grad = p.inputs[i].has_history = false; });
      if (best_.inputs[i].layout == Layout::view) {
        change(&Input::view_kind, 0);
        continue;
      }
      change(&Input::layout, Layout::contiguous);
      change(&Input::dtype, torch::kFloat);
      for (size_t d = best_.inputs[i].sizes.size(); d-- > 0;)
        try_change([&](RandomProgram& p) { p.inputs[i].sizes.erase(p.inputs[i].sizes.begin() + static_cast<ptrdiff_t>(d)); });
      for (size_t d = 0; d < best_.inputs[i].sizes.size(); ++d)
        if (best_.inputs[i].sizes[d] > 2) try_change([&](RandomProgram& p) { p.inputs[i].sizes[d] = 2; });
    }
  }

  // Replaces operands by earlier values.
  void simplify_operands() {
    for (size_t s = 0; s < best_.steps.size(); ++s)
      for (size_t k = 0; k < best_.steps[s].operands.size(); ++k)
        for (int id = 0; id < best_.steps[s].operands[k]; ++id)
          if (id < static_cast<int>(best_.inputs.size())) try_change([&](RandomProgram& p) { p.steps[s].operands[k] = id; });
  }

  RandomProgram best_;
  const std::function<bool(const RandomProgram&)>& fails_;
  bool progress_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

RandomProgram minimise(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails) {
  return Minimiser(std::move(program), fails).run();
}

}  // namespace tenon::random_programs
