// The trained parameters of a bank: one flat tensor per layer for the ops, one leaf per parameter for the optimizer.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "adapters/table.h"

namespace tenon::adapters {

// The trained parameters and the memory that adapters read them from. A program may give a parameter other memory (set_data,
// vector_to_parameters); `gather` copies its contents back. Thread-safe.
class TrainedParameters {
 public:
  struct Parameter {
    std::string name;
    at::Tensor leaf;  // The tensor that the optimizer updates.
    at::Tensor home;  // The memory that the adapter reads.
  };
  void set(std::vector<Parameter> parameters);
  // Throws UserError if a parameter was given data of another type or shape.
  void gather();

 private:
  std::mutex mutex_;
  std::vector<Parameter> parameters_;
};

// A parameter in a flat tensor.
struct FlatSlice {
  at::Tensor tensor;
  int64_t first;  // The offset of its elements.
  // The offset of its use count: an element of the flat tensor's gradient that is positive if the parameter took part in the forward.
  // Negative if the parameter takes part in all calls.
  int64_t use_count = -1;
  Constraint constraint = {};  // Empty if the parameter has none.
};

// Parameters of one element type, stored in one flat tensor. Ops receive the flat tensor; an optimizer receives leaves that alias it. For
// autograd the flat tensor is a function of the leaves, whose backward splits the gradient.
class FlatParameters {
 public:
  FlatParameters();
  // The flat tensor, which is the same object for the life of the bank.
  const at::Tensor& tensor() const { return tensor_; }
  // Replaces the parameters. `size` is the number of elements of parameters and use counts. The capacity never shrinks, so that graphs
  // recorded with its size stay valid.
  void set_parameters(const std::vector<FlatSlice>& slices, int64_t size);
  const std::vector<at::Tensor>& leaves() const { return leaves_; }

 private:
  at::Tensor tensor_;
  std::vector<at::Tensor> leaves_;
};

// The adapters of a bank that are trained.
class Training {
 public:
  // Layers that share a weight share a flat tensor.
  explicit Training(const std::vector<Layer>& layers);

  std::vector<at::Tensor> flat_tensors() const;  // One per layer.
  bool has(const std::string& name) const { return leaves_.contains(name); }
  const std::shared_ptr<TrainedParameters>& parameters() const { return parameters_; }
  // Returns replacements for the adapters that are trained from now on and for those that were trained before. Nothing changes if it
  // throws.
  std::vector<AdapterPointer> train(const std::vector<AdapterPointer>& wanted, const std::vector<AdapterPointer>& before,
                                    const std::vector<Layer>& layers);
  // The leaves of an adapter by the names of its file.
  const std::vector<std::pair<std::string, at::Tensor>>& leaves(const std::string& name) const { return leaves_.at(name); }
  std::vector<std::string> names() const;

 private:
  std::shared_ptr<TrainedParameters> parameters_ = std::make_shared<TrainedParameters>();
  std::vector<FlatParameters> flats_;
  std::vector<size_t> flat_of_;  // One per layer.
  std::map<std::string, std::vector<std::pair<std::string, at::Tensor>>> leaves_;
};

}  // namespace tenon::adapters
