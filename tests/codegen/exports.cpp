#include "codegen/codegen.h"

// Reference that links all of codegen into the library.
extern "C" size_t exports_compile(const tenon::ir::loop::LoopKernel& kernel) {
  return tenon::codegen::compile(kernel, tenon::codegen::best_tier())->bytes;
}
