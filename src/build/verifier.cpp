#include "build/verifier.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "base/counters.h"
#include "bridge/convert.h"
#include "build/fixed_graph.h"
#include "capture/listener.h"

namespace tenon::build {
namespace {

Tensors copies(const Tensors& tensors) {
  Tensors out;
  for (const at::Tensor& t : tensors) out.push_back(t.defined() ? bridge::copy_keeping_layout(t) : t);
  return out;
}

// A description of the first bitwise difference; empty if there is none.
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

// The op that produces a value.
std::string producer(const ir::Graph& graph, ir::ValueId value) {
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

bool is_sampled(size_t run, double fraction) {
  if (fraction <= 0) return false;
  auto every = static_cast<size_t>(std::llround(1 / fraction));
  return run % std::max<size_t>(every, 1) == 0;
}

Tensors ExecutableVerifier::compare(Tensors inputs, c10::ArrayRef<double> scalars, const std::function<Tensors(Tensors)>& run) const {
  ++counters().verified;
  c10::impl::ExcludeDispatchKeyGuard quiet(capture::keys_above_backends());  // Listeners must not see these ops.
  SavedGenerator generator;
  Tensors before = copies(inputs), after = copies(inputs);
  Tensors expected = oracle_->run(after, runtime::RunMode::kernels, scalars);
  generator.restore();
  Tensors got = run(inputs);
  const ir::Graph& graph = oracle_->graph();
  std::string found;
  for (size_t i = 0; i < expected.size() && found.empty(); ++i)
    if (std::string d = difference(expected[i], got[i]); !d.empty())
      found = "output " + std::to_string(i) + " (" + producer(graph, graph.outputs[i]) + "): " + d;
  for (size_t i = 0; i < inputs.size() && found.empty(); ++i)
    if (std::string d = difference(after[i], inputs[i]); !d.empty()) found = "input '" + graph.inputs[i].name + "' afterwards: " + d;
  if (found.empty()) return got;
  quarantine_->impose(found, fixed_graph(graph, oracle_->symbols()), before);
  for (const ir::WriteBack& write : graph.write_backs)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (graph.inputs[i].value == write.input) inputs[i].copy_(after[i]);
  return expected;
}

}  // namespace tenon::build
