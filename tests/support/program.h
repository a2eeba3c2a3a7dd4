// A program of the corpus: a short libtorch C++ program that runs eagerly and through tenon::compile and must have the same
// effects.
#pragma once

#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon::test {

using Tensors = std::vector<torch::Tensor>;

struct Program {
  virtual ~Program() = default;

  // Returns new data for a call. Shapes 0 and 1 have different sizes.
  virtual Tensors inputs(int shape) = 0;
  // Runs the program, which may modify its inputs and its state.
  virtual Tensors run(const Tensors& in) = 0;
  // Returns all tensors that outlive a call: parameters, buffers, optimizer state, caches.
  virtual Tensors state() { return {}; }
  virtual std::vector<Watched> watch() { return {}; }
  // Runs before each call, outside the program: calls train() or eval(), or resets a counter.
  virtual void before(int call) {}
  // Sets grad mode, autocast or inference mode around the call.
  virtual void around(const std::function<void()>& call) { call(); }
  // Returns why no graph can ever serve it under `pure`; if empty, a graph must serve at least one call.
  virtual std::string never_served() { return ""; }
};

struct ProgramEntry {
  std::string name;
  std::function<std::unique_ptr<Program>()> make;
};
std::vector<ProgramEntry>& corpus();

struct RegisterProgram {
  RegisterProgram(std::string name, std::function<std::unique_ptr<Program>()> make) {
    corpus().push_back({std::move(name), std::move(make)});
  }
};
#define TENON_PROGRAM(Type) static const ::tenon::test::RegisterProgram register_##Type(#Type, [] { return std::make_unique<Type>(); })

// Returns the backends of this build that use graphs.
std::vector<std::string> graph_backends();

// Runs twelve calls eagerly and compiled. Describes the first difference, or returns an empty string.
std::string compare_with_eager(const ProgramEntry& entry, const std::string& backend, Trust trust);

}  // namespace tenon::test
