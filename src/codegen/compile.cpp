#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/counters.h"
#include "codegen/emit.h"
#include "codegen/target.h"
#include "ir/loop/print.h"

namespace tenon::codegen {

using ir::loop::LoopKernel;

std::string object(const LoopKernel& kernel, Tier tier) {
  llvm::LLVMContext context;
  std::string bytes = emit(*emit_module(kernel, tier, context), tier, Output::object);
  ++atomic_counters.compiled;
  return bytes;
}

std::shared_ptr<const MachineCode> compile(const LoopKernel& kernel, Tier tier) { return load(object(kernel, tier)); }

std::string llvm_text(const LoopKernel& kernel, Tier tier) {
  llvm::LLVMContext context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto module = emit_module(kernel, tier, context);
  module->print(stream, nullptr);
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(*module, &problems)) throw InternalError("LLVM refuses the code of\n" + print(kernel) + text + problem);
  return text;
}

std::string assembly(const LoopKernel& kernel, Tier tier) {
  llvm::LLVMContext context;
  return emit(*emit_module(kernel, tier, context), tier, Output::assembly);
}

CodegenCounters counters() { return {atomic_counters.compiled, atomic_counters.live, atomic_counters.live_bytes}; }

}  // namespace tenon::codegen
