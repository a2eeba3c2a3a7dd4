// Emits the function of one kernel. emit_kernel.cpp has the kernel and its parallel loop, emit_loops.cpp
// loops and reductions, emit_memory.cpp loads and stores.
//
// Inside a vector loop a register that varies from lane to lane is a list of vectors, one per unrolled
// copy. All other registers are scalars.
#pragma once

#include "codegen/analysis.h"
#include "codegen/builder.h"
#include "codegen/compute.h"
#include "codegen/emit.h"

namespace tenon::codegen {

class Emitter {
 public:
  Emitter(const ir::loop::LoopKernel& kernel, Tier tier, llvm::Module& module);

  void run();

  void operator()(const ir::loop::Compute& s);
  void operator()(const ir::loop::Constant& s);
  void operator()(const ir::loop::ScalarArgument& s);
  void operator()(const ir::loop::LoopIndex& s);
  void operator()(const ir::loop::Load& s);
  void operator()(const ir::loop::Store& s);
  void operator()(const ir::loop::Loop& loop);

 private:
  using Vectors = llvm::SmallVector<Value*, 4>;

  // The vector loop that is being emitted. One iteration computes `vectors` times `lanes_` elements from
  // `first` on, or with a mask some lanes of one vector.
  struct VectorScope {
    int32_t variable = -1;
    int vectors = 1;
    Value* first = nullptr;
    Value* mask = nullptr;
    Value* count = nullptr;                 // Number of active lanes if there is a mask.
    llvm::BasicBlock* preheader = nullptr;  // The loop's preheader.
    llvm::DenseMap<const void*, Value*> hoisted;
  };

  // Address of the elements that the lanes access.
  struct VectorAddress {
    enum class Kind { uniform, contiguous, scattered };  // One element for all lanes, unit stride, or one offset per lane.
    Kind kind = Kind::uniform;
    Value* pointer = nullptr;  // Address of the first lane of the first vector; of a scattered access the base of its offsets.
    Vectors offsets;           // Offsets of a scattered access per vector, in elements.
  };

  // Defined in emit_kernel.cpp.
  void emit_body(const std::vector<ir::loop::Statement>& body);
  void parallel_nested();
  void parallel_flat();
  CarriedValues coordinates(Value* position);
  CarriedValues advance(CarriedValues at, size_t count, Value* carry);
  void set(ir::loop::Reg reg, Vectors vectors);
  Value* size(const ir::loop::LoopSize& size);
  bool varies(ir::loop::Reg reg) const { return scope_ && analysis_.varies[reg]; }
  Value* vector_of(ir::loop::Reg reg, int which);  // Returns a register as a vector; scalars are splatted.
  Value* scalar(ir::loop::Reg reg) { return registers_[reg][0]; }
  // Emits a value once per key in the preheader of the vector loop, or in place if there is no vector loop.
  Value* hoist(const void* key, llvm::function_ref<Value*()> make);

  // Defined in emit_loops.cpp.
  class LoopReductions;
  void serial_loop(const ir::loop::Loop& loop);
  void vector_loop(const ir::loop::Loop& loop);
  void vector_range(int32_t variable, const std::vector<ir::loop::Statement>& body, const std::vector<ir::loop::Reduction>& reductions,
                    Value* first, Value* last);
  CarriedValues reduce(const LoopReductions& loop_reductions, bool in_blocks, Value* first, Value* last, int64_t step, int64_t block,
                       CarriedValues totals, int unrolled, llvm::function_ref<CarriedValues(Value*, CarriedValues)> body);

  // Defined in emit_memory.cpp.
  VectorAddress address_of(const void* statement, int32_t buffer, const ir::loop::Index& index);
  bool needs_lane_copy(llvm::Type* element, const VectorAddress& address, ir::loop::Reg mask) const;
  void copy_lanes(llvm::Type* element, Value* from, Value* to);
  Value* mask_of(ir::loop::Reg mask, int which);
  Value* pointers(llvm::Type* element, const VectorAddress& address, int which);
  Value* load_one(llvm::Type* element, Value* pointer, ir::loop::Reg mask);
  Value* load_vector(llvm::Type* element, const VectorAddress& address, ir::loop::Reg mask, int which);
  void store_one(llvm::Type* element, Value* value, Value* pointer, ir::loop::Reg mask);
  void store_vector(llvm::Type* element, Value* value, const VectorAddress& address, ir::loop::Reg mask, int which);

  const ir::loop::LoopKernel& kernel_;
  const Analysis analysis_;
  Tier tier_;
  llvm::Module& module_;
  Builder b_;
  int lanes_;
  llvm::Function* function_ = nullptr;
  std::vector<Value*> buffers_, sizes_, scalars_;
  std::vector<Value*> variables_;  // Values of loop variables, except for that of a vector loop.
  std::vector<Vectors> registers_;
  std::vector<char> is_inner_register_;  // One flag per register: it is defined inside the current vector loop.
  std::vector<char> is_inner_variable_;  // One flag per variable: its loop is inside the current vector loop.
  VectorScope* scope_ = nullptr;
};

}  // namespace tenon::codegen
