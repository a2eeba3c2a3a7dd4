#include "codegen/codegen.h"

// Keeps everything linked in.
extern "C" size_t exports_compile(const tenon::ir::loop::Kernel& kernel) {
  return tenon::codegen::compile(kernel, tenon::codegen::best_tier())->bytes;
}
