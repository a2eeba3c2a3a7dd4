// The parameters that train, layer by layer in one tensor each, and gradients for them one by one.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "adapters/table.h"

namespace tenon::adapters {

// Parameters of adapters that train, and the memory in which the adapters read them. A program may give a parameter other memory
// (set_data, vector_to_parameters); `gather` copies that back. May be called from any thread.
class TrainedParameters {
 public:
  struct Parameter {
    std::string name;
    at::Tensor leaf;  // The tensor that the optimizer has.
    at::Tensor home;  // The memory that the adapter reads.
  };
  void set(std::vector<Parameter> parameters);
  // Throws UserError if a parameter was given data of another type or shape.
  void gather();

 private:
  std::mutex mutex_;
  std::vector<Parameter> parameters_;
};

// Tensors of one element type, one after another in one tensor. Ops see the whole; an optimizer sees the parts, which share its memory. In
// autograd's graphs the whole is a function of the parts, whose backward splits the gradient.
class Flat {
 public:
  Flat();
  // For the dispatcher: the same object for good, whatever it holds.
  const at::Tensor& whole() const { return whole_; }
  // Lays out new parts; memory grows and does not shrink, so that graphs that know its size go on to fit.
  void lay_out(const std::vector<at::Tensor>& parts);
  const std::vector<at::Tensor>& parts() const { return parts_; }

 private:
  at::Tensor whole_;
  std::vector<at::Tensor> parts_;
};

// Adapters of a table, some of which train.
class Training {
 public:
  // Layers with one weight train in one tensor.
  explicit Training(const std::vector<Layer>& layers);

  std::vector<at::Tensor> wholes() const;  // by layer
  bool has(const std::string& name) const { return leaves_.contains(name); }
  const std::shared_ptr<TrainedParameters>& parameters() const { return parameters_; }
  // Gives new adapters in place of those that train from now on, and of those that trained before; nothing happens if it throws.
  std::vector<AdapterPointer> train(const std::vector<AdapterPointer>& wanted, const std::vector<AdapterPointer>& before,
                                    const std::vector<Layer>& layers);
  // By the names of the file.
  const std::vector<std::pair<std::string, at::Tensor>>& leaves(const std::string& name) const { return leaves_.at(name); }
  std::vector<std::string> names() const;

 private:
  std::shared_ptr<TrainedParameters> parameters_ = std::make_shared<TrainedParameters>();
  std::vector<Flat> flats_;
  std::vector<size_t> flat_of_;  // by layer
  std::map<std::string, std::vector<std::pair<std::string, at::Tensor>>> leaves_;
};

}  // namespace tenon::adapters
