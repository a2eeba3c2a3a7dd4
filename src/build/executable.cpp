#include "build/executable.h"

#include "bridge/convert.h"
#include "build/tune.h"

namespace tenon::build {

std::vector<at::Tensor> Executable::run(std::vector<at::Tensor> inputs, runtime::RunMode mode, c10::ArrayRef<double> scalars) const {
  if (mode != runtime::RunMode::kernels) return parts_.op_by_op->get()->run(std::move(inputs), mode, scalars);
  if (parts_.quarantine->is_on())
    return parts_.verifier ? parts_.verifier->run_oracle(std::move(inputs), scalars)
                           : parts_.op_by_op->get()->run(std::move(inputs), mode, scalars);
  if (!parts_.verifier || !parts_.verifier->is_due(runs_++)) return run_kernels(std::move(inputs), scalars);
  return parts_.verifier->compare(std::move(inputs), scalars,
                                  [&](std::vector<at::Tensor> in) { return run_kernels(std::move(in), scalars); });
}

std::vector<at::Tensor> Executable::run_kernels(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const {
  if (const runtime::Interpreter* native = interpreter()) {
    if (parts_.tuning_seconds > 0 && !is_tuned_.exchange(true)) tune(*native, inputs, scalars, parts_.tuning_seconds);
    return native->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  }
  if (!parts_.custom) return parts_.op_by_op->get()->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  if (scalars.empty()) scalars = graph().scalars;
  if (!scalars.empty()) {
    at::Tensor scalar_tensor = bridge::empty_of({ir::DType::f64, {static_cast<int64_t>(scalars.size())}, {1}});
    std::copy(scalars.begin(), scalars.end(), scalar_tensor.mutable_data_ptr<double>());
    inputs.push_back(std::move(scalar_tensor));
  }
  return parts_.custom(std::move(inputs));
}

const std::vector<Explanation::Call>& Executable::aten_calls() const {
  static const std::vector<Explanation::Call> none;
  return parts_.native ? parts_.native->aten_calls() : none;
}

std::vector<Explanation::Kernel> Executable::kernels() const {
  if (!parts_.native) return {};
  std::vector<Explanation::Kernel> all = parts_.native->kernels(interpreter()->symbols()), out;
  for (size_t i : parts_.native->kernel_order()) {
    Explanation::Kernel& kernel = out.emplace_back(std::move(all[i]));
    const runtime::FusedOp& op = interpreter()->fused_ops()[i];
    if (const runtime::ProductCall* call = op.product()) kernel.call += ", " + call->product->describe(call->rows);
    if (const runtime::KernelCall* code = op.kernel(); code && *code->code > 0) kernel.name += ", " + code->codes[*code->code].name;
  }
  return out;
}

}  // namespace tenon::build
