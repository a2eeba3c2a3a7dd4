// What a compiled function did and why.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <tenon/compile.h>

namespace tenon {

struct Explanation {
  // Ops that backend `native` made one kernel of.
  struct Kernel {
    std::string name;
    std::vector<std::string> ops;
    std::vector<int64_t> sizes;  // over which it computes
    size_t bytes = 0;            // that it reads and writes
    size_t bytes_apart = 0;      // that its ops would, one by one
    std::string text;            // in the loop language
    std::string call;            // or the op of ATen that computes it as one
    std::string llvm() const;    // LLVM's text for it, for this CPU
    std::string assembly() const;
  };
  struct Call {
    std::string op;
    size_t count = 0;
    std::string why;  // it is not part of a kernel
  };
  struct Graph {
    std::string text;       // in the graph language
    std::string served_as;  // what it answers for: "forward", "joint", "part 2 of a split program"
    size_t ops = 0;
    size_t calls = 0;  // calls that it answered
    std::vector<Kernel> kernels = {};
    std::vector<Call> left = {};  // to ATen
    size_t arena_bytes = 0;       // of memory for what lives inside a run only
  };
  struct Break {
    std::string op, what, where, instead;
    size_t count = 0;
  };
  struct Recompile {
    std::string guard;  // the one that failed
    std::string detail;
  };

  std::string name, backend;
  size_t calls = 0;        // of the compiled function
  size_t answered = 0;     // by graphs alone
  size_t replayed = 0;     // by the program, all of it known, but not all of it in graphs yet
  size_t recorded = 0;     // by the program itself while it was recorded
  size_t plain = 0;        // by the program itself, nothing recorded
  size_t program_ops = 0;  // of the last recording, as the program made them
  std::vector<Graph> graphs;
  std::vector<Break> breaks;
  std::vector<std::string> guards;  // of the newest graph
  std::vector<Recompile> recompiles;
  std::vector<std::string> obstacles;                  // why calls are left to the program itself
  std::vector<std::pair<std::string, double>> phases;  // seconds in record, functionalize, ...

  std::string text() const;
  std::string json() const;
  std::string dot(size_t graph = 0) const;
  // Writes the picture of one graph; needs Graphviz' `dot` on the PATH, else returns false.
  bool svg(const std::string& path, size_t graph = 0) const;
};

std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

namespace detail {
Explanation explain(Region& region);
}

template <class F>
Explanation explain(const Compiled<F>& compiled) {
  return detail::explain(*compiled.region());
}

}  // namespace tenon
