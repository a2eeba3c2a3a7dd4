// A random tensor program as data: its inputs, its steps and which values it returns.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "fuzz/ops.h"

namespace tenon::fuzz {

// Small, and the same on every machine.
class Rng {
 public:
  // Two rounds of mixing first: neighbouring seeds have nothing in common.
  explicit Rng(uint64_t seed) : state_(seed) { state_ = next() ^ (next() << 1); }
  uint64_t next();
  int64_t below(int64_t limit) { return limit <= 0 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(limit)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

enum class Layout { contiguous, transposed, expanded, strided, view };

struct Input {
  std::vector<int64_t> sizes;
  torch::ScalarType dtype = torch::kFloat;
  Layout layout = Layout::contiguous;
  int view_of = -1;  // an earlier input, for Layout::view; kinds 6 and 7 are storages of their own over its memory
  int view_kind = 0;
  bool requires_grad = false;
  bool has_history = false;  // not a leaf: made by an op before the call
};

struct Step {
  const Op* op = nullptr;
  std::vector<int> operands;  // value ids; the inputs come first
  Parameters parameters;
  int first_result = 0;
  int results = 0;
};

struct RandomProgram {
  uint64_t seed = 0;
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<int> outputs;
  int values = 0;
  bool special_values = false;  // zeros of both signs, infinities and NaN among the inputs
  bool grad_mode = true;
  bool frees_early = false;    // values die after their last use, as in a function without names for them
  bool uses_backward = false;  // backward() instead of grad()
  int skipped_gradients = 0;   // bit n: call n is not differentiated
  bool reads_on_host = false;  // then no graph may answer alone, and only checked calls are tried
  bool forward_mode = false;   // the inputs carry tangents
  bool beside_reader = false;  // another thread reads the inputs, under a lock that each step takes
  int64_t changing_size = 0;   // inputs of this size get another one in each call

  std::string text() const;
};

struct MadeInputs {
  Tensors arguments;
  Tensors leaves;  // of autograd, behind the arguments
};
MadeInputs make_inputs(const RandomProgram& program, uint64_t data_seed, int call = 0);

// Held by each step of a program with `beside_reader`.
std::mutex& step_mutex();

// ATen runs a pointwise op by a loop over vectors and one over single elements, by layout and size, and a few ops
// (Op::depends_on_loop) differ between the two: in the sign of a zero, or at an infinity.
enum class Loops { as_laid_out, vector, scalar };

// The program itself, as a plain function of its inputs. `loops` chooses ATen's loop for ops that depend on it.
Tensors execute(const RandomProgram& program, const Tensors& inputs, Loops loops = Loops::as_laid_out);

RandomProgram generate(uint64_t seed);

}  // namespace tenon::fuzz
