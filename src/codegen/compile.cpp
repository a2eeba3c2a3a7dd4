#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/counting.h"
#include "codegen/emit.h"
#include "codegen/target.h"
#include "ir/loop/print.h"

namespace tenon::codegen {

using ir::loop::Kernel;

std::string object(const Kernel& kernel, Tier tier) {
  llvm::LLVMContext context;
  std::string bytes = emit(*emit_module(kernel, tier, context), tier, Output::object);
  ++counting.compiled;
  return bytes;
}

std::shared_ptr<const Code> compile(const Kernel& kernel, Tier tier) { return load(object(kernel, tier)); }

std::string llvm_text(const Kernel& kernel, Tier tier) {
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

std::string assembly(const Kernel& kernel, Tier tier) {
  llvm::LLVMContext context;
  return emit(*emit_module(kernel, tier, context), tier, Output::assembly);
}

Counters counters() { return {counting.compiled, counting.live, counting.live_bytes}; }

}  // namespace tenon::codegen
