// What a compiled function did, and why.
//
//   std::cout << tenon::explain(fast);
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tenon/compile.h>

namespace tenon {

struct TENON_API Explanation {
  // Ops that backend `native` fused into one kernel.
  struct TENON_API Kernel {
    std::string name;
    std::vector<std::string> ops;
    std::vector<int64_t> sizes;  // Loop extents.
    size_t bytes = 0;            // Number of bytes that the kernel reads and writes.
    size_t bytes_apart = 0;      // Number of bytes that its ops would read and write one by one.
    std::string text;            // The kernel in the loop language; empty if a library call computes it.
    std::string call;            // The library call that computes it; empty otherwise.
    // LLVM IR and assembly for this CPU. They compile the kernel again.
    std::string llvm() const;
    std::string assembly() const;
  };
  // An op that runs in ATen.
  struct Call {
    std::string op;
    size_t count = 0;
    std::string why;  // The reason why the op is not in a kernel.
  };
  struct Graph {
    std::string text;       // The graph in the graph language.
    std::string served_as;  // The part of the program that the graph computes: "forward", "joint", "part 2 of a split program".
    size_t ops = 0;
    size_t calls = 0;  // Number of calls that the graph served.
    std::vector<Kernel> kernels = {};
    std::vector<Call> aten_calls = {};
    // Kernels that follow each other several times with the same ops and sizes, such as those of a model's layers. Equal kernels are
    // compiled once. Zero copies if there are none.
    struct RepeatedBlocks {
      size_t first = 0, kernels = 0, copies = 0;
    } blocks = {};
    size_t arena_bytes = 0;  // Scratch memory of one run.
    // Sizes that differ from call to call, with the values of the last build ("s0 = 128"), and what must hold for the graph to serve a
    // call ("s0 < 64 (fusion)").
    std::vector<std::string> symbols = {};
    std::vector<std::string> conditions = {};
  };
  // A graph break: an op whose result the program's own C++ needs.
  struct Break {
    std::string op, what, where, instead;
    size_t count = 0;
  };
  // A call that was recorded again, or whose sizes needed another graph.
  struct Recompile {
    // The guard that failed; "replay" if the program's ops differed from the recorded ones; "condition" if a graph was built again
    // because a condition of the known graph does not hold for the call's sizes.
    std::string guard;
    std::string detail;
    // The line of the program where the difference showed: the op that differed, or the call of the compiled function.
    std::string where;
  };

  std::string name, backend;
  size_t calls = 0;     // Number of calls of the compiled function. Each is one of the four kinds below.
  size_t answered = 0;  // Calls that graphs served completely.
  size_t replayed = 0;  // Calls that were known completely, but ran some ops in ATen because a graph was not built yet.
  size_t recorded = 0;  // Calls during which the program was recorded.
  size_t plain = 0;     // Calls that ran in plain eager.
  // Backward passes that started after a call had returned, under Trust::checked, by the same kinds.
  struct BackwardPasses {
    size_t calls = 0, answered = 0, replayed = 0, recorded = 0, plain = 0;
    size_t whole = 0;  // Passes that one graph computed, without libtorch's autograd nodes.
  } backwards;
  size_t program_ops = 0;  // Number of ops of the last recording, as the program called them.
  std::vector<Graph> graphs;
  std::vector<Break> breaks;
  std::vector<std::string> guards;  // Guards of the newest graph.
  std::vector<Recompile> recompiles;
  std::vector<std::string> obstacles;                  // Reasons why calls run in plain eager.
  std::vector<std::pair<std::string, double>> phases;  // Seconds spent in each phase of compiling.

  // The same as text for people, as JSON, and as a drawing of one graph in Graphviz' language.
  std::string text() const;
  std::string json() const;
  std::string dot(size_t graph = 0) const;
  // Writes the drawing of one graph to a file. Returns false if Graphviz' `dot` is not on the PATH.
  bool svg(const std::string& path, size_t graph = 0) const;
};

TENON_API std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

// Takes a snapshot; may be called from any thread while calls run.
TENON_API Explanation explain(Region& region);

template <class F>
Explanation explain(const Compiled<F>& compiled) {
  return explain(*compiled.region());
}

}  // namespace tenon
