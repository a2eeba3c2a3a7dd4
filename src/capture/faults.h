// Page faults at reserved addresses (capture/address_space.h). They catch the reads of pending contents that no tensor
// announces (capture/observed_tensor.h). The signal handler passes the address to a service thread and waits for it, so
// nothing is compiled or run on the stack of the code that faulted.
#pragma once

#include <sys/types.h>

namespace tenon::capture {

struct Fault {
  const char* address;
  pid_t thread;
  bool is_write;
};

// Makes the address accessible. Returns false if the address is unknown or the access is not allowed.
using FaultServer = bool (*)(const Fault& fault);

// Installs the signal handler. Faults are served from then on, also in the children of a fork.
void serve_faults(FaultServer server);

// Reinstalls our handler if the program has installed another one since. Faults at other addresses are passed on to that
// one.
void keep_fault_handler();

// The calling thread's id, comparable with Fault::thread.
pid_t this_thread();

}  // namespace tenon::capture
