// Finds an earlier op of a tape whose results have the same geometry, since the op, its constants and its operands' geometry are the same.
// Layers of a model repeat each other, and comparing is cheaper than running a Meta kernel.
#pragma once

#include <unordered_map>

#include "capture/tape_ops.h"

namespace tenon::capture {

class EqualOps {
 public:
  // Returns null if there is none.
  const TapeOp* find(const std::vector<TapeOp>& ops, const TapeOp& op) const;
  // Lets find() return the op at this index.
  void add(const std::vector<TapeOp>& ops, size_t index);

 private:
  std::unordered_map<size_t, size_t> newest_;  // Indices of the newest ops by their hashes.
};

}  // namespace tenon::capture
