// Machine code of kernels, compiled once in a process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "abi/kernel.h"
#include "loops/lower.h"

namespace tenon::build {

struct CompiledKernel {
  abi::KernelFunction function = nullptr;
  std::shared_ptr<const void> owner;  // The code lives as long as somebody holds this.
};

// False in a build without code generation.
bool has_native();

// Compiles kernels on all cores, for this CPU or with narrow vectors of 256 bits. Kernels with the same key are compiled once. They are
// printed under TENON_DEBUG=4 and 5.
std::vector<CompiledKernel> compile_kernels(const std::vector<loops::Lowered>& lowered, bool has_narrow_vectors = false);
// Whether this CPU has vectors of more than 256 bits, so that narrow ones are an alternative.
bool has_wide_vectors();

// LLVM IR and assembly, for this CPU, of a kernel given as loop-language text.
std::string llvm_text(const std::string& kernel);
std::string assembly(const std::string& kernel);

}  // namespace tenon::build
