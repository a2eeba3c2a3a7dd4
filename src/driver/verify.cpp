#include "driver/verify.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bridge/convert.h"
#include "capture/listener.h"
#include "driver/policy.h"
#include "driver/stats.h"
#include "ir/graph/print.h"
#include "ops/table.h"
#include "runtime/widen.h"

namespace tenon::driver {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors copies(const Tensors& tensors) {
  Tensors out;
  for (const at::Tensor& t : tensors) out.push_back(t.defined() ? bridge::copy_keeping_layout(t) : t);
  return out;
}

// First difference in words, bit by bit; empty if there is none.
std::string difference(const at::Tensor& expected, const at::Tensor& got) {
  if (expected.defined() != got.defined()) return "one of them is undefined";
  if (!expected.defined()) return "";
  if (expected.sizes() != got.sizes() || expected.scalar_type() != got.scalar_type()) return "another shape or element type";
  at::Tensor e = expected.contiguous(), g = got.contiguous();
  auto size = static_cast<int64_t>(e.itemsize());
  const char* a = static_cast<const char*>(e.const_data_ptr());
  const char* b = static_cast<const char*>(g.const_data_ptr());
  for (int64_t i = 0; i < e.numel(); ++i) {
    if (std::memcmp(a + i * size, b + i * size, static_cast<size_t>(size)) == 0) continue;
    std::ostringstream out;
    out << "element " << i << " of " << e.numel() << " is " << g.view({-1})[i].item().toDouble() << " instead of "
        << e.view({-1})[i].item().toDouble();
    return out.str();
  }
  return "";
}

// What op an output comes from.
std::string maker(const ir::Graph& graph, ir::ValueId value) {
  for (const ir::Node& node : graph.nodes) {
    bool made = false;
    ir::for_each_definition(node, [&](ir::ValueId id) { made |= id == value; });
    if (made) return node.op;
  }
  return "an input";
}

// Working memory of an op, which means something to its backward only.
bool is_opaque(const ir::Graph& graph, ir::ValueId value) {
  for (const ir::Node& node : graph.nodes)
    for (size_t r = 0; r < node.results.size(); ++r)
      if (node.results[r].ids == std::vector<ir::ValueId>{value}) return ops::has_opaque_result(node.op, static_cast<int>(r));
  return false;
}

// The same inputs, a little off.
Tensors nudged(const Tensors& inputs, size_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed + 1);
  Tensors out = copies(inputs);
  for (at::Tensor& t : out)
    if (t.defined() && t.is_floating_point() && t.is_non_overlapping_and_dense())
      t.mul_(at::randn(t.sizes(), generator, t.options().dtype(at::kFloat)).mul_(0x1p-6).add_(1).to(t.dtype()));
  return out;
}

