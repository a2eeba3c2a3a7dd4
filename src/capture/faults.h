// Page faults at reserved addresses (capture/address_space.h). This is the last way in which a read of
// contents that are still pending is noticed; tensors announce reads by themselves (capture/observed_tensor.h).
// The signal handler only passes the address on to a thread of its own and waits: nothing is compiled or run
// on the stack of the code that faulted.
#pragma once

#include <sys/types.h>

namespace tenon::capture {

struct Fault {
  const char* address;
  pid_t thread;
  bool is_write;
};

// Makes the address accessible. False if nobody knows it, or if the access is not to be allowed.
using FaultServer = bool (*)(const Fault& fault);

// Faults are served from now on, also in the children of a fork.
void serve_faults(FaultServer server);

// Puts the handler in front again if the program has installed another one since. Faults that are not ours go
// on to that one.
void keep_fault_handler();

// The calling thread's id, as in Fault.
pid_t this_thread();

}  // namespace tenon::capture
