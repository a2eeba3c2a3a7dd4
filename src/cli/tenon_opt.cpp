// tenon-opt: reads a graph as text, runs passes, and prints it. For debugging and for golden tests.
//   tenon-opt [--pass NAME | --all]... [--reuse] [--kernels [--keeps-weights]] [--dot] [--no-verify] [FILE]
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "ir/graph/dot.h"
#include "ir/graph/parse.h"
#include "ir/graph/print.h"
#include "ir/graph/verify.h"
#include "ir/loop/print.h"
#include "ir/loop/verify.h"
#include "loops/lower.h"
#include "passes/fusion/convolutions.h"
#include "passes/fusion/find_groups.h"
#include "passes/runner.h"
#include "planner/reuse.h"
#ifdef TENON_NATIVE
#include "codegen/codegen.h"
#endif

namespace {

constexpr const char* kAll = "--all";

void print_reuse(const tenon::ir::Graph& graph) {
  tenon::ir::Reuse reuse = tenon::planner::plan_reuse(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (size_t w = 0; w < reuse.in_place[i].size(); ++w)
      std::cout << "node " << i << " " << graph.nodes[i].op << ": " << (reuse.in_place[i][w] ? "in place" : "on a copy") << "\n";
    if (reuse.no_op[i]) std::cout << "node " << i << " " << graph.nodes[i].op << ": nothing to do\n";
  }
  for (size_t i = 0; i < reuse.written_already.size(); ++i)
    std::cout << "write " << i << ": " << (reuse.written_already[i] ? "in place" : "copied") << "\n";
}

// Prints, verifies and compiles the kernels that backend `native` makes of a graph. `keeps_weights`: the graph runs without gradients.
void print_kernels(const tenon::ir::Graph& original, bool keeps_weights) {
  namespace loop = tenon::ir::loop;
  std::vector<tenon::ir::Condition> conditions;
  tenon::ir::ConditionScope scope(original.symbols, "kernels", conditions);
  tenon::ir::Graph graph = keeps_weights ? tenon::passes::prefer_channels_last(original) : original;
  tenon::ops::Lowerings lowerings = tenon::ops::lowerings_of(graph);
  std::vector<tenon::ir::Group> groups = tenon::passes::find_groups(graph, lowerings, tenon::passes::is_skipped("fuse"), keeps_weights);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].is_kernel()) continue;
    loop::LoopKernel kernel = tenon::loops::lower(graph, lowerings, groups[g], graph.name + "_" + std::to_string(g)).kernel;
    std::cout << loop::print(kernel);
    loop::verify(kernel);
#ifdef TENON_NATIVE
    tenon::codegen::compile(kernel, tenon::codegen::best_tier());
#endif
  }
  for (const tenon::ir::Condition& condition : conditions) std::cout << "condition " << condition.text() << "\n";
}

int usage() {
  std::cerr << "usage: tenon-opt [--pass NAME | --all]... [--reuse] [--kernels [--keeps-weights]] [--dot] [--no-verify] [FILE]\n"
               "Reads a graph from FILE or standard input, runs the passes and prints the graph.\n"
               "  --pass NAME      run one pass\n"
               "  --all            run all passes in order\n"
               "  --reuse          print which writes are done in place\n"
               "  --kernels        print the loops of the kernels and compile them\n"
               "  --keeps-weights  with --kernels: assume that weights are not trained\n"
               "  --dot            print the graph for Graphviz\n"
               "  --no-verify      skip verification of the input\n"
               "passes:\n";
#define TENON_PASS(name, runner, what) std::cerr << "  " #name "  " what "\n";
#include "passes/passes.def"
#undef TENON_PASS
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> passes;
  std::string file;
  bool dot = false, reuse = false, verify = true, kernels = false, keeps_weights = false;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--pass" && i + 1 < argc) passes.push_back(argv[++i]);
    else if (arg == "--all") passes.push_back(kAll);
    else if (arg == "--dot") dot = true;
    else if (arg == "--reuse") reuse = true;
    else if (arg == "--kernels") kernels = true;
    else if (arg == "--keeps-weights") keeps_weights = true;
    else if (arg == "--no-verify") verify = false;
    else if (!arg.empty() && arg[0] != '-' && file.empty()) file = arg;
    else return usage();
  }
  try {
    std::ifstream stream(file);
    if (!file.empty() && !stream) {
      std::cerr << "tenon-opt: cannot read " << file << "\n";
      return 1;
    }
    std::istream& in = file.empty() ? std::cin : stream;
    std::string text{std::istreambuf_iterator<char>(in), {}};
    tenon::ir::Graph graph = tenon::ir::parse(text);
    if (verify) tenon::ir::verify(graph);
    for (const std::string& name : passes) {
      if (name == kAll) tenon::passes::run_all(graph);
      else tenon::passes::run_pass(name, graph);
    }
    if (reuse) print_reuse(graph);
    else if (kernels) print_kernels(graph, keeps_weights);
    else std::cout << (dot ? tenon::ir::dot(graph) : tenon::ir::print(graph));
  } catch (const tenon::Error& error) {
    std::cerr << "tenon-opt: " << error.what() << "\n";
    return 1;
  }
}
