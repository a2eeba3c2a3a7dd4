// Graph to text. Values are numbered in the order in which the text defines them, so that
// print(parse(print(g))) == print(g).
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace tenon::ir {

std::string print(const Graph& graph);
std::string print(const TensorType& type);
std::string print(const Attribute& attribute);

}  // namespace tenon::ir
