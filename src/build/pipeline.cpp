#include "build/pipeline.h"

#include "base/counters.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/process.h"
#include "build/build_error.h"
#include "build/code_cache.h"
#include "build/native.h"
#include "build/recompute_cost.h"
#include "ir/graph/parse.h"
#include "ir/graph/print.h"
#include "ir/graph/verify.h"
#include "passes/eliminate_dead.h"
#include "passes/runner.h"
#include "planner/reuse.h"
#include "runtime/tuner.h"

namespace tenon::build {
namespace {

// Throws InternalError if print, parse and print again give another text. The text is the interface to other backends and to tools, so it
// must be complete. Does nothing unless TENON_CHECK_TEXT is set.
void check_text(const ir::Graph& graph) {
  static const bool check_text = is_set(Flag::check_text);
  if (!check_text) return;
  std::string text = ir::print(graph);
  ir::Graph again = ir::parse(text);
  ir::verify(again);
  if (ir::print(again) != text) throw InternalError("a graph changed when its text was parsed and printed again:\n" + text);
}

}  // namespace

void check_graph(const ir::Graph& graph) {
  try {
    ir::verify(graph);
    check_text(graph);
  } catch (const std::exception& error) {
    throw BuildError(graph, /*keeps_weights=*/false, error.what());
  }
}

capture::Functional functional_graph(const capture::Tape& tape, const capture::TapeRange& range, const capture::ProgramResults& results,
                                     const std::string& name) {
  NoForkScope scope;
  // The tape has every op as the program called it. Aliases and in-place writes are resolved here, so that no later stage sees them.
  capture::Functional out = capture::functionalize(tape, range, results, name);
  // Functionalization recomputes views after each write, whether or not somebody reads them. These would hide what the graph reads.
  passes::eliminate_dead(out.graph);
  return out;
}

Program build_program(const capture::Tape& tape, const capture::TapeRange& range, const capture::ProgramResults& results,
                      const Options& options, bool keeps_weights, Phases& phases) {
  Program out;
  out.functional = phases.time(Phase::functionalize, [&] { return functional_graph(tape, range, results, options.name); });
  if (!out.functional.obstacles.empty()) return out;
  phases.time(Phase::verify, [&] { check_graph(out.functional.graph); });
  out.executable =
      phases.time(Phase::build, [&] { return build_executable(options, out.functional.graph, out.functional.resources, keeps_weights); });
  return out;
}

JointProgram build_joint_program(const capture::Tape& tape, const capture::TapeRange& range, const capture::ProgramResults& results,
                                 const Options& options, Phases& phases) {
  JointProgram out;
  out.functional = phases.time(Phase::functionalize, [&] { return functional_graph(tape, range, results, options.name); });
  if (!out.functional.obstacles.empty()) return out;
  // The joint graph is split before any pass: which values the backward saves is decided on the program's own ops.
  auto halves = phases.time(Phase::partition, [&] {
    auto split = autodiff::partition(out.functional.graph, out.functional.forward_outputs, {recompute_time, options.memory_budget});
    passes::eliminate_dead(split.forward);
    passes::eliminate_dead(split.backward);
    return split;
  });
  phases.time(Phase::verify, [&] {
    check_graph(out.functional.graph);
    check_graph(halves.forward);
    check_graph(halves.backward);
  });
  for (int32_t input : halves.forward_inputs) out.forward_inputs.push_back(out.functional.inputs[input]);
  out.backward_inputs = std::move(halves.backward_inputs);
  phases.time(Phase::build, [&] {
    out.forward = build_executable(options, halves.forward, out.functional.resources, /*keeps_weights=*/false);
    out.backward = build_executable(options, halves.backward, out.functional.resources, /*keeps_weights=*/false);
  });
  return out;
}

namespace {

// TENON_MODE sets the mode of programs that set none.
Mode mode_of(const Options& options) {
  static const char* wanted = flag_text(Flag::mode);
  if (!wanted || options.mode != Mode::standard) return options.mode;
  if (wanted == std::string("reduce_overhead")) return Mode::reduce_overhead;
  if (wanted == std::string("max_autotune")) return Mode::max_autotune;
  throw UserError(ErrorCode::backend,
                  "TENON_MODE=" + std::string(wanted) + " is not a mode; set reduce_overhead or max_autotune, or unset it");
}

BuiltGraph::BuiltParts make_parts(const Options& options, ir::Graph graph, const std::vector<c10::IValue>& resources, bool keeps_weights) {
  bool is_native = options.backend == "native" && has_native(), has_passes = options.backend == "native" || options.backend == "aten";
  Mode mode = mode_of(options);  // Throws for every backend.
  BuiltGraph::BuiltParts parts{.backend = options.backend, .keeps_weights = keeps_weights, .resources = resources};
  // Options::verify compares with the graph as it is before the passes, and copies every in-place operand.
  if (options.verify > 0 && !is_native) {
    parts.verify = options.verify;
    parts.oracle = std::make_shared<const ir::Graph>(graph);
  }
  // Passes keep eager's bits, so backend `aten` is the same graph without kernels: a difference between the two is a kernel's fault.
  if (has_passes) {
    passes::run_all(graph);
    check_text(graph);
  }
  parts.conditions = graph.conditions;
  parts.graph = std::make_shared<const ir::Graph>(std::move(graph));
  // Kernels come last: they need the final graph, and the passes do not know them.
  if (is_native) {
    bool is_tuned = mode == Mode::max_autotune && keeps_weights && runtime::is_repeatable(*parts.graph);
    parts.tuning_seconds = is_tuned ? options.tuning_seconds : 0;
    NativeOptions native{options.verify, keeps_weights, /*for_autotuning=*/parts.tuning_seconds > 0,
                         /*keeps_memory=*/mode != Mode::standard};
    parts.native = make_native(parts.graph, resources, native, parts.quarantine, parts.conditions);
  }
  // The graph op by op in ATen runs for the other backends, under autograd, and after a quarantine. Backend `eager` copies every
  // in-place operand, so that a wrong result which disappears with it is a fault of the planner.
  ir::ConditionScope scope(parts.graph->symbols, "memory plan", parts.conditions);
  parts.reuse = options.backend == "eager" ? planner::no_reuse(*parts.graph) : planner::plan_reuse(*parts.graph);
  return parts;
}

}  // namespace

std::shared_ptr<const BuiltGraph> build_graph(const Options& options, const ir::Graph& graph, const std::vector<c10::IValue>& resources,
                                              bool keeps_weights) {
  NoForkScope scope;
  ++counters().graphs;
  return with_build_errors(graph, keeps_weights,
                           [&] { return std::make_shared<const BuiltGraph>(make_parts(options, graph, resources, keeps_weights)); });
}

std::shared_ptr<const Executable> build_executable(const Options& options, const ir::Graph& graph,
                                                   const std::vector<c10::IValue>& resources, bool keeps_weights) {
  std::shared_ptr<const BuiltGraph> built = build_graph(options, graph, resources, keeps_weights);
  return with_build_errors(graph, keeps_weights, [&] { return built->make_executable(graph.symbols); });
}

}  // namespace tenon::build
