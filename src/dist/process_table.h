// The processes of this host.
#pragma once

#include <string>

namespace tenon::dist {

// Distinguishes hosts, and containers on a host that have process tables of their own.
std::string place_id();
std::string host_name();

// The state letter and the start time of a process on this host; both empty if there is none.
struct ProcessState {
  char state = 0;
  std::string start_time;
};

ProcessState process_state(int pid);

}  // namespace tenon::dist