class SavedGenerator {
 public:
  SavedGenerator() : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  void restore() { generator_.set_state(state_); }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

bool Verifier::wants(size_t run) const {
  if (fraction_ <= 0) return false;
  auto every = static_cast<size_t>(std::llround(1 / fraction_));
  return run % std::max<size_t>(every, 1) == 0;
}

std::string Verifier::report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

Tensors Verifier::compare(Tensors inputs, c10::ArrayRef<double> scalars, const Run& run) const {
  ++counters().verified;
  c10::impl::ExcludeDispatchKeyGuard quiet(capture::keys_above_backends());  // nobody is to see what is done here
  Tensors before = copies(inputs);
  Runs runs = run_all(inputs, scalars, run);
  std::string found = first_difference(before, runs, scalars, run);
  size_t outputs = oracle_->graph().outputs.size();
  const Tensors& served = found.empty() && !serve_oracle_ ? runs.got : runs.eager;
  if (!found.empty()) quarantine(found, before);
  for (const ir::WriteBack& write : oracle_->graph().write_backs)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (oracle_->graph().inputs[i].value == write.input && &served == &runs.eager) inputs[i].copy_(served[outputs + i]);
  return {served.begin(), served.begin() + static_cast<ptrdiff_t>(outputs)};
}

// Every one of them starts at the same place of the generator, and leaves it at the same.
Verifier::Runs Verifier::run_all(Tensors inputs, c10::ArrayRef<double> scalars, const Run& run) const {
  SavedGenerator generator;
  Tensors after = copies(inputs);
  Runs runs;
  if (truth_) {
    runs.truth = run_truth(copies(inputs), scalars);
    generator.restore();
  }
  runs.eager = oracle_->run(after, runtime::RunMode::kernels, scalars);
  runs.eager.insert(runs.eager.end(), after.begin(), after.end());
  generator.restore();
  runs.got = run(inputs);
  runs.got.insert(runs.got.end(), inputs.begin(), inputs.end());
  return runs;
}

std::string Verifier::first_difference(const Tensors& before, const Runs& runs, c10::ArrayRef<double> scalars, const Run& run) const {
  const ir::Graph& graph = oracle_->graph();
  auto name = [&](size_t i) {
    size_t outputs = graph.outputs.size();
    return i < outputs ? "output " + std::to_string(i) + " (" + maker(graph, graph.outputs[i]) + "): "
                       : "input '" + graph.inputs[i - outputs].name + "' afterwards: ";
  };
  auto sample = [](const Runs& r, size_t i) { return Sample{r.got[i], r.eager[i], r.truth.empty() ? at::Tensor() : r.truth[i]}; };
  std::vector<Runs> more;
  for (size_t i = 0; i < runs.got.size(); ++i) {
    if (i < graph.outputs.size() && is_opaque(graph, graph.outputs[i])) continue;
    std::string found = truth_ ? violation({sample(runs, i)}) : difference(runs.eager[i], runs.got[i]);
    if (found.empty()) continue;
    if (!truth_ || runs.truth.empty() || runs.got[i].numel() >= kFewElements) return name(i) + found;
    if (more.empty()) more = run_again(before, scalars, run);
    std::vector<Sample> samples = {sample(runs, i)};
    for (const Runs& r : more) samples.push_back(sample(r, i));
    if (std::string again = violation(samples); !again.empty()) return name(i) + again;
  }
  return "";
}

std::vector<Verifier::Runs> Verifier::run_again(const Tensors& before, c10::ArrayRef<double> scalars, const Run& run) const {
  std::vector<Runs> out;
  try {
    while (out.size() + 1 < kRuns) out.push_back(run_all(nudged(before, out.size()), scalars, run));
  } catch (const c10::Error&) {  // numbers that an op does not take
  }
  return out;
}

// Empty if the graph has no meaning in f64.
Tensors Verifier::run_truth(Tensors inputs, c10::ArrayRef<double> scalars) const {
  try {
    inputs = runtime::widen(truth_->graph(), inputs);
    Tensors results = truth_->run(inputs, runtime::RunMode::kernels, scalars);
    results.insert(results.end(), inputs.begin(), inputs.end());
    return results;
  } catch (const c10::Error&) {
    return {};
  }
}

void Verifier::quarantine(const std::string& difference, const Tensors& inputs) const {
  std::lock_guard lock(mutex_);
  if (quarantined_.exchange(true)) return;
  ++counters().quarantined;
  const ir::Graph& graph = oracle_->graph();
  const char* chosen = std::getenv("TENON_REPRO_DIR");
  std::filesystem::path folder = chosen ? chosen : ".";
  folder /= "tenon-repro-" + graph.name + "-" + std::to_string(counters().quarantined.load());
  report_ = "graph @" + graph.name + " is quarantined: " + difference;
  try {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "graph.txt") << "# " << difference << "\n" << ir::print(graph);
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : inputs) list.push_back(t);
    std::vector<char> bytes = torch::jit::pickle_save(list);
    std::ofstream(folder / "inputs.pt", std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    report_ += "; reproduction in " + folder.string();
  } catch (const std::exception& error) {
    report_ += std::string("; the reproduction could not be written: ") + error.what();
  }
  std::fprintf(stderr, "tenon: %s\n", report_.c_str());
}

}  // namespace tenon::driver
