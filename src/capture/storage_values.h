// StorageValues: the contents of storages as graph values, while a tape is functionalized. Each storage has a root, the value of
// its whole contents, and aliases, the values of tensors on it. Graph inputs are made at the first use of an external storage.
#pragma once

#include <string>
#include <vector>

#include "capture/functionalize.h"

namespace tenon::capture {

// The value of a tensor with this geometry.
struct AliasValue {
  Geometry geometry;
  ir::ValueId value;
};

struct StorageState {
  ir::ValueId root = ir::kNoValue;
  Geometry root_geometry;
  std::vector<AliasValue> aliases;  // Values that hold the current contents, including the root.
  int32_t version = 0;              // Number of writes so far.
  bool written_in_grad_mode = false;
  bool external = false;
  bool written = false;   // Written anywhere in the range.
  bool unfilled = false;  // Allocated without contents and not yet filled by an op.
  int64_t filled = 0;     // Number of elements that ops have filled.
  std::vector<Geometry> filled_geometries;
};

// Adds a reason why no graph may serve the call, once.
void add_obstacle(Functional& out, std::string text);

int64_t numel(const Geometry& geometry);

class StorageValues {
 public:
  // Nodes and inputs are added to `out`. All references must outlive the object.
  StorageValues(const Tape& tape, const TapeRange& range, Functional& out);

  StorageState& operator[](int32_t storage) { return states_[storage]; }
  const StorageState& operator[](int32_t storage) const { return states_[storage]; }
  size_t size() const { return states_.size(); }
  const std::vector<int32_t>& externals_on(int32_t storage) const { return externals_on_[storage]; }

  // The current value of a tensor.
  ir::ValueId read(const TensorRef& ref);
  // Makes `after` the value of the written tensor, and of the storage's root.
  void apply_write(const TapeWrite& write, ir::ValueId after, const TapeOp& op);
  // Sets the value of a tensor object at the current version of its storage.
  void set_handle(const TensorRef& ref, ir::ValueId value) { handles_[ref.handle] = {value, ref.storage, states_[ref.storage].version}; }

  // Records that the graph depends on the storage offsets of the externals on this storage.
  void set_offset_matters(int32_t storage);
  // Adds an obstacle if the tensor is read before ops have filled it.
  void check_filled(const TensorRef& ref);

 private:
  // The value of a tensor object at one version of its storage.
  struct HandleValue {
    ir::ValueId value = ir::kNoValue;
    int32_t storage = -1;
    int32_t version = 0;
  };

  void find_ops_on_written();
  ir::ValueId add_input(const Geometry& geometry, InputBinding binding, ir::InputRole role, const std::string& name, bool grad);
  ir::ValueId input_for_external(int32_t index);
  int32_t external_at(int32_t storage, const Geometry& geometry) const;
  void open_external(int32_t storage, const Geometry& wanted);
  void open_whole_storage(int32_t storage, const std::vector<int32_t>& on_storage);
  ir::ValueId input_on(int32_t storage, const Geometry& geometry, bool whole);
  Geometry covering_geometry(int32_t storage, const Geometry& wanted);
  Geometry flat_geometry(int32_t storage, at::ScalarType dtype) const;
  bool lacks_history(ir::ValueId value, const TensorRef& ref) const;
  ir::ValueId mark_requires_grad(ir::ValueId value, const TensorRef& ref);
  ir::ValueId view_of_root(const TensorRef& ref);
  void fill(StorageState& state, const Geometry& region);

  const Tape& tape_;
  const TapeRange& range_;
  Functional& out_;
  std::vector<std::vector<int32_t>> externals_on_;  // Externals by storage.
  std::vector<StorageState> states_;
  std::vector<std::vector<size_t>> ops_on_;  // Ops by storage, for written storages (by_storage).
  std::vector<HandleValue> handles_;
};

}  // namespace tenon::capture
