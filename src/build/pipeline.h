// From recorded ops to executables. This is the order of all stages; build/pipeline.cpp says why each is where it is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autodiff/partition.h"
#include "build/built_graph.h"
#include "build/phases.h"
#include "capture/functionalize.h"
#include "tenon/compile.h"

namespace tenon::build {

// The graph of a range of recorded ops, without aliases, writes and dead code.
capture::Functional functional_graph(const capture::Tape& tape, const capture::TapeRange& range, const capture::ProgramResults& results,
                                     const std::string& name);

// Throws BuildError if the graph breaks a rule of the graph language.
void check_graph(const ir::Graph& graph);

struct Program {
  capture::Functional functional;
  std::shared_ptr<const Executable> executable;  // Null if the graph has obstacles.
};
// `keeps_weights`: the weights that the graph reads are not trained.
Program build_program(const capture::Tape& tape, const capture::TapeRange& range, const capture::ProgramResults& results,
                      const Options& options, bool keeps_weights, Phases& phases);

// Forward and backward of one range.
struct JointProgram {
  capture::Functional functional;
  std::vector<capture::InputBinding> forward_inputs;
  std::vector<autodiff::BackwardInput> backward_inputs;
  std::shared_ptr<const Executable> forward, backward;  // Null if the graph has obstacles.
};
JointProgram build_joint_program(const capture::Tape& tape, const capture::TapeRange& range, const capture::ProgramResults& results,
                                 const Options& options, Phases& phases);

// Builds a graph for all its sizes. Throws BuildError with the graph for a fault of Tenon, UserError for a fault of the caller's
// backend or settings.
std::shared_ptr<const BuiltGraph> build_graph(const Options& options, const ir::Graph& graph, const std::vector<c10::IValue>& resources,
                                              bool keeps_weights);
// The same for the recorded sizes.
std::shared_ptr<const Executable> build_executable(const Options& options, const ir::Graph& graph,
                                                   const std::vector<c10::IValue>& resources, bool keeps_weights);

}  // namespace tenon::build
