#include "random_programs/random_program.h"

#include <sstream>

namespace tenon::random_programs {
namespace {

const char* layout_name(Layout layout) {
  static const char* names[] = {"contiguous", "transposed", "expanded", "strided", "view"};
  return names[static_cast<int>(layout)];
}

Tensor random_data(const std::vector<int64_t>& sizes, torch::ScalarType dtype, bool special) {
  if (dtype == torch::kBool) return torch::randint(0, 2, sizes, torch::kLong).to(dtype);
  if (dtype == torch::kByte) return torch::randint(0, 6, sizes, torch::kLong).to(dtype);
  if (!c10::isFloatingType(dtype)) return torch::randint(-3, 6, sizes, dtype);
  Tensor data = torch::randn(sizes, torch::kDouble);
  if (special) {
    const double inf = std::numeric_limits<double>::infinity();
    Tensor which = torch::randint(0, 16, sizes, torch::kLong);
    const double values[] = {0.0, -0.0, inf, -inf, std::numeric_limits<double>::quiet_NaN()};
    for (int i = 0; i < 5; ++i) data.masked_fill_(which == i, values[i]);
  }
  return data.to(dtype);
}

Tensor laid_out(const Input& input, bool special) {
  std::vector<int64_t> sizes = input.sizes;
  switch (input.layout) {
    case Layout::transposed: {
      std::vector<int64_t> dims;
      for (size_t i = sizes.size(); i-- > 0;) dims.push_back(static_cast<int64_t>(i));
      return random_data({sizes.rbegin(), sizes.rend()}, input.dtype, special).permute(dims);
    }
    case Layout::expanded: {
      std::vector<int64_t> narrow = sizes;
      if (!narrow.empty()) narrow[narrow.size() / 2] = 1;
      return random_data(narrow, input.dtype, special).expand(sizes);
    }
    case Layout::strided: {
      if (sizes.empty()) return random_data({3}, input.dtype, special).select(0, 1);
      sizes.back() = 2 * sizes.back() + 1;
      return random_data(sizes, input.dtype, special).slice(-1, 1, std::nullopt, 2);
    }
    default:
      return random_data(sizes, input.dtype, special);
  }
}

// Returns a tensor with a separate storage over all of the memory, or over its second half.
Tensor over_memory_of(const Tensor& base, bool half) {
  torch::NoGradGuard no_grad;
  Tensor t = base.detach();
  if (half && t.dim() > 0) t = t.narrow(0, t.size(0) / 2, t.size(0) - t.size(0) / 2);
  return torch::from_blob(
      t.data_ptr(), t.sizes(), t.strides(), [kept = base](void*) {}, t.options());
}

Tensor view_of(const Tensor& base, const Input& input) {
  if (input.view_kind == 5) return base;  // The same handle twice.
  if (input.view_kind >= 6) return over_memory_of(base, input.view_kind == 7);
  torch::NoGradGuard no_grad;
  Tensor t = base.detach();
  if (t.dim() == 0) return t;
  switch (input.view_kind) {
    case 1:
      return t.transpose(0, -1);
    case 2:
      return t.narrow(0, t.size(0) / 2, t.size(0) - t.size(0) / 2);
    case 3:
      return t.slice(-1, 0, std::nullopt, 2);
    case 4:
      return t.is_contiguous() ? t.view(-1) : t.squeeze();
    default:
      return t;
  }
}

}  // namespace

uint64_t Rng::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::mutex& step_mutex() {
  static std::mutex mutex;
  return mutex;
}

namespace {

// The first steps grow together, later ones do not; some sizes come again.
constexpr int64_t kSizeSteps[kCallsWithSizes] = {0, 2, 4, 1, 7, 4, 3, 9};
constexpr int64_t kOtherSizeSteps[kCallsWithSizes] = {0, 2, 4, 6, 1, 4, 8, 0};

}  // namespace

MadeInputs make_inputs(const RandomProgram& program, uint64_t data_seed, int call) {
  torch::manual_seed(data_seed);
  MadeInputs made;
  for (Input input : program.inputs) {
    for (int64_t& size : input.sizes) {
      if (program.calls == kCalls) size += program.changing_size > 1 && size == program.changing_size ? call : 0;
      else if (size > 1 && size == program.changing_size) size += kSizeSteps[call];
      else if (size > 1 && size == program.other_size) size += kOtherSizeSteps[call];
    }
    Tensor t;
    if (input.layout == Layout::view) {
      t = view_of(made.arguments[input.view_of], input);
    } else {
      t = laid_out(input, program.special_values).detach();
      if (input.requires_grad) {
        t.requires_grad_();
        made.leaves.push_back(t);
      }
      if (input.has_history) t = t.mul(1);
    }
    made.arguments.push_back(std::move(t));
  }
  return made;
}

namespace {

// Pads a flattened operand, so that ATen's vectorized loop computes every element.
Tensor for_vector_loop(const Tensor& t) { return torch::constant_pad_nd(t.reshape({-1}), {0, 256 - t.numel() % 256}); }
// Gives an operand a stride of two, so that ATen's scalar loop computes every element.
Tensor for_scalar_loop(const Tensor& t) { return torch::stack({t, t}, -1).select(-1, 0); }

Tensors apply_by_loop(const Op& op, const Tensors& operands, Parameters& parameters, Loops loops) {
  Tensors alike = torch::broadcast_tensors(operands);
  std::vector<int64_t> sizes = alike[0].sizes().vec();
  int64_t elements = alike[0].numel();
  for (Tensor& t : alike) t = loops == Loops::vector ? for_vector_loop(t) : for_scalar_loop(t);
  Tensors results = op.apply(alike, parameters);
  if (loops == Loops::vector)
    for (Tensor& t : results) t = t.narrow(0, 0, elements).reshape(sizes);
  return results;
}

}  // namespace

Tensors execute(const RandomProgram& program, const Tensors& inputs, Loops loops) {
  std::vector<size_t> last_use(program.values, 0);
  for (size_t s = 0; s < program.steps.size(); ++s)
    for (int id : program.steps[s].operands) last_use[id] = s;
  for (int id : program.outputs) last_use[id] = program.steps.size();

  Tensors values = inputs;
  values.resize(program.values);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    Tensors operands;
    for (int id : step.operands) {
      require(values[id].defined());
      operands.push_back(values[id]);
    }
    Parameters parameters = step.parameters;
    std::unique_lock<std::mutex> lock;
    if (program.beside_reader) lock = std::unique_lock(step_mutex());
    bool as_is = loops == Loops::as_laid_out || !step.op->depends_on_loop;
    Tensors results = as_is ? step.op->apply(operands, parameters) : apply_by_loop(*step.op, operands, parameters, loops);
    for (int i = 0; i < step.results && i < static_cast<int>(results.size()); ++i) values[step.first_result + i] = results[i];
    if (program.frees_early)
      for (size_t id = 0; id < values.size(); ++id)
        if (last_use[id] <= s) values[id].reset();
  }
  Tensors out;
  for (int id : program.outputs) {
    require(values[id].defined());
    out.push_back(values[id]);
  }
  return out;
}

