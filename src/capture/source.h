// Where in the user's program an op was called. Addresses are kept when it happens; debug
// information is read only when somebody wants to see the line.
#pragma once

#include <string>
#include <vector>

namespace tenon::capture {

std::vector<void*> return_addresses();

// "policy.cpp:42" of the innermost frame that belongs neither to libtorch nor to Tenon, or
// "an unknown line (build with -g)". Starts a process (addr2line) for frames that were not asked for before.
std::string user_line(const std::vector<void*>& frames);
// One line for each list of frames; one process for each binary that they lie in.
std::vector<std::string> user_lines(const std::vector<std::vector<void*>>& stacks);

}  // namespace tenon::capture
