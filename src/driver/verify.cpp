#include "driver/verify.h"

#include <ATen/CPUGeneratorImpl.h>
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

Tensors Verifier::compare(Tensors inputs, c10::ArrayRef<double> scalars, const std::function<Tensors(Tensors)>& run) const {
  ++counters().verified;
  c10::impl::ExcludeDispatchKeyGuard quiet(capture::keys_above_backends());  // nobody is to see what is done here
  SavedGenerator generator;
  Tensors before = copies(inputs), after = copies(inputs);
  Tensors expected = oracle_->run(after, runtime::RunMode::kernels, scalars);
  Tensors true_inputs = before, truth;
  if (truth_) {
    generator.restore();
    truth = run_truth(true_inputs, scalars);
  }
  generator.restore();
  Tensors got = run(inputs);
  const ir::Graph& graph = oracle_->graph();
  auto differ = [&](const at::Tensor& eager, const at::Tensor& ours, const Tensors& wide, size_t i) {
    return truth_ ? violation(ours, eager, wide.empty() ? at::Tensor() : wide[i]) : difference(eager, ours);
  };
  std::string found;
  for (size_t i = 0; i < expected.size() && found.empty(); ++i)
    if (std::string d = differ(expected[i], got[i], truth, i); !d.empty())
      found = "output " + std::to_string(i) + " (" + maker(graph, graph.outputs[i]) + "): " + d;
  for (size_t i = 0; i < inputs.size() && found.empty(); ++i)
    if (std::string d = differ(after[i], inputs[i], truth.empty() ? truth : true_inputs, i); !d.empty())
      found = "input '" + graph.inputs[i].name + "' afterwards: " + d;
  if (found.empty() && !serve_oracle_) return got;
  if (!found.empty()) quarantine(found, before);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) inputs[i].copy_(after[i]);
  return expected;
}

// Empty if the graph has no meaning in f64. `inputs` become what it leaves in them.
Tensors Verifier::run_truth(Tensors& inputs, c10::ArrayRef<double> scalars) const {
  try {
    inputs = runtime::widen(truth_->graph(), inputs);
    return truth_->run(inputs, runtime::RunMode::kernels, scalars);
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
