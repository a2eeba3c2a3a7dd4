#include "driver/imported_graph.h"

#include <algorithm>
#include <mutex>

#include "base/text.h"
#include "build/fixed_graph.h"
#include "build/repeated_blocks.h"
#include "driver/graph_family.h"
#include "ir/graph/parse.h"
#include "ir/graph/print.h"

namespace tenon {

struct ImportedGraph::Impl {
  std::string text;
  Options options;
  bool keeps_weights;
  ir::Graph graph;

  struct Known {
    ir::SymbolValues values;  // Of a graph for these values alone; empty for a graph with symbols.
    std::shared_ptr<driver::FamilyGraph> graph;
  };
  std::mutex mutex;
  build::Phases phases;
  std::vector<Known> graphs;  // Most recently built first.
  size_t runs = 0;

  std::shared_ptr<driver::FamilyGraph> build(ir::Graph wanted, ir::SymbolValues values) {
    constexpr size_t kMaxGraphs = 32;  // Bounds memory; not measured.
    auto out = std::make_shared<driver::FamilyGraph>();
    out->graph = std::move(wanted);
    out->max_nodes_kept = 8192;  // No streams keep executables here, so more sizes are known. Bounds memory; not measured.
    phases.time(build::Phase::verify, [&] { build::check_graph(out->graph); });
    out->built = phases.time(build::Phase::build, [&] { return build::build_graph(options, out->graph, {}, keeps_weights); });
    graphs.insert(graphs.begin(), {std::move(values), out});
    if (graphs.size() > kMaxGraphs) graphs.pop_back();
    return out;
  }

  std::shared_ptr<driver::FamilyGraph> find(const ir::SymbolValues& symbols) {
    // Symbols are larger than 1, as programs treat sizes 0 and 1 differently.
    bool is_fixed = std::any_of(symbols.begin(), symbols.end(), [](int64_t value) { return value < ir::kMinSymbol; });
    for (const Known& known : graphs)
      if (is_fixed ? known.values == symbols : known.values.empty() && driver::conditions_hold(*known.graph, symbols)) return known.graph;
    if (is_fixed) return build(build::fixed_graph(graph, symbols), symbols);
    ir::Graph wanted = graph;
    wanted.symbols = symbols;
    return build(std::move(wanted), {});
  }

  std::shared_ptr<const build::Executable> executable(const ir::SymbolValues& symbols) {
    std::lock_guard lock(mutex);
    ++runs;
    auto found = find(symbols);
    auto out = driver::executable_at(*found, found->graph.symbols.empty() ? ir::SymbolValues() : symbols);
    found->note_run(out);
    return out;
  }
};

ImportedGraph::ImportedGraph(const std::string& text, Options options, bool keeps_weights)
    : impl_(new Impl{.text = text, .options = std::move(options), .keeps_weights = keeps_weights, .graph = ir::parse(text)}) {
  impl_->graph.name = identifier(impl_->options.name);
  impl_->find(impl_->graph.symbols);
}

ImportedGraph::~ImportedGraph() = default;

std::vector<at::Tensor> ImportedGraph::run(std::vector<at::Tensor> inputs, const std::vector<int64_t>& symbols) const {
  return impl_->executable(symbols)->run(std::move(inputs), runtime::RunMode::kernels);
}

Explanation ImportedGraph::explain() const {
  std::lock_guard lock(impl_->mutex);
  Explanation out{.name = impl_->options.name, .backend = impl_->options.backend, .calls = impl_->runs, .answered = impl_->runs};
  out.program_ops = impl_->graph.nodes.size();
  for (const auto& [values, known] : impl_->graphs) {
    Explanation::Graph& shown = out.graphs.emplace_back();
    shown.text = ir::print(known->graph);
    shown.served_as = "imported";
    shown.ops = known->graph.nodes.size();
    shown.calls = known->runs;
    for (const ir::Condition& c : known->built->conditions()) shown.conditions.push_back(c.text() + " (" + c.origin + ")");
    if (known->executables.empty()) continue;
    const auto& [symbols, executable] = known->executables.front();
    shown.kernels = executable->kernels();
    shown.blocks = build::repeated_blocks(shown.kernels);
    shown.aten_calls = executable->aten_calls();
    shown.arena_bytes = executable->arena_bytes();
    for (size_t s = 0; s < symbols.size(); ++s) shown.symbols.push_back("s" + std::to_string(s) + " = " + std::to_string(symbols[s]));
    if (std::string why = executable->quarantine(); !why.empty()) out.obstacles.push_back(why);
  }
  for (size_t i = 0; i < impl_->phases.seconds.size(); ++i)
    out.phases.emplace_back(build::phase_name(static_cast<build::Phase>(i)), impl_->phases.seconds[i]);
  return out;
}

}  // namespace tenon
