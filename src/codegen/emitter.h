// Writes the function of one kernel. Split over emit_*.cpp: the kernel as a whole and its parallel
// loop; loops and reductions; memory.
//
// Inside a vector loop a register is a number of vectors ("parts", unrolled side by side) if it varies
// from lane to lane, and one scalar if it does not. Everywhere else it is one scalar.
#pragma once

#include "codegen/analysis.h"
#include "codegen/builder.h"
#include "codegen/compute.h"
#include "codegen/emit.h"

namespace tenon::codegen {

class Emitter {
 public:
  Emitter(const ir::loop::Kernel& kernel, Tier tier, llvm::Module& module);

  void run();

  void operator()(const ir::loop::Compute& s);
  void operator()(const ir::loop::Constant& s);
  void operator()(const ir::loop::ScalarArgument& s);
  void operator()(const ir::loop::LoopIndex& s);
  void operator()(const ir::loop::Load& s);
  void operator()(const ir::loop::Store& s);
  void operator()(const ir::loop::Loop& loop);

 private:
  using Parts = llvm::SmallVector<Value*, 4>;
  using State = Builder::State;

  // The iterations of a vector loop that are worked on at once: `parts` times `lanes_`, from `first` on;
  // with a mask only some lanes of one part.
  struct Frame {
    int32_t variable = -1;
    int parts = 1;
    Value* first = nullptr;
    Value* mask = nullptr;
    Value* count = nullptr;              // with a mask: of lanes that are on
    llvm::BasicBlock* before = nullptr;  // the block in front of the loop
    llvm::DenseMap<const void*, Value*> made_in_front;
  };

  // Elements of a buffer.
  struct Place {
    enum class Kind { one, row, spread };  // one for all lanes, side by side, anywhere
    Kind kind = Kind::one;
    Value* pointer = nullptr;  // of the first lane of the first part; of `spread`: what offsets count from
    Parts offsets;             // `spread`: of each part, in elements
  };

  // emit_kernel.cpp
  void each(const std::vector<ir::loop::Statement>& body);
  void parallel_rows();
  void parallel_flat();
  State coordinates(Value* position);
  State advance(State at, size_t count, Value* carry);
  void set(ir::loop::Reg reg, Parts parts);
  Value* size(const ir::loop::Size& size);
  bool varies(ir::loop::Reg reg) const { return frame_ && analysis_.varies[reg]; }
  Value* part(ir::loop::Reg reg, int which);  // as a vector
  Value* scalar(ir::loop::Reg reg) { return registers_[reg][0]; }
  Value* in_front(const void* key, llvm::function_ref<Value*()> make);  // of the vector loop, if there is one; once a key

  // emit_loops.cpp
  class Reducing;
  void serial_loop(const ir::loop::Loop& loop);
  void vector_loop(const ir::loop::Loop& loop);
  void vector_range(int32_t variable, const std::vector<ir::loop::Statement>& body, const std::vector<ir::loop::Reduction>& reductions,
                    Value* first, Value* last);
  State reduce(const Reducing& reducing, bool in_blocks, Value* first, Value* last, int64_t step, int64_t block, State totals, int unrolled,
               llvm::function_ref<State(Value*, State)> body);

  // emit_memory.cpp
  Place place(const void* statement, int32_t buffer, const ir::loop::Index& index);
  bool by_copy(llvm::Type* element, const Place& place, ir::loop::Reg mask) const;
  void copy_lanes(llvm::Type* element, Value* from, Value* to);
  Value* mask_of(ir::loop::Reg mask, int which);
  Value* pointers(llvm::Type* element, const Place& place, int which);
  Value* load_one(llvm::Type* element, Value* pointer, ir::loop::Reg mask);
  Value* load_part(llvm::Type* element, const Place& place, ir::loop::Reg mask, int which);
  void store_one(llvm::Type* element, Value* value, Value* pointer, ir::loop::Reg mask);
  void store_part(llvm::Type* element, Value* value, const Place& place, ir::loop::Reg mask, int which);

  const ir::loop::Kernel& kernel_;
  const Analysis analysis_;
  Tier tier_;
  llvm::Module& module_;
  Builder b_;
  int lanes_;
  llvm::Function* function_ = nullptr;
  std::vector<Value*> buffers_, sizes_, scalars_;
  std::vector<Value*> variables_;  // of loops; of a vector loop its frame tells
  std::vector<Parts> registers_;
  std::vector<char> is_inside_;    // by register: made in the vector loop at hand
  std::vector<char> is_in_frame_;  // by variable: of a loop in the vector loop at hand
  Frame* frame_ = nullptr;
};

}  // namespace tenon::codegen
