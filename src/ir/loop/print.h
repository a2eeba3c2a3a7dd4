// Prints a kernel. Registers and loop variables are numbered in their order in the text, so that
// print(parse_kernel(print(k))) == print(k).
#pragma once

#include <string>

#include "ir/loop/loop.h"

namespace tenon::ir::loop {

std::string print(const LoopKernel& kernel);

// Returns the text without the kernel's name; kernels with equal keys compute the same.
std::string key(const LoopKernel& kernel);

// Returns the text of a kernel with this key.
std::string named(const std::string& key, const std::string& name);

}  // namespace tenon::ir::loop
