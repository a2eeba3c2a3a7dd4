// The graphs of one op range of a program for all sizes that it is called with.
//
// A graph that is seen with a second set of sizes is generalised: sizes of inputs become symbols, and one build serves all sizes whose
// graphs have the same numbers. A symbolic graph is used only for sizes at which it equals the graph of the recorded ops, number by
// number, and at which the conditions of its build hold.
#pragma once

#include <memory>
#include <vector>

#include "build/pipeline.h"
#include "capture/functionalize.h"
#include "driver/recompiles.h"

namespace tenon::driver {

// A graph that was built, with symbols or for one set of sizes.
struct FamilyGraph {
  ir::Graph graph;  // The graph before the passes.
  std::shared_ptr<const build::BuiltGraph> built;
  struct SizedExecutable {
    ir::SymbolValues symbols;
    std::shared_ptr<const build::Executable> executable;
  };
  std::vector<SizedExecutable> executables;  // Most recently used first.
  size_t max_nodes_kept = 256;  // Nodes of the executables that are kept, together; but four are. Bounds memory (`bench_sizes memory`).
  size_t runs = 0;
  std::shared_ptr<const build::Executable> last_run;

  // Counts a run. Only the sizes that ran last keep memory for the next run.
  void note_run(const std::shared_ptr<const build::Executable>& executable);
};

// Whether the graph serves these values of its symbols.
bool conditions_hold(const FamilyGraph& graph, const ir::SymbolValues& symbols);
// The graph's executable for these values, which is made if it is not known.
std::shared_ptr<const build::Executable> executable_at(FamilyGraph& graph, const ir::SymbolValues& symbols);

class GraphFamily {
 public:
  // What a graph is built with.
  struct BuildSettings {
    const Options& options;
    bool keeps_weights;
    build::Phases& phases;
    Recompiles& recompiles;
  };
  struct Found {
    std::shared_ptr<FamilyGraph> graph;  // Null if there is no executable.
    std::shared_ptr<const build::Executable> executable;
  };
  // Finds or builds the executable for a graph of numbers. `may_specialise`: if no symbolic graph serves it, it is built for its own
  // sizes; otherwise it is only remembered.
  Found find(const capture::Functional& functional, bool may_specialise, const BuildSettings& settings);

  // Keeps a graph of numbers, so that later ones can be generalised with it.
  void remember(const ir::Graph& graph);
  bool is_empty() const { return samples_.empty() && graphs_.empty(); }
  const std::vector<std::shared_ptr<FamilyGraph>>& graphs() const { return graphs_; }

 private:
  Found find_built(const ir::Graph& graph);
  std::shared_ptr<FamilyGraph> build_symbolic(const capture::Functional& functional, const BuildSettings& settings);
  void warn_of_limit(const Options& options);
  std::shared_ptr<FamilyGraph> build(ir::Graph graph, const capture::Functional& functional, const BuildSettings& settings);
  std::optional<ir::Graph> generalised(const ir::Graph& graph) const;
  std::vector<ir::Graph> samples_;  // Graphs of numbers, newest first.
  std::vector<std::shared_ptr<FamilyGraph>> graphs_;
  bool has_warned_ = false;  // The user was told that there are too many symbolic graphs.
};

}  // namespace tenon::driver
