// Prints a graph. Values are numbered in the order of their definitions in the text, so that
// print(parse(print(g))) == print(g).
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace tenon::ir {

std::string print(const Graph& graph);
std::string print(const TensorType& type);
std::string print(const Attribute& attribute);
// The strides that the text of a type leaves out. Unlike contiguous_strides, this compares no sizes and so adds no condition.
SizeList default_strides(const SizeList& sizes);

}  // namespace tenon::ir
