#include "support/program.h"

#include <tenon/control.h>

#include <regex>

#include "support/compare.h"

namespace tenon::test {
namespace {

constexpr int kCalls = 12;
int shape_of(int call) { return call < 6 || call == 11 ? 0 : 1; }

// One side of the comparison: the eager or the compiled program.
struct Side {
  explicit Side(const ProgramEntry& entry) {
    torch::manual_seed(1);
    program = entry.make();
  }

  struct Outcome {
    Tensors results, inputs, gradients, state;
    torch::Tensor generator;
    std::string error;
  };

  Outcome call(int index, const std::function<Tensors(const Tensors&)>& function) {
    Outcome out;
    torch::manual_seed(100 + index);
    out.inputs = program->inputs(shape_of(index));
    program->before(index);
    if (index % 4 != 3) clear_gradients(out.inputs);
    torch::manual_seed(500 + index);
    program->around([&] {
      try {
        out.results = function(out.inputs);
      } catch (const std::exception& error) {
        out.error = std::string(error.what()).substr(0, 60);
      }
    });
    out.generator = generator_state();
    try {
      differentiate(out.results);
    } catch (const std::exception& error) {
      out.error += " in backward: " + std::string(error.what()).substr(0, 60);
    }
    out.state = program->state();
    for (const Tensors* list : {&out.inputs, &out.state})
      for (const torch::Tensor& t : *list) out.gradients.push_back(t.defined() && t.is_leaf() ? t.grad() : torch::Tensor());
    return out;
  }

  void clear_gradients(const Tensors& inputs) {
    for (const Tensors& list : {inputs, program->state()})
      for (const torch::Tensor& t : list)
        if (t.defined() && t.is_leaf()) t.mutable_grad().reset();
  }

  // Runs backward through every result that has autograd history.
  static void differentiate(const Tensors& results) {
    Tensors outputs, tangents;
    torch::manual_seed(900);
    for (const torch::Tensor& t : results) {
      if (!t.defined() || !t.requires_grad() || t.is_leaf()) continue;
      outputs.push_back(t);
      tangents.push_back(torch::randn(t.sizes(), t.options().requires_grad(false)));
    }
    if (!outputs.empty()) torch::autograd::backward(outputs, tangents);
  }

  std::unique_ptr<Program> program;
};

Tensors joined(const Tensors& a, const Tensors& b) {
  Tensors all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

std::string compare(const Side::Outcome& e, const Side::Outcome& g) {
  // A result that was differentiated inside cannot be differentiated again: both sides throw, with different messages.
  bool both_throw = e.error.find("in backward") != std::string::npos && g.error.find("in backward") != std::string::npos;
  if (e.error != g.error && !both_throw) return "error '" + g.error + "' instead of '" + e.error + "'";
  std::string d = difference(e.results, g.results, "result");
  if (d.empty()) d = difference(e.inputs, g.inputs, "input");
  if (d.empty()) d = difference(e.state, g.state, "state");
  if (d.empty()) d = difference(e.gradients, g.gradients, "gradient");
  if (d.empty() && sharing(joined(e.inputs, e.results)) != sharing(joined(g.inputs, g.results))) d = "results share memory differently";
  if (d.empty() && !torch::equal(e.generator, g.generator)) d = "the state of the generator differs";
  return d;
}

// Returns an error if backend `native` runs an op in ATen that is not in this list: ops of libraries, ops that scatter, random ops, and
// the ops that docs/limits.md lists.
std::string unexpected_aten_op(const Explanation& why) {
  static const std::regex calls(
      "aten::("
      "mm|addmm|bmm|baddbmm|mv|mkldnn_rnn_layer(_backward)?|convolution(_backward)?|_scaled_dot_product.*|linspace"
      "|cat|sort|topk|.*scatter.*|index_(add|copy|put)_?|_index_put_impl_|pixel_unshuffle"
      "|embedding_dense_backward|.*_pool2d(_with_indices)?_backward|reflection_pad2d_backward|upsample_bilinear2d_backward"
      "|bernoulli.*|multinomial|normal.*|rand.*|uniform_|rrelu_with_noise|empty.*|new_empty"
      "|_?linalg_.*|diag_embed|diagonal_backward|cumsum|cummax|_embedding_bag(_backward)?|floor_divide)");
  static const std::regex moving("aten::(.*_pool2d.*|upsample_.*|flip|roll|.*_pad.*|argmax|argmin|(slice|select)_backward)");
  for (const auto& graph : why.graphs)
    for (const auto& call : graph.aten_calls) {
      if (!graph.symbols.empty() && std::regex_match(call.op, moving)) continue;  // A size or integer that differs.
      bool is_of_integers = call.op.starts_with("aten::remainder");
      bool is_special_power = call.op == "aten::pow.Tensor_Scalar" && call.why == "no native kernel for these types or sizes";
      if (call.op.starts_with("aten::") && call.why != "no elements" && !is_of_integers && !is_special_power &&
          !std::regex_match(call.op, calls))
        return call.op + " runs in ATen: " + call.why;
    }
  return "";
}

}  // namespace

std::vector<ProgramEntry>& corpus() {
  static std::vector<ProgramEntry> entries;
  return entries;
}

std::vector<std::string> graph_backends() {
  std::vector<std::string> names = backends();
  std::erase(names, "none");
  return names;
}

std::string compare_with_eager(const ProgramEntry& entry, const std::string& backend, Trust trust) {
  Side eager(entry), compiled(entry);
  uint64_t quarantined = tenon::stats().quarantined;
  Program* program = compiled.program.get();
  std::string reason = program->never_served();
  // A pure call with other sizes is served as a checked one, which graphs may serve in part.
  Dynamic dynamic = trust == Trust::pure && !reason.empty() ? Dynamic::no : Dynamic::automatic;
  auto fast = tenon::compile([program](const Tensors& in) { return program->run(in); },
                             {.backend = backend, .trust = trust, .name = entry.name, .watch = program->watch(), .dynamic = dynamic});
  for (int call = 0; call < kCalls; ++call) {
    Side::Outcome expected = eager.call(call, [&](const Tensors& in) { return eager.program->run(in); });
    Side::Outcome got = compiled.call(call, [&](const Tensors& in) { return fast(in); });
    std::string d = compare(expected, got);
    if (!d.empty()) return "call " + std::to_string(call) + ", " + d + "\n" + tenon::explain(fast).text();
  }
  Explanation why = tenon::explain(fast);
  if (tenon::stats().quarantined > quarantined) return "a kernel differs from ATen\n" + why.text();
  if (reason.empty() && why.answered == 0) return "no call was served by a graph\n" + why.text();
  if (std::string left = unexpected_aten_op(why); !left.empty()) return left + "\n" + why.text();
  if (trust == Trust::pure && !reason.empty() && why.answered > 0) return "a graph served a call, though: " + reason;
  return "";
}

}  // namespace tenon::test
