// Kernel to text. Registers and loops' variables are numbered in the order in which the text names
// them, so that print(parse_kernel(print(k))) == print(k).
#pragma once

#include <string>

#include "ir/loop/loop.h"

namespace tenon::ir::loop {

std::string print(const Kernel& kernel);

// The text without the kernel's name: kernels of equal keys compute the same.
std::string key(const Kernel& kernel);

// The text of a kernel with this key.
std::string named(const std::string& key, const std::string& name);

}  // namespace tenon::ir::loop
