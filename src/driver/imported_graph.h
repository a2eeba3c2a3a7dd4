// A graph that another frontend has recorded, such as PyTorch's Dynamo, compiled for all values of its symbols.
#pragma once

#include <tenon/compile.h>
#include <tenon/inspect.h>

#include <memory>
#include <string>
#include <vector>

namespace tenon {

class TENON_API ImportedGraph {
 public:
  // `text` is in the graph language; its symbols have the values of the first run. `keeps_weights`: inputs with the role state are
  // weights that are not trained. Throws UserError if the text is no graph, and InternalError if it cannot be compiled.
  ImportedGraph(const std::string& text, Options options, bool keeps_weights);
  ~ImportedGraph();

  // Takes one tensor per input and one value per symbol; returns one tensor per output. Inputs that `write` lines name are overwritten.
  // Records nothing for autograd. May be called from several threads at once.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, const std::vector<int64_t>& symbols) const;

  // The graph and its kernels, for the sizes of the last run.
  Explanation explain() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
