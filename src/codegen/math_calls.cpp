#include "codegen/math_calls.h"

#include <llvm/IR/Module.h>

#include "codegen/symbols.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;

// Suffix of Sleef's function names that states the error bound.
const char* sleef_suffix(Op op) { return op == Op::erfc ? "_u15" : "_u10"; }

std::string sleef_name(Op op, DType type, int lanes) {
  return std::string("Sleef_") + op_name(op) + (type == DType::f32 ? "f" : "d") + std::to_string(lanes) + sleef_suffix(op);
}

Value* extract_lanes(Builder& b, Value* x, int from, int count) {
  llvm::SmallVector<int, 16> lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(from + i);
  return b.CreateShuffleVector(x, lanes);
}

// Calls a vector function on all lanes, in segments of the function's width.
Value* call_vectors(Builder& b, const std::string& name, int width, llvm::ArrayRef<Value*> operands) {
  llvm::Type* element = operands[0]->getType()->getScalarType();
  llvm::Type* segment_type = Builder::wide(element, width);
  llvm::SmallVector<llvm::Type*, 2> types(operands.size(), segment_type);
  auto function = b.GetInsertBlock()->getModule()->getOrInsertFunction(name, llvm::FunctionType::get(segment_type, types, false));
  bool is_scalar = !operands[0]->getType()->isVectorTy();
  int lanes = Builder::lanes_of(operands[0]);
  llvm::SmallVector<Value*, 4> results;
  for (int from = 0; from < lanes; from += width) {
    llvm::SmallVector<Value*, 2> segments;
    for (Value* x : operands) segments.push_back(is_scalar ? b.splat(x, width) : lanes == width ? x : extract_lanes(b, x, from, width));
    results.push_back(b.CreateCall(function, segments));
  }
  if (is_scalar) return b.CreateExtractElement(results[0], static_cast<uint64_t>(0));
  while (results.size() > 1) {
    llvm::SmallVector<Value*, 4> joined;
    for (size_t i = 0; i < results.size(); i += 2) {
      llvm::SmallVector<int, 16> all;
      for (int k = 0; k < 2 * Builder::lanes_of(results[i]); ++k) all.push_back(k);
      joined.push_back(b.CreateShuffleVector(results[i], results[i + 1], all));
    }
    results = joined;
  }
  return results[0];
}

}  // namespace

// The operands are passed in memory.
Value* call_lanes(Builder& b, Op op, DType type, llvm::ArrayRef<Value*> operands) {
  llvm::Type* pointer = b.getPtrTy();
  auto* signature = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer, b.getInt64Ty()}, false);
  std::string name = std::string("tenon_") + op_name(op) + (type == DType::f32 ? "_f32" : "_f64");
  auto function = b.GetInsertBlock()->getModule()->getOrInsertFunction(name, signature);
  llvm::Type* vector = operands[0]->getType();
  Value* out = b.alloca_at_entry(vector);
  llvm::SmallVector<Value*, 4> arguments = {out};
  for (Value* x : operands) {
    arguments.push_back(b.alloca_at_entry(vector));
    b.CreateStore(x, arguments.back());
  }
  if (operands.size() == 1) arguments.push_back(llvm::ConstantPointerNull::get(b.getPtrTy()));
  arguments.push_back(b.getInt64(static_cast<uint64_t>(Builder::lanes_of(operands[0]))));
  b.CreateCall(function, arguments);
  return b.CreateLoad(vector, out);
}

Value* call_library(Builder& b, Op op, DType type, llvm::ArrayRef<Value*> operands) {
  int width = type == DType::f32 ? b.tier.lanes : b.tier.lanes / 2;
  std::string name = sleef_name(op, type, width);
  // Sleef's fmod is wrong for large quotients, and its lgamma between its zeros and near the end of the f32 range.
  bool is_trusted = op != Op::fmod && op != Op::lgamma;
  if (is_trusted && find_function(name)) return call_vectors(b, name, width, operands);
  return call_lanes(b, op, type, operands);
}

}  // namespace tenon::codegen
