// A program of the corpus: a short piece of libtorch C++ that is run as it is and through
// tenon::compile, side by side, and must do the same.
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

  // New data for a call. Shape 0 or 1: two different sizes.
  virtual Tensors inputs(int shape) = 0;
  // The program. May change its inputs and its state.
  virtual Tensors run(const Tensors& in) = 0;
  // Everything that outlives a call: parameters, buffers, optimizer state, caches.
  virtual Tensors state() { return {}; }
  virtual std::vector<Watched> watch() { return {}; }
  // Done before each call, outside the program: train() and eval(), a reset counter.
  virtual void before(int call) {}
  // Grad mode, autocast, inference mode around the call.
  virtual void around(const std::function<void()>& call) { call(); }
  // Why no graph can ever answer for it under `pure`; empty: some calls must be answered by a graph.
  virtual std::string never_answered() { return ""; }
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

// The backends that this build has for it.
std::vector<std::string> graph_backends();

// Runs twelve calls of both and returns the first difference in words, or nothing.
std::string compare_with_eager(const ProgramEntry& entry, const std::string& backend, Trust trust);

}  // namespace tenon::test