std::string RandomProgram::text() const {
  std::ostringstream out;
  auto name = [](int id) { return "v" + std::to_string(id); };
  out << "seed " << seed << (special_values ? ", special values" : "") << (grad_mode ? "" : ", no grad")
      << (frees_early ? ", frees early" : "") << (uses_backward ? ", backward()" : "")
      << (skipped_gradients ? ", some calls without gradient" : "") << (forward_mode ? ", forward mode" : "")
      << (beside_reader ? ", beside a reader" : "");
  if (changing_size) out << ", size " << changing_size << " changes";
  if (other_size) out << ", size " << other_size << " changes otherwise";
  out << "\n";
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    out << "  " << name(static_cast<int>(i)) << " = ";
    if (input.layout == Layout::view) out << "view " << input.view_kind << " of " << name(input.view_of);
    else out << "input " << input.dtype << c10::IntArrayRef(input.sizes) << " " << layout_name(input.layout);
    out << (input.requires_grad ? ", requires grad" : "") << (input.has_history ? ", not a leaf" : "") << "\n";
  }
  for (const Step& step : steps) {
    out << "  ";
    for (int i = 0; i < step.results; ++i) out << (i ? ", " : "") << name(step.first_result + i);
    out << (step.results ? " = " : "") << "[" << step.op->name << "]";
    for (size_t i = 0; i < step.operands.size(); ++i) out << (i ? ", " : " ") << name(step.operands[i]);
    out << (step.parameters.text().empty() ? "" : "  with") << step.parameters.text() << "\n";
  }
  out << "  return";
  for (size_t i = 0; i < outputs.size(); ++i) out << (i ? ", " : " ") << name(outputs[i]);
  out << "\n";
  return out.str();
}

}  // namespace tenon::random_programs
