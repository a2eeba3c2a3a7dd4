// A random tensor program as data: its inputs, its steps and its outputs.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "random_programs/ops.h"

namespace tenon::random_programs {

// SplitMix64: deterministic on every machine.
class Rng {
 public:
  // Mixes the seed twice, so that adjacent seeds give unrelated sequences.
  explicit Rng(uint64_t seed) : state_(seed) { state_ = next() ^ (next() << 1); }
  uint64_t next();
  int64_t below(int64_t limit) { return limit <= 0 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(limit)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

inline constexpr int kCalls = 5, kCallsWithSizes = 8;

enum class Layout { contiguous, transposed, expanded, strided, view };

struct Input {
  std::vector<int64_t> sizes;
  torch::ScalarType dtype = torch::kFloat;
  Layout layout = Layout::contiguous;
  int view_of = -1;  // Index of an earlier input, for Layout::view; kinds 6 and 7 are separate storages over its memory.
  int view_kind = 0;
  bool requires_grad = false;
  bool has_history = false;  // Not a leaf: computed by an op before the call.
};

struct Step {
  const Op* op = nullptr;
  std::vector<int> operands;  // Value ids; the inputs come first.
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
  bool special_values = false;  // Inputs contain zeros of both signs, infinities and NaN.
  bool grad_mode = true;
  bool frees_early = false;    // Values are freed after their last use, like temporaries.
  bool uses_backward = false;  // Uses backward() instead of grad().
  int skipped_gradients = 0;   // Bit n: call n is not differentiated.
  bool reads_on_host = false;  // No graph may serve such a program alone, so it only runs with trust `checked`.
  bool forward_mode = false;   // Inputs carry tangents.
  bool beside_reader = false;  // Another thread reads the inputs, under a lock that each step takes.
  int64_t changing_size = 0;   // Dimensions of this size change in each call.
  int64_t other_size = 0;      // Dimensions of this size change as well, in other steps.
  int calls = kCalls;

  std::string text() const;
};

struct MadeInputs {
  Tensors arguments;
  Tensors leaves;  // Autograd leaves that the arguments were computed from.
};
MadeInputs make_inputs(const RandomProgram& program, uint64_t data_seed, int call = 0);

// Mutex that each step of a program with `beside_reader` holds.
std::mutex& step_mutex();

// ATen computes a pointwise op with a vectorized or a scalar loop, depending on layout and size. Results of a few ops
// (Op::depends_on_loop) differ between the two in the sign of a zero or at an infinity.
enum class Loops { as_laid_out, vector, scalar };

// Runs the program on its inputs. `loops` chooses ATen's loop for ops that depend on it.
Tensors execute(const RandomProgram& program, const Tensors& inputs, Loops loops = Loops::as_laid_out);

// `changes_sizes`: one or two sizes change in each of more calls, in irregular steps.
RandomProgram generate(uint64_t seed, bool changes_sizes = false);

}  // namespace tenon::random_programs
