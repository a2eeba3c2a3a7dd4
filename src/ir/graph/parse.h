// Parses a graph. Throws UserError(parse) with line and column; the result still has to be verified.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace tenon::ir {

Graph parse(const std::string& text);

}  // namespace tenon::ir
